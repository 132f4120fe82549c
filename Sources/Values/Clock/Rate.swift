/// How often something may happen: a burst at once, then a steady rate.
public struct Rate: Equatable, Sendable {
    /// Nanoseconds between two; 0: no bound.
    @usableFromInline let interval: UInt64
    /// The time by which events may be ahead of the steady rate.
    @usableFromInline let window: UInt64

    /// - Parameters:
    ///   - interval: in nanoseconds; 0: no bound.
    ///   - burst: at least one.
    @inlinable public init(nanoseconds interval: UInt64, burst: Int) {
        let (window, isTooLong) = interval.multipliedReportingOverflow(by: UInt64(max(1, burst)))
        self.interval = interval
        // About 73 years at most, so that sums of times do not overflow.
        self.window = isTooLong ? 1 << 61 : min(window, 1 << 61)
    }

    /// - Parameters:
    ///   - perSecond: 0: no bound.
    ///   - burst: at least one.
    @inlinable public init(perSecond: Int, burst: Int) {
        self.init(nanoseconds: perSecond > 0 ? max(1, 1_000_000_000 / UInt64(perSecond)) : 0, burst: burst)
    }

    /// Whether there is a bound.
    @inlinable public var isBounded: Bool { interval > 0 }

    /// The time that makes up for `count`. A count above the burst counts as a whole burst.
    @inlinable func time(of count: Int) -> UInt64 {
        let (time, isTooLong) = interval.multipliedReportingOverflow(by: UInt64(max(0, count)))
        return isTooLong ? window : min(time, window)
    }

    /// The time ahead after taking `count` more; nil when too little is left.
    @inlinable func taking(_ count: Int, behind ahead: UInt64) -> UInt64? {
        let next = ahead &+ time(of: count)
        return next <= window ? next : nil
    }
}
