import Bytes
import Clock
import Gateway
import Reactor

/// The answers to publishes that carried an `Idempotency-Key`, for whoever sends the same again because the answer did not
/// reach him: it is published once. On all loops; any thread.
///
/// Bounded in number, in bytes and in time: beyond, the oldest goes first. A key is an app's own, and so is its place: where
/// there is no room an app that has its even share gives up keys of its own, and else the one that has most does. What is
/// being done is never given up. However many apps there are, one call looks at few.
final class KeptAnswers: Sendable {
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

    /// What one app has.
    private struct Share {
        var keys = 0
        var answerBytes = 0
        /// Its answered keys in the order in which they were, and some that are gone.
        var order = Fifo<Ticket>()
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        /// By the app's index; of apps that have keys.
        var shares: [Int: Share] = [:]
        /// Apps by their answered keys, and by the bytes of the answers.
        var byKeys = LargestFirst()
        var byBytes = LargestFirst()
        /// Whose turn it is to have keys taken away whose time is over.
        var turn = 0
        var serial: UInt64 = 0
        var answerBytes = 0
    }

    /// Keys whose time is over that one call takes away, for the others wait meanwhile.
    private static let forgottenAtOnce = 16
    /// Apps of others in which it looks for them, where there is no room.
    private static let appsAtOnce = 2

    private let state = Locked(State())
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
    }

    /// A call with that key has come.
    func begin(_ key: Key, _ call: CallDigest, at now: Instant) -> Verdict {
        state.withLock { state in
            forgetPast(of: key.index, at: now, &state)
            if let entry = state.entries[key], entry.answer == nil || entry.endsAt > now {
                guard entry.call == call else { return .otherCall }
                return entry.answer.map { .kept($0) } ?? .underWay
            }
            remove(key, &state)
            if state.entries.count >= keysMax { forgetPastOfOthers(at: now, &state) }
            if state.entries.count >= keysMax {
                let own = state.shares[key.index]?.keys ?? 0
                let isOver = own > 0 && own >= keysMax / state.shares.count
                guard let app = isOver ? key.index : state.byKeys.first, forgetOldest(of: app, &state) else {
                    return .full
                }
            }
            state.serial += 1
            let ticket = Ticket(key: key, serial: state.serial)
            state.entries[key] = Entry(serial: state.serial, call: call, endsAt: now.advanced(by: time), answer: nil)
            state.shares[key.index, default: Share()].keys += 1
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
            state.byKeys.add(1, to: index)
            state.byBytes.add(answer.body.count, to: index)
            state.answerBytes += answer.body.count
            state.shares[index]?.answerBytes += answer.body.count
            state.shares[index]?.order.append(ticket)
            while state.answerBytes > bytesMax {
                let own = state.shares[index]?.answerBytes ?? 0
                let isOver = own > bytesMax / max(1, state.shares.count)
                guard let app = isOver ? index : state.byBytes.first, forgetOldest(of: app, &state) else { return }
            }
        }
    }

    /// It was refused, and nothing was done: the key is as good as new.
    func abandon(_ ticket: Ticket) {
        state.withLock { state in
            guard state.entries[ticket.key]?.serial == ticket.serial else { return }
            remove(ticket.key, &state)
        }
    }

    /// Keys, and bytes of answers, that are kept.
    var size: (keys: Int, bytes: Int) { state.withLock { ($0.entries.count, $0.answerBytes) } }

    /// Places of the orders, those of keys that are gone among them.
    var orderCount: Int { state.withLock { $0.shares.values.reduce(0) { $0 + $1.order.count } } }

    private func remove(_ key: Key, _ state: inout State) {
        guard let entry = state.entries.removeValue(forKey: key) else { return }
        let bytes = entry.answer?.body.count ?? 0
        if entry.answer != nil { state.byKeys.add(-1, to: key.index) }
        state.byBytes.add(-bytes, to: key.index)
        state.answerBytes -= bytes
        state.shares[key.index]?.answerBytes -= bytes
        state.shares[key.index]?.keys -= 1
        if state.shares[key.index]?.keys == 0 { state.shares[key.index] = nil }
    }

    /// The app's next answered key in its order; passes those that are gone.
    private func oldest(of app: Int, _ state: inout State) -> Ticket? {
        while let ticket = state.shares[app]?.order.first {
            if state.entries[ticket.key]?.serial == ticket.serial { return ticket }
            state.shares[app]?.order.popFirst()
        }
        return nil
    }

    /// Takes away some of the app's keys whose time is over.
    private func forgetPast(of app: Int, at now: Instant, _ state: inout State) {
        for _ in 0..<Self.forgottenAtOnce {
            guard let ticket = oldest(of: app, &state), let entry = state.entries[ticket.key], entry.endsAt <= now
            else {
                return
            }
            state.shares[app]?.order.popFirst()
            remove(ticket.key, &state)
        }
    }

    /// Takes away some of the keys of other apps, two at a time in turn, whose time is over.
    private func forgetPastOfOthers(at now: Instant, _ state: inout State) {
        for _ in 0..<Self.appsAtOnce where state.byKeys.count > 0 {
            state.turn = (state.turn + 1) % state.byKeys.count
            forgetPast(of: state.byKeys.app(at: state.turn), at: now, &state)
        }
    }

    /// False where there is none.
    private func forgetOldest(of app: Int, _ state: inout State) -> Bool {
        guard let ticket = oldest(of: app, &state) else { return false }
        state.shares[app]?.order.popFirst()
        remove(ticket.key, &state)
        return true
    }
}
