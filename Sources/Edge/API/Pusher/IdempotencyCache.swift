import Bytes
import Clock
import Gateway
import Reactor

/// The answers to publishes that carried an `Idempotency-Key`, for a backend that sends the same again because the
/// answer did not reach it: it is published once. On all loops; any thread.
///
/// Bounded in number, in bytes and in time. A key is an app's own, and so is its place: beyond a bound the app that has most
/// loses its oldest (`SharedOrder`). What is being done is never given up. However many apps there are, one call looks at few.
final class IdempotencyCache: Sendable {
    struct Key: Hashable {
        /// The app's.
        let index: Int
        let bytes: [UInt8]
    }

    /// What a call with a key is to be answered with.
    enum Verdict {
        /// It came for the first time: the ticket is owed an answer, or that there is none.
        case new(Ticket)
        case kept(HTTPResponse)
        /// The same call is being done.
        case underWay
        /// The key came with another body.
        case otherCall
        /// So much is being done that there is no room for one more.
        case full
    }

    /// Names one use of a key.
    struct Ticket: Sendable {
        let key: Key
        fileprivate let serial: UInt64
    }

    private struct Entry {
        let serial: UInt64
        let call: CallDigest
        let endsAt: Instant
        /// Nil while it is being done.
        var answer: HTTPResponse?
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        /// Answered keys in the order in which they were, by the app's index; what is being done holds a place without one.
        var order: SharedOrder<Int, Ticket>
        /// Bytes of the answers, by the app's index.
        var bytes = Shares<Int, Void>()
        var serial: UInt64 = 0

        /// Takes away the key, where the ticket still stands for it.
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

    /// Keys whose time is over that one call takes away, for the others wait meanwhile.
    private static let forgottenAtOnce = 16

    private let state: Locked<State>
    private let keysMax: Int
    private let bytesMax: Int
    private let time: Duration

    /// - Parameters:
    ///   - keysMax: keys kept.
    ///   - time: how long each is.
    init(keysMax: Int, time: Duration, bytesMax: Int = APILimits.keptAnswerBytes) {
        self.keysMax = keysMax
        self.bytesMax = bytesMax
        self.time = time
        state = Locked(State(order: SharedOrder(bound: keysMax)))
    }

    /// A call with that key has come.
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

    /// It was done, and answered so.
    func complete(_ ticket: Ticket, _ answer: HTTPResponse) {
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

    /// It was refused, and nothing was done: the key is as good as new.
    func abandon(_ ticket: Ticket) {
        state.withLock { $0.remove(ticket) }
    }

    /// Keys, and bytes of answers, that are kept.
    var size: (keys: Int, bytes: Int) { state.withLock { ($0.order.total, $0.bytes.total) } }

    /// Places of the orders, those of keys that are gone among them.
    var orderCount: Int { state.withLock { $0.order.placeCount } }

    /// Takes away some of the keys whose time is over, whosever they are.
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
