import CLinux

/// A point of the monotonic clock, in nanoseconds since an arbitrary start of this machine's.
public struct Instant: Comparable, Hashable, Sendable {
    /// Since the clock's start.
    public var nanoseconds: UInt64

    /// A point by its distance from the clock's start.
    @inlinable public init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }

    /// The clock read now (`CLOCK_MONOTONIC`). On a loop prefer `EventLoop.now`, read once a tick.
    public static func read() -> Instant {
        Instant(nanoseconds: cl_monotonic_nanoseconds())
    }

    /// Earlier.
    public static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// The instant `duration` later; a negative duration counts as none.
    public func advanced(by duration: Duration) -> Instant {
        Instant(nanoseconds: nanoseconds &+ duration.wholeNanoseconds)
    }

    /// The instant so many nanoseconds later.
    @inlinable public func advanced(byNanoseconds time: UInt64) -> Instant {
        Instant(nanoseconds: nanoseconds &+ time)
    }

    /// The time from `earlier` to this instant; zero where `earlier` is later.
    public func duration(since earlier: Instant) -> Duration {
        .nanoseconds(Int64(clamping: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0))
    }
}

extension Duration {
    /// Nanoseconds, never negative, clamped to about 146 years.
    package var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow
            ? UInt64(Int64.max / 2) : min(UInt64(scaled), UInt64(Int64.max / 2)) + UInt64(attoseconds / 1_000_000_000)
    }
}
