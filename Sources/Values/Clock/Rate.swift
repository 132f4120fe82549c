/// How often something may happen: so many times at once, and then steadily.
public struct Rate: Equatable, Sendable {
    /// Between two, in nanoseconds; zero: no bound.
    @usableFromInline let interval: UInt64
    /// What may be ahead of its time.
    @usableFromInline let window: UInt64

    /// - Parameters:
    ///   - interval: in nanoseconds; 0: no bound.
    ///   - burst: one at least.
    @inlinable public init(nanoseconds interval: UInt64, burst: Int) {
        let (window, isTooLong) = interval.multipliedReportingOverflow(by: UInt64(max(1, burst)))
        self.interval = interval
        // A century: what lies ahead of the time stays a time.
        self.window = isTooLong ? 1 << 61 : min(window, 1 << 61)
    }

    /// - Parameters:
    ///   - perSecond: 0: no bound.
    ///   - burst: one at least.
    @inlinable public init(perSecond: Int, burst: Int) {
        self.init(nanoseconds: perSecond > 0 ? max(1, 1_000_000_000 / UInt64(perSecond)) : 0, burst: burst)
    }

    /// Whether this bounds anything.
    @inlinable public var isBounded: Bool { interval > 0 }

    /// The time in which so many are made up for. What costs more than a whole burst takes all of it.
    @inlinable func time(of count: Int) -> UInt64 {
        let (time, isTooLong) = interval.multipliedReportingOverflow(by: UInt64(max(0, count)))
        return isTooLong ? window : min(time, window)
    }

    /// What is ahead once so many more are taken; nil where there are not so many left.
    @inlinable func taking(_ count: Int, behind ahead: UInt64) -> UInt64? {
        let next = ahead &+ time(of: count)
        return next <= window ? next : nil
    }
}
