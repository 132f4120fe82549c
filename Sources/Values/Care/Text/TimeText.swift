import Bytes

/// Times and days as text: ISO 8601 from clients, and PostgreSQL's JSON format.
package enum TimeText {
    // MARK: Reading

    /// `YYYY-MM-DDTHH:MM[:SS[.f{1,9}]]` with `Z` or an offset (`+HH:MM`, `+HHMM`, `+HH`); nil for all else. Hours to 23,
    /// seconds to 59, offsets to 15:59. Fractions are cut to microseconds.
    package static func instant(_ text: String) -> Timestamp? { time(text)?.instant }

    /// As `instant`, with the offset in seconds; nil for `Z`, which names no place's offset.
    package static func time(_ text: String) -> (instant: Timestamp, utcOffset: Int?)? {
        var reader = TimeReader(text)
        guard let date = reader.date(), reader.take("T"), let hour = reader.number(digits: 2, to: 23),
            reader.take(":"), let minute = reader.number(digits: 2, to: 59)
        else { return nil }
        var second = 0
        var fraction = 0
        if reader.take(":") {
            guard let whole = reader.number(digits: 2, to: 59) else { return nil }
            second = whole
            if reader.take(".") {
                guard let part = reader.fraction() else { return nil }
                fraction = part
            }
        }
        let isZulu = reader.take("Z")
        guard let offset = isZulu ? 0 : reader.offset(), reader.isAtEnd else { return nil }
        let seconds = date.days * 86_400 + hour * 3600 + minute * 60 + second - offset
        let instant = Timestamp(microseconds: Int64(seconds) * 1_000_000 + Int64(fraction))
        return (instant, isZulu ? nil : offset)
    }

    /// `YYYY-MM-DD`, an existing day; nil for all else.
    package static func day(_ text: String) -> LocalDate? {
        var reader = TimeReader(text)
        guard let date = reader.date(), reader.isAtEnd else { return nil }
        return date
    }

    // MARK: Writing

    /// `YYYY-MM-DD`.
    package static func text(_ day: LocalDate) -> String {
        let (year, month, dayOfMonth) = day.civil
        return padded(year, 4) + "-" + padded(month, 2) + "-" + padded(dayOfMonth, 2)
    }

    /// As `jsonb` writes a `timestamptz`: `2025-11-14T08:00:00.5+00:00`, fractions without trailing zeros. The local time is
    /// that at an offset of `utcOffset` seconds.
    package static func text(_ instant: Timestamp, utcOffset: Int = 0) -> String {
        let (seconds, fraction) = Timestamp.split(instant.microseconds, by: 1_000_000)
        var text = wall(seconds + Int64(utcOffset))
        if fraction > 0 {
            var digits = padded(Int(fraction), 6)
            while digits.last == "0" { digits.removeLast() }
            text += "." + digits
        }
        return text + offset(utcOffset)
    }

    /// The local time at an offset of `utcOffset` seconds, in whole seconds: `2025-11-14T08:00:00-05:00`.
    package static func local(_ instant: Timestamp, utcOffset: Int) -> String {
        let seconds = Timestamp.split(instant.microseconds, by: 1_000_000).whole
        return wall(seconds + Int64(utcOffset)) + offset(utcOffset)
    }

    private static func offset(_ seconds: Int) -> String {
        let minutes = abs(seconds) / 60
        return (seconds < 0 ? "-" : "+") + padded(minutes / 60, 2) + ":" + padded(minutes % 60, 2)
    }

    private static func wall(_ seconds: Int64) -> String {
        let (days, rest) = Timestamp.split(seconds, by: 86_400)
        let clock = Int(rest)
        return text(LocalDate(days: Int(days))) + "T" + padded(clock / 3600, 2) + ":" + padded(clock / 60 % 60, 2) + ":"
            + padded(clock % 60, 2)
    }

    private static func padded(_ number: Int, _ digits: Int) -> String {
        let text = String(number)
        return text.utf8.count < digits ? String(repeating: "0", count: digits - text.utf8.count) + text : text
    }
}

/// Reads the parts of a time from its text, from left to right.
private struct TimeReader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ text: String) {
        bytes = Array(text.utf8.prefix(64))
    }

    var isAtEnd: Bool { position == bytes.count }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    mutating func number(digits: Int, to limit: Int) -> Int? {
        guard bytes.count - position >= digits else { return nil }
        var value = 0
        for byte in bytes[position..<position + digits] {
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            value = value * 10 + Int(byte - 0x30)
        }
        guard value <= limit else { return nil }
        position += digits
        return value
    }

    mutating func date() -> LocalDate? {
        guard let year = number(digits: 4, to: 9999), take("-"), let month = number(digits: 2, to: 12), take("-"),
            let day = number(digits: 2, to: 31)
        else { return nil }
        return LocalDate(year: year, month: month, day: day)
    }

    /// One to nine digits as microseconds.
    mutating func fraction() -> Int? {
        var value = 0
        var count = 0
        while let digit = number(digits: 1, to: 9) {
            guard count < 9 else { return nil }
            if count < 6 { value = value * 10 + digit }
            count += 1
        }
        guard count > 0 else { return nil }
        while count < 6 {
            value *= 10
            count += 1
        }
        return value
    }

    /// Seconds ahead of UTC.
    mutating func offset() -> Int? {
        let sign = take("+") ? 1 : take("-") ? -1 : 0
        guard sign != 0, let hours = number(digits: 2, to: 15) else { return nil }
        var minutes = 0
        if take(":") || !isAtEnd {
            guard let given = number(digits: 2, to: 59) else { return nil }
            minutes = given
        }
        return sign * (hours * 3600 + minutes * 60)
    }
}
