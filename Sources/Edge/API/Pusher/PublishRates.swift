import Channels
import Clock
import Reactor

/// How fast each app may publish, on all loops together (`AppLimits.publishesPerSecond`): so many at once, and then so
/// many each second. Any thread.
final class PublishRates: Sendable {
    /// For each app the time at which all that it has published will have been made up for.
    private let madeUp = Locked<[Int: Instant]>([:])

    /// Takes `count` publishes; else how long until there are so many. What is more than the burst at once is let through
    /// when the whole burst is there, or it never would be.
    func take(_ count: Int, of app: App, at now: Instant) -> Duration? {
        let limits = app.limits
        guard limits.publishesPerSecond > 0 else { return nil }
        let burst = limits.publishesBurst > 0 ? limits.publishesBurst : limits.publishesPerSecond
        let interval = 1_000_000_000 / Double(limits.publishesPerSecond)
        let window = interval * Double(burst)
        let cost = interval * Double(min(count, burst))
        return madeUp.withLock { madeUp in
            if madeUp[app.index] == nil, madeUp.count >= APILimits.publishRates {
                madeUp = madeUp.filter { $0.value > now }
            }
            let due = madeUp[app.index] ?? now
            var ahead = Double(due.duration(since: now).wholeNanoseconds)
            if ahead > window {
                // The app's rate was a lower one when that was published: it is made up for at today's.
                ahead = window
                madeUp[app.index] = now.advanced(byNanoseconds: UInt64(window))
            }
            guard ahead + cost <= window else { return .nanoseconds(Int64(ahead + cost - window)) }
            madeUp[app.index] = now.advanced(byNanoseconds: UInt64(ahead + cost))
            return nil
        }
    }

    /// Apps kept.
    var count: Int { madeUp.withLock { $0.count } }
}
