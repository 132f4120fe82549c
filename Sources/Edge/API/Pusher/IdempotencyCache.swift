import Bytes
import Clock
import Gateway
import HTTP
import Reactor

/// Keeps the answers to publishes with an `Idempotency-Key`. A backend that missed the answer and sends the call again gets
/// the first answer; the event is published once. Shared by all loops; any thread.
///
/// Bounded in number, bytes and time. Each app has its own keys and its own order: beyond a bound, the app that holds most
/// loses its oldest answer (`SharedOrder`). A call in progress is never evicted. One call inspects few apps, however many
/// there are.
final class IdempotencyCache: Sendable {
    struct Key: Hashable {
        /// The app's index.
        let index: Int
        let bytes: [UInt8]
    }

    enum Verdict {
        /// The key is new. The caller must end the ticket with `complete` or `abandon`.
        case new(Ticket)
        case kept(HTTPResponse)
        case underWay
        /// The key came before with another call.
        case otherCall
        /// Too many calls are in progress; there is no room for another.
        case full
    }

    struct Ticket: Sendable {
        let key: Key
        fileprivate let serial: UInt64
    }

    private struct Entry {
        let serial: UInt64
        let call: CallDigest
        let endsAt: Instant
        var answer: HTTPResponse?
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        /// Answered keys by app index, oldest answer first. A call in progress counts against the bound but is not in the
        /// order.
        var order: SharedOrder<Int, Ticket>
        /// Bytes of the answers, by the app's index.
        var bytes = Shares<Int, Void>()
        var serial: UInt64 = 0

        /// Removes the key if the ticket is its current use.
        mutating func remove(_ ticket: Ticket) {
            guard let entry = entries[ticket.key], entry.serial == ticket.serial else { return }
            let app = ticket.key.index
            entries[ticket.key] = nil
            if let answer = entry.answer {
                order.leave(of: app)
                bytes.add(-answer.body.count, to: app)
            } else {
                order.hold(-1, of: app)
            }
        }
    }

    /// Expired keys that one call removes: few, since other loops wait for the lock.
    private static let forgottenAtOnce = 16

    private let state: Locked<State>
    private let keysMax: Int
    private let bytesMax: Int
    private let time: Duration

    /// - Parameters:
    ///   - keysMax: the number of keys kept.
    ///   - time: how long each key is kept.
    init(keysMax: Int, time: Duration, bytesMax: Int = APILimits.keptAnswerBytes) {
        self.keysMax = keysMax
        self.bytesMax = bytesMax
        self.time = time
        state = Locked(State(order: SharedOrder(bound: keysMax)))
    }

    func begin(_ key: Key, _ call: CallDigest, at now: Instant) -> Verdict {
        state.withLock { state in
            forgetPast(at: now, &state)
            if let entry = state.entries[key] {
                if entry.answer == nil || entry.endsAt > now {
                    guard entry.call == call else { return .otherCall }
                    return entry.answer.map { .kept($0) } ?? .underWay
                }
                state.remove(Ticket(key: key, serial: entry.serial))
            }
            state.order.hold(1, of: key.index)
            while let excess = state.order.popExcess() { state.remove(excess) }
            guard state.order.total <= keysMax else {
                state.order.hold(-1, of: key.index)
                return .full
            }
            state.serial += 1
            let ticket = Ticket(key: key, serial: state.serial)
            state.entries[key] = Entry(serial: state.serial, call: call, endsAt: now.advanced(by: time), answer: nil)
            return .new(ticket)
        }
    }

    /// Keeps the answer; one that says to come back later leaves the key free.
    func settle(_ ticket: Ticket, _ answer: HTTPResponse) {
        if answer.status == .serviceUnavailable { abandon(ticket) } else { complete(ticket, answer) }
    }

    /// Stores the answer of a call that was carried out.
    private func complete(_ ticket: Ticket, _ answer: HTTPResponse) {
        state.withLock { state in
            let index = ticket.key.index
            guard let entry = state.entries[ticket.key], entry.serial == ticket.serial, entry.answer == nil else {
                return
            }
            state.entries[ticket.key]?.answer = answer
            state.bytes.add(answer.body.count, to: index)
            state.order.append(ticket, of: index, size: 0)
            while let excess = state.bytes.excess(beyond: bytesMax), let oldest = state.order.popFirst(of: excess.key) {
                state.remove(oldest)
            }
            state.order.sweep(of: index) { [entries = state.entries] in entries[$0.key]?.serial == $0.serial }
        }
    }

    /// Forgets a call that was refused and had no effect: its key may be used again.
    func abandon(_ ticket: Ticket) {
        state.withLock { $0.remove(ticket) }
    }

    /// Keys, and bytes of answers, that are kept.
    var size: (keys: Int, bytes: Int) { state.withLock { ($0.order.total, $0.bytes.total) } }

    /// Entries of the orders, including those whose keys are gone.
    var orderCount: Int { state.withLock { $0.order.slotCount } }

    /// Removes some expired keys, of any app.
    private func forgetPast(at now: Instant, _ state: inout State) {
        for _ in 0..<Self.forgottenAtOnce {
            let past = state.order.popFirst { [entries = state.entries] ticket in
                entries[ticket.key].map { $0.serial != ticket.serial || $0.endsAt <= now } ?? true
            }
            guard let past else { return }
            state.remove(past)
        }
    }
}
