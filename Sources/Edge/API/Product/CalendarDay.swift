/// A day of the proleptic Gregorian calendar in ISO 8601 form, years 1 to 9999.
struct CalendarDay: Equatable, CustomStringConvertible {
    let year: Int
    let month: Int
    let day: Int

    /// Reads exactly `2025-11-14`; nil if there is no such day.
    init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 10, digits[4] == UInt8(ascii: "-"), digits[7] == UInt8(ascii: "-"),
            let year = Self.number(digits[0..<4]), let month = Self.number(digits[5..<7]),
            let day = Self.number(digits[8..<10])
        else { return nil }
        self.init(year: year, month: month, day: day)
    }

    /// The first day of a month, from texts such as `2025` and `11` or `9`.
    init?(year: String, month: String) {
        guard year.utf8.count <= 4, month.utf8.count <= 2, let year = Self.number(year.utf8),
            let month = Self.number(month.utf8)
        else { return nil }
        self.init(year: year, month: month, day: 1)
    }

    private init?(year: Int, month: Int, day: Int) {
        guard (1...9999).contains(year), (1...12).contains(month), day >= 1, day <= Self.days(year, month) else {
            return nil
        }
        (self.year, self.month, self.day) = (year, month, day)
    }

    var description: String { "\(Self.padded(year, to: 4))-\(Self.padded(month, to: 2))-\(Self.padded(day, to: 2))" }

    private static func days(_ year: Int, _ month: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return switch month {
        case 2: isLeap ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private static func number(_ digits: some Collection<UInt8>) -> Int? {
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    private static func padded(_ number: Int, to width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}
