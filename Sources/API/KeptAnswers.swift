import Gateway
import Reactor

/// The answers to publishes that carried an `Idempotency-Key`, for whoever sends the same again because the answer did not
/// reach him: it is published once. On all loops; any thread.
///
/// Bounded in number, in bytes and in time: beyond, the oldest goes first. A key is an app's own.
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
        /// All keys, and some that are gone, in the order in which they came.
        var order: ContiguousArray<Ticket> = []
        /// Of them, those that have been looked at for the last time.
        var passed = 0
        var serial: UInt64 = 0
        var answerBytes = 0
    }

    /// So many more places than keys the order may have.
    private static let goneKept = 128

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
            forget(&state) { $0.endsAt <= now }
            if let entry = state.entries[key] {
                guard entry.call == call else { return .otherCall }
                return entry.answer.map { .kept($0) } ?? .underWay
            }
            while state.entries.count >= keysMax, forgetOldest(&state) {}
            state.serial += 1
            let ticket = Ticket(key: key, serial: state.serial)
            state.entries[key] = Entry(
                serial: state.serial, call: call, endsAt: now.advanced(by: time), answer: nil)
            state.order.append(ticket)
            if state.order.count > 2 * state.entries.count + Self.goneKept { dropGone(&state) }
            return .new(ticket)
        }
    }

    /// It was done, and answered so.
    func complete(_ ticket: Ticket, _ answer: HTTPResponse) {
        state.withLock { state in
            guard state.entries[ticket.key]?.serial == ticket.serial else { return }
            state.entries[ticket.key]?.answer = answer
            state.answerBytes += answer.body.count
            while state.answerBytes > bytesMax, forgetOldest(&state) {}
        }
    }

    /// It was refused, and nothing was done: the key is as good as new.
    func abandon(_ ticket: Ticket) {
        state.withLock { state in
            guard state.entries[ticket.key]?.serial == ticket.serial else { return }
            state.entries[ticket.key] = nil
        }
    }

    /// Keys, and bytes of answers, that are kept.
    var size: (keys: Int, bytes: Int) { state.withLock { ($0.entries.count, $0.answerBytes) } }

    /// Takes out of the order what is gone: keys that were abandoned, and what has been passed.
    private func dropGone(_ state: inout State) {
        state.order.removeAll { state.entries[$0.key]?.serial != $0.serial }
        state.passed = 0
    }

    /// Places of the order, those of keys that are gone among them.
    var orderCount: Int { state.withLock { $0.order.count } }

    /// Forgets the oldest keys as long as `isOver` says so of their entries.
    private func forget(_ state: inout State, while isOver: (Entry) -> Bool) {
        while state.passed < state.order.count {
            let ticket = state.order[state.passed]
            if let entry = state.entries[ticket.key], entry.serial == ticket.serial {
                guard isOver(entry) else { break }
                state.answerBytes -= entry.answer?.body.count ?? 0
                state.entries[ticket.key] = nil
            }
            state.passed += 1
        }
    }

    /// False where there is none.
    private func forgetOldest(_ state: inout State) -> Bool {
        let count = state.entries.count
        var isFirst = true
        forget(&state) { _ in
            defer { isFirst = false }
            return isFirst
        }
        return state.entries.count < count
    }
}
