import Pusher
import Reactor

/// The calls that were signed and came, for as long as their timestamps are good: one that comes again is a replay, or a
/// library's own second try, which cannot be told apart. Any thread.
///
/// By the minute of the timestamp, which is signed: the same call is looked for in its own minute only, and minutes that
/// no call can name any more go as a whole.
final class SeenCalls: Sendable {
    enum Verdict: Equatable {
        case new, seen
        /// As many are known as can be, and all of them are good still.
        case full
    }

    private struct Minutes {
        var marks: [Int64: Set<SignedCall.Mark>] = [:]
        var count = 0
    }

    private static let secondsPerMinute: Int64 = 60

    private let minutes = Locked(Minutes())
    private let callsMax: Int
    private let secondsApart: Int64

    init(callsMax: Int = APILimits.seenCalls, limits: CallLimits = CallLimits()) {
        self.callsMax = callsMax
        secondsApart = limits.secondsApart
    }

    /// Remembers the call. `now`: seconds since 1970.
    func insert(_ call: SignedCall, now: Int64) -> Verdict {
        let minute = call.timestamp / Self.secondsPerMinute
        return minutes.withLock { minutes in
            if minutes.marks[minute]?.contains(call.mark) ?? false { return .seen }
            if minutes.marks[minute] == nil || minutes.count >= callsMax {
                forget(before: (now - secondsApart) / Self.secondsPerMinute, &minutes)
            }
            guard minutes.count < callsMax else { return .full }
            minutes.marks[minute, default: []].insert(call.mark)
            minutes.count += 1
            return .new
        }
    }

    /// The call was refused, and may come again.
    func remove(_ call: SignedCall) {
        minutes.withLock { minutes in
            let minute = call.timestamp / Self.secondsPerMinute
            if minutes.marks[minute]?.remove(call.mark) != nil { minutes.count -= 1 }
        }
    }

    private func forget(before minute: Int64, _ minutes: inout Minutes) {
        for old in minutes.marks.keys where old < minute {
            minutes.count -= minutes.marks.removeValue(forKey: old)?.count ?? 0
        }
    }

    /// Calls remembered.
    var count: Int { minutes.withLock { $0.count } }
}
