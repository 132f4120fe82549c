import Glibc

/// A point of the monotonic clock, in nanoseconds since an arbitrary start on this machine.
public struct Instant: Comparable, Hashable, Sendable {
    /// Since the clock's start.
    public var nanoseconds: UInt64

    /// A point by its distance from the clock's start.
    @inlinable public init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }

    /// Reads the clock (`CLOCK_MONOTONIC`). On a loop prefer `EventLoop.now`, which is read once a tick.
    public static func read() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec))
    }

    /// The earliest instant.
    @inlinable public static var min: Instant { Instant(nanoseconds: .min) }
    /// The latest instant.
    @inlinable public static var max: Instant { Instant(nanoseconds: .max) }

    /// Earlier instants first.
    @inlinable public static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// The instant `duration` later; a negative duration counts as zero.
    @inlinable public func advanced(by duration: Duration) -> Instant {
        Instant(nanoseconds: nanoseconds &+ duration.wholeNanoseconds)
    }

    /// The instant `time` nanoseconds later.
    @inlinable public func advanced(byNanoseconds time: UInt64) -> Instant {
        Instant(nanoseconds: nanoseconds &+ time)
    }

    /// The time from `earlier` to this instant; zero when `earlier` is later.
    @inlinable public func duration(since earlier: Instant) -> Duration {
        .nanoseconds(Int64(clamping: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0))
    }
}
