/// What is left of a rate: a token bucket, stored as the time when all that was taken is made up for. A new allowance is
/// full, and so is one unused for a whole burst's time (the generic cell rate algorithm, ITU-T I.371).
public struct Allowance: Equatable, Comparable, Sendable {
    /// When all that was taken is made up for.
    @usableFromInline package var madeUpAt: Instant

    /// A full allowance.
    @inlinable public init() {
        madeUpAt = .min
    }

    /// True when less was taken from `left`.
    @inlinable public static func < (left: Allowance, right: Allowance) -> Bool { left.madeUpAt < right.madeUpAt }

    /// Whether it is not full.
    @inlinable public func isTouched(at now: Instant) -> Bool { madeUpAt > now }

    /// Takes `cost` if that much is left. A cost above the burst counts as a whole burst.
    @inlinable public mutating func take(_ rate: Rate, at now: Instant, cost: Int = 1) -> Bool {
        if rate.interval == 0 { return true }
        let start = ahead(rate, at: now)
        let next = rate.taking(cost, behind: start)
        // Never further ahead than a burst, even if the rate was slower when it was taken.
        madeUpAt = now.advanced(byNanoseconds: next ?? start)
        return next != nil
    }

    /// Takes `cost`, also where less is left: what is missing is a debt, of a whole burst at most.
    public mutating func charge(_ rate: Rate, at now: Instant, cost: Int) {
        if rate.interval == 0 { return }
        madeUpAt = now.advanced(byNanoseconds: min(owed(rate, at: now) &+ rate.time(of: cost), rate.window &* 2))
    }

    /// Takes one that is left, or one of the next `ahead` that will be. Returns how long it is until then; nil, and takes
    /// nothing, when all of those are taken.
    public mutating func reserve(_ rate: Rate, at now: Instant, ahead: Int) -> Duration? {
        if rate.interval == 0 { return .zero }
        let (later, isTooLong) = rate.interval.multipliedReportingOverflow(by: UInt64(max(0, ahead)))
        let most = rate.window &+ (isTooLong ? 1 << 61 : min(later, 1 << 61))
        let start = madeUpAt > now ? min(madeUpAt.nanoseconds &- now.nanoseconds, most) : 0
        let next = start &+ rate.interval
        guard next <= most else { return nil }
        madeUpAt = now.advanced(byNanoseconds: next)
        return next > rate.window ? .nanoseconds(Int64(next &- rate.window)) : .zero
    }

    /// How long until `cost` is available; nil when it is now.
    public func wait(_ rate: Rate, at now: Instant, cost: Int = 1) -> Duration? {
        wait(rate, at: now, forNanoseconds: rate.time(of: cost))
    }

    /// How long until the amount that accrues in `time` is available, a burst at most; nil when it is now.
    public func wait(_ rate: Rate, at now: Instant, forThatOf time: Duration) -> Duration? {
        wait(rate, at: now, forNanoseconds: min(time.wholeNanoseconds, rate.window))
    }

    private func wait(_ rate: Rate, at now: Instant, forNanoseconds time: UInt64) -> Duration? {
        let next = owed(rate, at: now) &+ time
        return next > rate.window ? .nanoseconds(Int64(next &- rate.window)) : nil
    }

    /// Gives one back.
    @inlinable public mutating func giveBack(_ rate: Rate) {
        madeUpAt = Instant(nanoseconds: madeUpAt.nanoseconds &- min(rate.interval, madeUpAt.nanoseconds))
    }

    @inlinable func ahead(_ rate: Rate, at now: Instant) -> UInt64 {
        madeUpAt > now ? min(madeUpAt.nanoseconds &- now.nanoseconds, rate.window) : 0
    }

    /// As `ahead`, with the debt.
    private func owed(_ rate: Rate, at now: Instant) -> UInt64 {
        madeUpAt > now ? min(madeUpAt.nanoseconds &- now.nanoseconds, rate.window &* 2) : 0
    }
}

/// An allowance in four bytes, because every connection has several. Its rates are whole ticks of 65,536 nanoseconds.
///
/// Ticks wrap after 78 hours: a time that old would seem to lie ahead, for one window. Call `settle` more often.
public struct SmallAllowance: Sendable {
    /// When all that was taken is made up for; 0: it already is.
    @usableFromInline var madeUpAt: UInt32 = 0

    @usableFromInline static var ticksPerSecond: UInt64 { 1_000_000_000 >> 16 }
    /// The longest window, about 19 hours: a quarter of the tick range.
    @usableFromInline static var windowMax: UInt64 { 1 << 30 }

    /// A full allowance.
    @inlinable public init() {}

    /// - Parameters:
    ///   - perSecond: 0: no bound. Only approximate above 1,000.
    ///   - burst: at least one.
    @inlinable public static func rate(perSecond: Int, burst: Int) -> Rate {
        guard perSecond > 0 else { return Rate(nanoseconds: 0, burst: 1) }
        let interval = max(1, ticksPerSecond / UInt64(perSecond))
        return Rate(nanoseconds: interval << 16, burst: min(burst, Int(windowMax / interval)))
    }

    /// Takes `cost` if that much is left. A cost above the burst counts as a whole burst.
    ///
    /// - Parameter rate: made by `SmallAllowance.rate`.
    @inlinable public mutating func take(_ rate: Rate, at now: Instant, cost: Int = 1) -> Bool {
        if rate.interval == 0 { return true }
        let time = UInt32(truncatingIfNeeded: now.nanoseconds >> 16)
        let ahead = isAhead(rate, at: now) ? UInt64(madeUpAt &- time) << 16 : 0
        guard let next = rate.taking(cost, behind: ahead) else { return false }
        // One tick more when 0 would mean that nothing was taken.
        madeUpAt = max(1, time &+ UInt32(truncatingIfNeeded: next >> 16))
        return true
    }

    /// Resets a past time before it can seem to lie ahead. Call it regularly.
    @inlinable public mutating func settle(_ rate: Rate, at now: Instant) {
        if !isAhead(rate, at: now) { madeUpAt = 0 }
    }

    @inlinable func isAhead(_ rate: Rate, at now: Instant) -> Bool {
        madeUpAt != 0 && madeUpAt &- UInt32(truncatingIfNeeded: now.nanoseconds >> 16) <= rate.window >> 16
    }
}
