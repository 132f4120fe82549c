/// An instant.
package struct Timestamp: Hashable, Comparable, Sendable {
    /// Microseconds since 1970-01-01T00:00Z, PostgreSQL's own resolution.
    package let microseconds: Int64

    /// The instant so many microseconds after 1970-01-01T00:00Z.
    package init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// The instants that clients may name: the years 2000 to 2100 in UTC.
    package static let accepted =
        Timestamp(microseconds: 946_684_800_000_000)..<Timestamp(microseconds: 4_133_980_800_000_000)

    /// By time.
    package static func < (left: Timestamp, right: Timestamp) -> Bool { left.microseconds < right.microseconds }

    /// The instant so many seconds later.
    package func adding(seconds: Int) -> Timestamp {
        Timestamp(microseconds: microseconds + Int64(seconds) * 1_000_000)
    }

    /// The day at this instant where clocks are `utcOffset` seconds ahead of UTC.
    package func date(utcOffset: Int) -> LocalDate {
        LocalDate(days: Int(Self.split(microseconds + Int64(utcOffset) * 1_000_000, by: 86_400_000_000).whole))
    }

    /// Quotient rounded down, and what is left, never negative.
    static func split(_ value: Int64, by divisor: Int64) -> (whole: Int64, rest: Int64) {
        let rest = value % divisor
        return rest < 0 ? (value / divisor - 1, rest + divisor) : (value / divisor, rest)
    }
}
