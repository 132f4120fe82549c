import Clock
import Synchronization

/// An allowance that all loops take from. Any thread; nothing waits.
final class SharedAllowance: Sendable {
    private let madeUpAt = Atomic<UInt64>(Allowance().madeUpAt.nanoseconds)

    /// Takes so many; else how long until there are so many. What costs more than a whole burst takes all of it.
    func take(_ rate: Rate, at now: Instant, cost: Int) -> Duration? {
        var seen = madeUpAt.load(ordering: .relaxed)
        while true {
            var allowance = Allowance()
            allowance.madeUpAt = Instant(nanoseconds: seen)
            let wait = allowance.take(rate, at: now, cost: cost) ? nil : allowance.wait(rate, at: now, cost: cost)
            let result = madeUpAt.compareExchange(
                expected: seen, desired: allowance.madeUpAt.nanoseconds, ordering: .relaxed)
            if result.exchanged { return wait }
            seen = result.original
        }
    }
}
