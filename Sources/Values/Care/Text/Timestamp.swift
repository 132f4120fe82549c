/// An instant.
package struct Timestamp: Hashable, Comparable, Sendable {
    /// Microseconds since 1970-01-01T00:00Z, PostgreSQL's own resolution.
    package let microseconds: Int64

    /// The instant at `microseconds`.
    package init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// The instants that clients may send: the years 2000 to 2100 in UTC.
    package static let accepted =
        Timestamp(microseconds: 946_684_800_000_000)..<Timestamp(microseconds: 4_133_980_800_000_000)

    /// Earlier instants first.
    package static func < (left: Timestamp, right: Timestamp) -> Bool { left.microseconds < right.microseconds }

    /// The instant `seconds` later.
    package func adding(seconds: Int) -> Timestamp {
        Timestamp(microseconds: microseconds + Int64(seconds) * 1_000_000)
    }

    /// The day at this instant, at an offset of `utcOffset` seconds from UTC.
    package func date(utcOffset: Int) -> LocalDate {
        LocalDate(days: Int(Self.split(microseconds + Int64(utcOffset) * 1_000_000, by: 86_400_000_000).whole))
    }

    /// The quotient rounded down, and the remainder, never negative.
    static func split(_ value: Int64, by divisor: Int64) -> (whole: Int64, rest: Int64) {
        let rest = value % divisor
        return rest < 0 ? (value / divisor - 1, rest + divisor) : (value / divisor, rest)
    }
}
