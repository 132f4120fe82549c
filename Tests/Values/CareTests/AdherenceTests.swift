import Testing

@testable import Care

@Suite(.timeLimit(.minutes(15)))
struct AdherenceTests {
    @Test(arguments: [
        (0, 1, "0.0"), (1, 1, "100.0"), (1, 2, "50.0"), (1, 3, "33.3"), (2, 3, "66.7"), (1, 8, "12.5"), (1, 16, "6.3"),
        (3, 16, "18.8"), (5, 16, "31.3"), (1, 2000, "0.1"), (1, 2001, "0.0"), (1999, 2000, "100.0"), (1, 80, "1.3"),
    ])
    func percentagesAreRoundedHalfUp(_ part: Int, _ whole: Int, _ text: String) {
        #expect(Percentage(part, of: whole)?.text == text)
    }

    @Test func nothingDueHasNoPercentage() {
        #expect(Percentage(0, of: 0) == nil)
        #expect(Percentage(meanOf: []) == nil)
    }

    /// Means over days: each day counts the same, however many doses it had.
    @Test(arguments: [
        ([1000, 0], "50.0"), ([333, 334], "33.4"), ([333, 333, 334], "33.3"), ([1000, 1000, 999], "100.0"),
        ([667], "66.7"), ([1, 0], "0.1"), ([1, 0, 0], "0.0"),
    ])
    func meansAreRoundedHalfUp(_ tenths: [Int], _ text: String) {
        let days = tenths.compactMap { Percentage($0, of: 1000) }
        #expect(days.map(\.tenths) == tenths)
        #expect(Percentage(meanOf: days)?.text == text)
    }

    // MARK: Counting

    private let noon = Timestamp(microseconds: 1_763_121_600_000_000)

    /// Doses by letter: scheduled (`s`, over a second after noon), overdue (`o`), taken, missed, up (made), skipped (`k`),
    /// cancelled.
    private func counts(_ letters: String) -> DayCounts {
        let statuses: [Character: DoseStatus] = [
            "s": .scheduled, "o": .scheduled, "t": .taken, "m": .missed, "u": .madeUp, "k": .skipped, "c": .cancelled,
        ]
        return DayCounts(
            letters.map { letter in
                Dose(
                    id: "d", user: "u", state: DoseState(statuses[letter] ?? .cancelled), scheduledAt: noon,
                    day: noon.date(utcOffset: 0), windowEnd: noon.adding(seconds: letter == "o" ? -1800 : -1799),
                    createdAt: noon)
            }, at: noon)
    }

    @Test(
        arguments: [
            ("", 0, 0, nil, nil, DayClass.neutral), ("c", 0, 0, nil, nil, .neutral), ("k", 1, 0, nil, nil, .neutral),
            ("s", 1, 0, nil, nil, .broken), ("o", 1, 1, "0.0", "0.0", .broken), ("t", 1, 1, "100.0", "100.0", .perfect),
            ("u", 1, 1, "100.0", "0.0", .perfect), ("m", 1, 1, "0.0", "0.0", .broken),
            ("tu", 2, 2, "100.0", "50.0", .perfect), ("tk", 2, 1, "100.0", "100.0", .perfect),
            ("tm", 2, 2, "50.0", "50.0", .broken), ("ts", 2, 1, "100.0", "100.0", .broken),
            ("tos", 3, 2, "50.0", "50.0", .broken), ("ttmkc", 4, 3, "66.7", "66.7", .broken),
            ("um", 2, 2, "50.0", "0.0", .broken), ("kk", 2, 0, nil, nil, .neutral), ("ks", 2, 0, nil, nil, .broken),
        ] as [(String, Int, Int, String?, String?, DayClass)])
    func daysAreCounted(
        _ letters: String, _ scheduled: Int, _ due: Int, _ adherence: String?, _ onTime: String?, _ dayClass: DayClass
    ) {
        let counts = counts(letters)
        #expect(counts.scheduled == scheduled)
        #expect(counts.due == due)
        #expect(counts.adherence?.text == adherence)
        #expect(counts.onTime?.text == onTime)
        #expect(counts.dayClass == dayClass)
    }

    // MARK: Streaks

    /// Days by letter, today last: perfect, neutral, broken, open, open with a dose that was taken, with an open dose that
    /// is over, or `.` for a day without doses.
    @Test(arguments: [
        ("", 0, 0), (".", 0, 0), ("p", 1, 1), ("n", 0, 0), ("b", 0, 0), ("pp", 2, 2), ("pb", 1, 1), ("p.", 1, 1),
        ("pn", 1, 1), ("ppb", 2, 2), ("pbp", 1, 1), ("ppbp", 1, 2), ("ppbpb", 1, 2), ("ppb.", 0, 2), ("pnp", 2, 2),
        ("p.p", 2, 2), ("pnnpb", 2, 2), ("bn", 0, 0), ("nbnp", 1, 1), ("ppbn", 0, 2), ("pppbppp", 3, 3),
        ("ppbppp", 3, 3), ("bbbb", 0, 0), ("ppbb", 0, 2), ("ppo", 2, 2), ("ppo.", 2, 2), ("ppot.", 2, 2),
        ("ppop", 3, 3),
        ("ppe", 2, 2), ("ppe.", 0, 2), ("ppeop", 1, 2), ("ppoep", 1, 2), ("oop", 1, 1), ("ppto", 2, 2), ("pptb", 2, 2),
    ])
    func streaks(_ letters: String, _ current: Int, _ best: Int) {
        let first = LocalDate(days: 20_000)
        let kinds: [Character: String] = ["p": "t", "n": "k", "b": "m", "o": "s", "t": "ts", "e": "o"]
        var days: [LocalDate: DayCounts] = [:]
        for (index, letter) in letters.enumerated() {
            if let kind = kinds[letter] { days[first.adding(index)] = counts(kind) }
        }
        let today = first.adding(max(0, letters.count - 1))
        let statistics = AdherenceStatistics(today: today, before: .none, counts: days)
        #expect(statistics.currentStreakDays == current)
        #expect(statistics.bestStreakDays == best)
        // Later days change nothing.
        days[today.adding(1)] = counts("t")
        let ahead = AdherenceStatistics(today: today, before: .none, counts: days)
        #expect(ahead == statistics)
        // A streak from before goes on until a day is broken.
        let before = StreakRun(run: 3, best: 4)
        let longer = AdherenceStatistics(today: today, before: before, counts: days)
        let isBroken = letters.dropLast().contains { "be".contains($0) }
        #expect(longer.currentStreakDays == (isBroken ? current : current + 3))
    }

    @Test func averagesOfDaysAndOfDoses() {
        let today = LocalDate(days: 20_000)
        let days = ["t", "tmmm", "kk", "s"].enumerated().map { (today.adding(-1 - $0.offset), counts($0.element)) }
        let statistics = AdherenceStatistics(
            today: today, before: .none, counts: Dictionary(uniqueKeysWithValues: days + [(today, counts("m"))]))
        #expect(statistics.average30Days?.text == "62.5")
        #expect(statistics.doses30?.text == "40.0")
    }
}
