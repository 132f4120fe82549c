import Bytes
import HTTP

/// A parameter of a route: a path segment if the pattern has its name, otherwise a query parameter. It becomes an argument
/// of the route's function, in the order of the row.
package struct RouteParameter: Sendable {
    /// The values allowed, and their SQL type.
    package enum Kind: Sendable {
        /// A calendar day, such as 2025-11-14.
        case day
        /// A month, passed as its first day: `month=2025-11`, or `year=2025&month=11`.
        case month
        case integer(ClosedRange<Int>)
        /// A text whose length in bytes is in the range.
        case text(ClosedRange<Int>)
        case choice([String])

        var sqlType: String {
            switch self {
            case .day, .month: "date"
            case .integer: "bigint"
            case .text, .choice: "text"
            }
        }
    }

    /// What replaces a missing parameter.
    package enum Absence: Sendable {
        case null
        /// The request is refused.
        case refused
        case value(String)
    }

    let name: StaticString
    let kind: Kind
    let absence: Absence

    /// Without `absence`, a missing parameter is NULL.
    package init(_ name: StaticString, _ kind: Kind, absence: Absence = .null) {
        (self.name, self.kind, self.absence) = (name, kind, absence)
    }

    /// The value is invalid: names the parameter and what it takes.
    struct Problem: Error {
        let message: String
    }

    /// The request's argument, as PostgreSQL reads it.
    ///
    /// - Parameter capture: the path segment, if the parameter is one.
    func argument(capture: String?, query: [UInt8]) throws(Problem) -> String? {
        // Of two values, nobody knows which one is meant.
        for name in names where capture == nil && query.withUnsafeBytes({ FormReader.isRepeated(name, in: $0) }) {
            throw Problem(message: "\(name) is given twice.")
        }
        guard let text = capture ?? Self.value(name, query) else {
            if case .month = kind, Self.value("year", query) != nil { throw Problem(message: complaint) }
            switch absence {
            case .null: return nil
            case .refused: throw Problem(message: complaint)
            case .value(let value): return value
            }
        }
        // A query parameter cannot contain NUL. An id in a path with a NUL matches nothing, so it is not refused here.
        guard capture != nil || !text.holds(0), let argument = argument(text, query) else {
            throw Problem(message: complaint)
        }
        return argument
    }

    /// All that it is read from.
    private var names: [StaticString] { if case .month = kind { [name, "year"] } else { [name] } }

    private func argument(_ text: String, _ query: [UInt8]) -> String? {
        switch kind {
        case .day: return CalendarDay(text)?.description
        case .month where text.utf8.count > 2: return CalendarDay("\(text)-01")?.description
        case .month: return CalendarDay(year: Self.value("year", query) ?? "", month: text)?.description
        case .integer(let range):
            guard let number = Int(text), "\(number)" == text, range.contains(number) else { return nil }
            return text
        case .text(let range): return range.contains(text.utf8.count) ? text : nil
        case .choice(let values): return values.first { $0.hasSameBytes(as: text) }
        }
    }

    private var complaint: String {
        switch kind {
        case .day: "\(name) must be a day of the calendar such as 2025-11-14."
        case .month: "Name a month, such as \(name)=2025-11, or year=2025&\(name)=11."
        case .integer(let range): "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound)."
        case .text(let range): "\(name) must be a text of \(range.lowerBound) to \(range.upperBound) bytes."
        case .choice(let values): "\(name) must be one of \(values.joined(separator: ", "))."
        }
    }

    /// A value of the query; a NUL if it cannot be decoded.
    private static func value(_ name: StaticString, _ query: [UInt8]) -> String? {
        query.withUnsafeBytes { query in
            guard let raw = FormReader.rawValue(name, in: query) else { return nil }
            return Percent.decodeString(raw, plusIsSpace: true) ?? "\0"
        }
    }
}
