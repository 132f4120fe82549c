/// A duration in whole units: never negative, and clamped to about 146 years.
extension Duration {
    /// Rounded down.
    @inlinable public var wholeNanoseconds: UInt64 {
        let attoseconds = attoseconds
        // Taking a duration apart (`components`) costs two hundred instructions, and a division of 128 bits fifty: nearly
        // all durations here are shorter than 18 s, and cost neither.
        if let short = UInt64(exactly: attoseconds) { return short / 1_000_000_000 }
        return attoseconds < 0 ? 0 : UInt64(min(attoseconds / 1_000_000_000, Int128(Int64.max / 2)))
    }

    /// Rounded down.
    package var wholeMilliseconds: Int { Int(wholeNanoseconds / 1_000_000) }

    /// Rounded up: a timer with this value neither ends early nor spins.
    package var millisecondsRoundedUp: Int { Int((wholeNanoseconds + 999_999) / 1_000_000) }

    /// Rounded up.
    package var secondsRoundedUp: Int { Int((wholeNanoseconds + 999_999_999) / 1_000_000_000) }
}
