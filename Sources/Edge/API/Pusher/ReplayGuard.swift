import Bytes
import Pusher
import Reactor

/// The calls that were signed and came, for as long as their timestamps are good: one that comes again is a replay, or a
/// library's own second try, which cannot be told apart. Any thread.
///
/// By the minute of the timestamp, which is signed: the same call is looked for in its own minute only, and minutes that
/// no call can name any more go as a whole.
///
/// An app may have four times as many as there is room left for, no more: one that calls without end fills four fifths, and
/// room is always left for the others.
final class ReplayGuard: Sendable {
    enum Verdict: Equatable {
        case new, seen
        /// As many of the app's are known as can be, and all of them are good still.
        case full
    }

    private struct Minutes {
        /// By minute and app.
        var marks: [Int64: [Int: Set<SignedCall.Mark>]] = [:]
        /// How many, by app.
        var shares = Shares<Int, Void>()
    }

    private static let secondsPerMinute: Int64 = 60
    /// So many times the room left an app may have.
    private static let share = 4

    private let minutes = Locked(Minutes())
    private let callsMax: Int
    private let secondsApart: Int64
    private let startedAt: Int64

    /// - Parameter startedAt: when calls began to be remembered, in seconds since 1970.
    init(callsMax: Int = APILimits.seenCalls, limits: CallLimits = CallLimits(), startedAt: Int64 = .min) {
        self.callsMax = callsMax
        self.startedAt = startedAt
        secondsApart = limits.secondsApart
    }

    /// Remembers the call, or tells why it is refused.
    func take(_ call: SignedCall, of app: Int, now: Int64) throws(CallProblem) {
        // Nobody remembers what came before, and of that second not all.
        guard call.timestamp > startedAt else { throw .beforeStart }
        switch insert(call, of: app, now: now) {
        case .new: break
        case .seen: throw .replay
        case .full: throw .tooManyCalls
        }
    }

    /// Remembers the call. `app`: its index; `now`: seconds since 1970.
    func insert(_ call: SignedCall, of app: Int, now: Int64) -> Verdict {
        let minute = call.timestamp / Self.secondsPerMinute
        return minutes.withLock { minutes in
            if minutes.marks[minute]?[app]?.contains(call.mark) ?? false { return .seen }
            if minutes.marks[minute] == nil || !hasRoom(for: app, minutes) {
                forget(before: (now - secondsApart) / Self.secondsPerMinute, &minutes)
            }
            guard hasRoom(for: app, minutes) else { return .full }
            minutes.marks[minute, default: [:]][app, default: []].insert(call.mark)
            minutes.shares.add(1, to: app)
            return .new
        }
    }

    /// The call was refused, and may come again.
    func remove(_ call: SignedCall, of app: Int) {
        minutes.withLock { minutes in
            let minute = call.timestamp / Self.secondsPerMinute
            if minutes.marks[minute]?[app]?.remove(call.mark) != nil { minutes.shares.add(-1, to: app) }
        }
    }

    private func hasRoom(for app: Int, _ minutes: Minutes) -> Bool {
        minutes.shares[app] < Self.share * (callsMax - minutes.shares.total)
    }

    private func forget(before minute: Int64, _ minutes: inout Minutes) {
        for old in minutes.marks.keys where old < minute {
            for (app, marks) in minutes.marks.removeValue(forKey: old) ?? [:] {
                minutes.shares.add(-marks.count, to: app)
            }
        }
    }

    /// Calls remembered.
    var count: Int { minutes.withLock { $0.shares.total } }
}
