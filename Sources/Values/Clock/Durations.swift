/// A duration in whole units: never negative, and clamped to about 146 years.
extension Duration {
    /// Rounded down.
    @inlinable public var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow
            ? UInt64(Int64.max / 2) : min(UInt64(scaled), UInt64(Int64.max / 2)) + UInt64(attoseconds / 1_000_000_000)
    }

    /// Rounded down.
    package var wholeMilliseconds: Int { Int(wholeNanoseconds / 1_000_000) }

    /// Rounded up: a timer with this value neither ends early nor spins.
    package var millisecondsRoundedUp: Int { Int((wholeNanoseconds + 999_999) / 1_000_000) }

    /// Rounded up.
    package var secondsRoundedUp: Int { Int((wholeNanoseconds + 999_999_999) / 1_000_000_000) }
}
