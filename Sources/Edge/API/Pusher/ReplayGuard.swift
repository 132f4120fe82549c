import Bytes
import Pusher
import Reactor

/// Remembers signed calls while their timestamps are valid. A call that comes again is a replay, or a retry by a library;
/// the two cannot be told apart. Any thread.
///
/// Calls are grouped by the minute of their signed timestamp. A repeated call is looked up in its minute only, and minutes
/// that are no longer valid are removed whole.
///
/// An app may hold at most four times the remaining room. An app that calls without end fills four fifths, so other apps
/// always have room.
final class ReplayGuard: Sendable {
    enum Verdict: Equatable {
        case new, seen
        /// The app holds as many calls as it may, and all are still valid.
        case full
    }

    private struct Minutes {
        /// By minute, then by app index.
        var marks: [Int64: [Int: Set<SignedCall.Mark>]] = [:]
        /// The number of calls by app index.
        var shares = Shares<Int, Void>()
    }

    private static let secondsPerMinute: Int64 = 60
    /// An app may hold this many times the remaining room.
    private static let share = 4

    private let minutes = Locked(Minutes())
    private let callsMax: Int
    private let secondsApart: Int64
    private let startedAt: Int64

    /// - Parameter startedAt: when remembering began, in seconds since 1970.
    init(callsMax: Int = APILimits.seenCalls, limits: CallLimits = CallLimits(), startedAt: Int64 = .min) {
        self.callsMax = callsMax
        self.startedAt = startedAt
        secondsApart = limits.secondsApart
    }

    func take(_ call: SignedCall, of app: Int, now: Int64) throws(CallProblem) {
        // Calls before the start were not remembered, and of its second not all.
        guard call.timestamp > startedAt else { throw .beforeStart }
        switch insert(call, of: app, now: now) {
        case .new: break
        case .seen: throw .replay
        case .full: throw .tooManyCalls
        }
    }

    /// Remembers the call. `app` is the app's index; `now` is in seconds since 1970.
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

    /// Forgets a call that was refused, so it may be sent again.
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

    var count: Int { minutes.withLock { $0.shares.total } }
}
