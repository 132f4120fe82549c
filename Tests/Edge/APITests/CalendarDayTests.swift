import Testing

@testable import API

@Suite struct CalendarDayTests {
    /// All days of these years are read, and written as they were read.
    @Test(arguments: [
        (1, 365), (4, 366), (100, 365), (400, 366), (1900, 365), (2000, 366), (2023, 365), (2024, 366), (9999, 365),
    ])
    func aYearHasItsDays(_ year: Int, _ count: Int) {
        func padded(_ number: Int, _ width: Int) -> String { String(String(10_000 + number).suffix(width)) }
        let texts = (0...99).flatMap { month in
            (0...99).map { "\(padded(year, 4))-\(padded(month, 2))-\(padded($0, 2))" }
        }
        let days = texts.compactMap { CalendarDay($0) }
        #expect(days.count == count)
        #expect(days.map(\.description) == texts.filter { CalendarDay($0) != nil })
    }

    @Test(arguments: [
        "", "2025", "2025-01", "2025-1-01", "2025-01-1", "2025-01-011", "02025-01-01", "0000-01-01", "2025/01/01",
        "20250101", "2025-01-01 ", " 2025-1-01", "-025-01-01", "+025-01-01", "2025-+1-01", "2025-01--1", "2025-0\0-01",
        "2025-0١-01", "٢025-01-01", "2025-01-01T00:00", "infinity--1", "2025-01-0a",
    ])
    func textsThatAreNoDays(_ text: String) { #expect(CalendarDay(text) == nil) }

    @Test(arguments: [
        ("2025", "11", "2025-11-01"), ("2025", "9", "2025-09-01"), ("2025", "09", "2025-09-01"),
        ("1", "1", "0001-01-01"), ("0001", "01", "0001-01-01"), ("9999", "12", "9999-12-01"), ("0", "1", nil),
        ("10000", "1", nil), ("2025", "0", nil), ("2025", "13", nil), ("2025", "001", nil), ("2025", "", nil),
        ("", "1", nil), ("-1", "1", nil), ("2025", "-1", nil), ("2025", "１", nil), (" 025", "1", nil),
        ("99999999999999999999", "1", nil),
    ])
    func firstOfAMonth(_ year: String, _ month: String, _ day: String?) {
        #expect(CalendarDay(year: year, month: month)?.description == day)
    }
}
