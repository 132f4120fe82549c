/// What is left of a rate: known by when all that was taken will have been made up for. So a new one is whole, and one that
/// was left alone for as long as a burst is whole again (the generic cell rate algorithm, ITU-T I.371).
public struct Allowance: Equatable, Comparable, Sendable {
    @usableFromInline var madeUpAt: Instant

    /// A whole one.
    @inlinable public init() {
        madeUpAt = .min
    }

    /// Less was taken.
    @inlinable public static func < (left: Allowance, right: Allowance) -> Bool { left.madeUpAt < right.madeUpAt }

    /// Whether something is still to be made up for.
    @inlinable public func isTouched(at now: Instant) -> Bool { madeUpAt > now }

    /// Takes so many, unless there are not so many left. What costs more than a whole burst takes all of it.
    @inlinable public mutating func take(_ rate: Rate, at now: Instant, cost: Int = 1) -> Bool {
        if rate.interval == 0 { return true }
        let start = ahead(rate, at: now)
        let next = rate.taking(cost, behind: start)
        // Never further ahead than a burst, though the rate was a slower one when that was taken.
        madeUpAt = now.advanced(byNanoseconds: next ?? start)
        return next != nil
    }

    /// How long until there are so many; nil where there are.
    public func wait(_ rate: Rate, at now: Instant, cost: Int = 1) -> Duration? {
        wait(rate, at: now, forNanoseconds: rate.time(of: cost))
    }

    /// How long until there is what comes in that time, a whole burst at most; nil where there is.
    public func wait(_ rate: Rate, at now: Instant, forThatOf time: Duration) -> Duration? {
        wait(rate, at: now, forNanoseconds: min(time.wholeNanoseconds, rate.window))
    }

    private func wait(_ rate: Rate, at now: Instant, forNanoseconds time: UInt64) -> Duration? {
        let next = ahead(rate, at: now) &+ time
        return next > rate.window ? .nanoseconds(Int64(next &- rate.window)) : nil
    }

    /// Gives one back.
    @inlinable public mutating func giveBack(_ rate: Rate) {
        madeUpAt = Instant(nanoseconds: madeUpAt.nanoseconds &- min(rate.interval, madeUpAt.nanoseconds))
    }

    @inlinable func ahead(_ rate: Rate, at now: Instant) -> UInt64 {
        madeUpAt > now ? min(madeUpAt.nanoseconds &- now.nanoseconds, rate.window) : 0
    }
}

/// An allowance in four bytes: every connection has some. Its rates are whole ticks of 65,536 nanoseconds.
///
/// Ticks wrap after 78 hours: what was made up for so long ago seems to be ahead again, for as long as the window is. So
/// `settle` has to be called now and then, more often than that.
public struct SmallAllowance: Sendable {
    /// When all that was taken will have been made up for; 0: it has been.
    @usableFromInline var madeUpAt: UInt32 = 0

    @usableFromInline static var ticksPerSecond: UInt64 { 1_000_000_000 >> 16 }
    /// The longest window, some 19 hours: a quarter of what is counted.
    @usableFromInline static var windowMax: UInt64 { 1 << 30 }

    /// A whole one.
    @inlinable public init() {}

    /// - Parameters:
    ///   - perSecond: 0: no bound. Above 1,000 it holds roughly only.
    ///   - burst: one at least.
    @inlinable public static func rate(perSecond: Int, burst: Int) -> Rate {
        guard perSecond > 0 else { return Rate(nanoseconds: 0, burst: 1) }
        let interval = max(1, ticksPerSecond / UInt64(perSecond))
        return Rate(nanoseconds: interval << 16, burst: min(burst, Int(windowMax / interval)))
    }

    /// Takes so many, unless there are not so many left. What costs more than a whole burst takes all of it.
    ///
    /// - Parameter rate: of this type's.
    @inlinable public mutating func take(_ rate: Rate, at now: Instant, cost: Int = 1) -> Bool {
        if rate.interval == 0 { return true }
        let time = UInt32(truncatingIfNeeded: now.nanoseconds >> 16)
        let ahead = isAhead(rate, at: now) ? UInt64(madeUpAt &- time) << 16 : 0
        guard let next = rate.taking(cost, behind: ahead) else { return false }
        // A tick more, where that would say that nothing was taken.
        madeUpAt = max(1, time &+ UInt32(truncatingIfNeeded: next >> 16))
        return true
    }

    /// Forgets what has been made up for, before it seems to be ahead again.
    @inlinable public mutating func settle(_ rate: Rate, at now: Instant) {
        if !isAhead(rate, at: now) { madeUpAt = 0 }
    }

    @inlinable func isAhead(_ rate: Rate, at now: Instant) -> Bool {
        madeUpAt != 0 && madeUpAt &- UInt32(truncatingIfNeeded: now.nanoseconds >> 16) <= rate.window >> 16
    }
}
