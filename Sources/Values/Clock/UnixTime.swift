import Glibc

/// A point of the wall clock, in microseconds since 1970. Clamped at both ends, because peers send times, too.
package struct UnixTime: Comparable, Sendable {
    /// Since 1970, without leap seconds (POSIX.1-2017 §4.16).
    package let microseconds: Int64

    /// A time, in microseconds since 1970.
    package init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// From whole seconds, as in tokens (RFC 7519 §2, NumericDate).
    package init(seconds: Int64) {
        let (product, isTooFar) = seconds.multipliedReportingOverflow(by: 1_000_000)
        microseconds = isTooFar ? (seconds < 0 ? .min : .max) : product
    }

    /// Reads the wall clock (`CLOCK_REALTIME`).
    package static func read() -> UnixTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UnixTime(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
    }

    /// Earlier times first.
    package static func < (left: UnixTime, right: UnixTime) -> Bool { left.microseconds < right.microseconds }

    /// The time `duration` later (earlier when negative), in whole microseconds.
    package func advanced(by duration: Duration) -> UnixTime {
        let (seconds, attoseconds) = duration.components
        let whole = UnixTime(seconds: seconds).microseconds
        // Both have the same sign, and the second is below a million.
        let (sum, isTooFar) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000)
        guard !isTooFar else { return UnixTime(microseconds: whole < 0 ? .min : .max) }
        let (total, isBeyond) = microseconds.addingReportingOverflow(sum)
        return UnixTime(microseconds: isBeyond ? (sum < 0 ? .min : .max) : total)
    }

    /// The time until `later`; zero when `later` has passed.
    package func duration(until later: UnixTime) -> Duration {
        guard later > self else { return .zero }
        let (difference, isTooFar) = later.microseconds.subtractingReportingOverflow(microseconds)
        return .microseconds(isTooFar ? .max : difference)
    }
}
