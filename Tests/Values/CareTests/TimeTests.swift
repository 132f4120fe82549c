import Care
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15)))
struct TimeTests {
    @Test(arguments: [
        ("1970-01-01T00:00Z", 0),
        ("2025-11-14T08:00:00-05:00", 1_763_125_200_000_000),
        ("2025-11-14T08:00-05:00", 1_763_125_200_000_000),
        ("2025-11-14T13:00:00.5Z", 1_763_125_200_500_000),
        ("2025-11-14T13:00:00.000001+00:00", 1_763_125_200_000_001),
        ("2025-11-14T13:00:00.0000019Z", 1_763_125_200_000_001),
        ("2025-11-14T13:00:00.999999999Z", 1_763_125_200_999_999),
        ("2025-11-14T08:00:00.5-0500", 1_763_125_200_500_000),
        ("2025-11-14T08:00-05", 1_763_125_200_000_000),
        ("2000-02-29T23:59:59.999999-15:59", 951_926_339_999_999),
        ("0001-01-01T00:00Z", -62_135_596_800_000_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000_000),
    ])
    func readsTimes(_ text: String, _ microseconds: Int64) {
        #expect(TimeText.instant(text)?.microseconds == microseconds)
    }

    @Test(
        arguments: [
            ("2025-11-14T13:00:00.5Z", nil, nil),
            ("2025-11-14T08:00:00.5-05:00", -18_000, "2025-11-14T08:00:00.5-05:00"),
            ("2025-11-14T18:45+0545", 20_700, "2025-11-14T18:45:00+05:45"),
            ("2025-11-14T09:30-03:30", -12_600, "2025-11-14T09:30:00-03:30"),
            ("2025-11-14T13:00-00", 0, "2025-11-14T13:00:00+00:00"),
        ] as [(String, Int?, String?)])
    func keepsOffsets(_ text: String, _ offset: Int?, _ written: String?) throws {
        let time = try #require(TimeText.time(text))
        #expect(time.utcOffset == offset)
        #expect(offset.map { TimeText.text(time.instant, utcOffset: $0) } == written)
    }

    @Test(arguments: [
        "", "2025-11-14", "2025-11-14T08:00", "2025-11-14T08:00:00", "2025-11-14 08:00Z", "2025-11-14t08:00Z",
        "2025-11-14T08:00z", "2025-11-14T24:00Z", "2025-11-14T08:60Z", "2025-11-14T08:00:60Z", "2025-11-14T8:00Z",
        "2025-11-14T08:00:00.Z", "2025-11-14T08:00:00.1234567891Z", "2025-11-14T08:00.5Z", "2025-11-14T08:00+010",
        "2025-11-14T08:00+1", "2025-11-14T08:00+01:",
        "2025-11-14T08:00+16:00", "2025-11-14T08:00+01:60", "2025-11-14T08:00Z ",
        " 2025-11-14T08:00Z", "2025-02-29T08:00Z", "2100-02-29T08:00Z", "2025-13-01T08:00Z", "2025-00-01T08:00Z",
        "2025-01-00T08:00Z", "2025-04-31T08:00Z", "0000-01-01T08:00Z", "+2025-11-14T08:00Z", "2025-11-14T08:00Zé",
        "٢٠٢٥-11-14T08:00Z",
    ])
    func refusesOthers(_ text: String) {
        #expect(TimeText.instant(text) == nil)
    }

    /// Any part of a valid time is a valid time or nil, and never traps.
    @Test func readsEveryPart() {
        let whole = "2025-11-14T13:00:00.123456-05:30"
        let good = [whole, "2025-11-14T13:00:00.123456-05"]
        for end in 0...whole.utf8.count {
            let part = String(decoding: whole.utf8.prefix(end), as: UTF8.self)
            #expect((TimeText.instant(part) != nil) == good.contains(part), "\(part)")
            let rest = String(decoding: whole.utf8.dropFirst(end), as: UTF8.self)
            #expect((TimeText.instant(rest) != nil) == good.contains(rest), "\(rest)")
        }
    }

    @Test func survivesRandomBytes() {
        var random = SeededRandom()
        let example = Array("2025-11-14T13:00:00.123456-05:30".utf8)
        for _ in 0..<5000 {
            let bytes = Mutation.apply(to: example, other: example, using: &random)
            let text = String(decoding: bytes, as: UTF8.self)
            if let instant = TimeText.instant(text) { #expect(TimeText.instant(TimeText.text(instant)) == instant) }
        }
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00+00:00"),
            (-1, "1969-12-31T23:59:59.999999+00:00"),
            (1_763_125_200_500_000, "2025-11-14T13:00:00.5+00:00"),
            (1_763_125_200_000_010, "2025-11-14T13:00:00.00001+00:00"),
        ] as [(Int64, String)])
    func writesTimes(_ microseconds: Int64, _ text: String) {
        #expect(TimeText.text(Timestamp(microseconds: microseconds)) == text)
    }

    @Test(arguments: [
        (0, "2025-11-14T13:00:00+00:00"), (-18_000, "2025-11-14T08:00:00-05:00"),
        (37_800, "2025-11-14T23:30:00+10:30"), (46_800, "2025-11-15T02:00:00+13:00"),
    ])
    func writesWallTimes(_ offset: Int, _ text: String) {
        #expect(TimeText.local(Timestamp(microseconds: 1_763_125_200_999_999), utcOffset: offset) == text)
    }

    /// Each day from 1 January 1 to 31 December 9999 follows the one before.
    @Test func calendarHasNoHoles() {
        let first = LocalDate(year: 1, month: 1, day: 1)?.days ?? 0
        let last = LocalDate(year: 9999, month: 12, day: 31)?.days ?? 0
        #expect(last - first == 3_652_058)
        var random = SeededRandom()
        for _ in 0..<20_000 {
            let days = Int.random(in: first...last, using: &random)
            let (year, month, day) = LocalDate(days: days).civil
            #expect(LocalDate(year: year, month: month, day: day)?.days == days)
            #expect(TimeText.day(TimeText.text(LocalDate(days: days)))?.days == days)
        }
        #expect(TimeText.day("2025-02-29") == nil)
        #expect(TimeText.day("2025-02-28 ") == nil)
    }
}
