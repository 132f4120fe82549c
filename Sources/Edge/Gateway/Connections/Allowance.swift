import Clock
import Reactor

/// How often a peer may do something: so many times at once, and then so many each second.
struct Rate: Equatable, Sendable {
    /// Between two, in ticks of `Allowance`; zero: no bound.
    let interval: UInt32
    /// What may be ahead of its time.
    let window: UInt32

    /// - Parameters:
    ///   - perSecond: 0: no bound. Above 1,000 it holds roughly only.
    ///   - burst: at least one.
    init(perSecond: Int, burst: Int) {
        interval = perSecond > 0 ? UInt32(clamping: max(1, Allowance.ticksPerSecond / UInt64(perSecond))) : 0
        window = UInt32(clamping: min(UInt64(interval) * UInt64(max(1, burst)), UInt64(UInt32.max) / 4))
    }
}

/// What one peer has left of a rate, in four bytes: every connection has some.
///
/// Ticks wrap after 78 hours: what was made up for so long ago seems to be ahead again, for as long as the window is. So
/// `settle` has to be called now and then, more often than that.
struct Allowance: Sendable {
    /// When all that was taken will have been made up for; 0: it has been.
    private var madeUp: UInt32 = 0

    /// Of 2^16 nanoseconds.
    static let ticksPerSecond: UInt64 = 1_000_000_000 >> 16

    /// Takes so many, unless there are not so many left. What costs more than a whole burst takes all of it.
    @inline(__always)
    mutating func take(_ rate: Rate, at now: Instant, cost: Int = 1) -> Bool {
        if rate.interval == 0 { return true }
        let time = UInt32(truncatingIfNeeded: now.nanoseconds >> 16)
        let ahead = madeUp &- time
        let start = madeUp != 0 && ahead <= rate.window ? ahead : 0
        let ticks = UInt32(truncatingIfNeeded: min(Int(rate.window), Int(rate.interval) &* cost))
        guard start &+ ticks <= rate.window else { return false }
        // A tick more, where that would say that nothing was taken.
        madeUp = max(1, time &+ start &+ ticks)
        return true
    }

    /// Forgets what has been made up for, before it seems to be ahead again.
    mutating func settle(_ rate: Rate, at now: Instant) {
        let time = UInt32(truncatingIfNeeded: now.nanoseconds >> 16)
        if madeUp &- time > rate.window { madeUp = 0 }
    }
}
