import Channels
import Clock
import Reactor

/// How fast each app may publish, on all loops together (`AppLimits.publishesPerSecond`): so many at once, and then so
/// many each second. Any thread.
final class PublishRates: Sendable {
    /// By the app's index.
    private let allowances = Locked<[Int: Allowance]>([:])

    /// Takes `count` publishes; else how long until there are so many. What is more than the burst at once is let through
    /// when the whole burst is there, or it never would be.
    func take(_ count: Int, of app: App, at now: Instant) -> Duration? {
        let limits = app.limits
        guard limits.publishesPerSecond > 0 else { return nil }
        let burst = limits.publishesBurst > 0 ? limits.publishesBurst : limits.publishesPerSecond
        let rate = Rate(perSecond: limits.publishesPerSecond, burst: burst)
        return allowances.withLock { allowances in
            if allowances[app.index] == nil, allowances.count >= APILimits.publishRates {
                allowances = allowances.filter { $0.value.isTouched(at: now) }
            }
            var allowance = allowances[app.index] ?? Allowance()
            defer { allowances[app.index] = allowance }
            return allowance.take(rate, at: now, cost: count) ? nil : allowance.wait(rate, at: now, cost: count)
        }
    }

    /// Apps kept.
    var count: Int { allowances.withLock { $0.count } }
}
