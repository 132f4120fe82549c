import Care
import Testing

/// Every cell of the transition table.
@Suite(.timeLimit(.minutes(15)))
struct DoseRulesTests {
    /// Rows: what the user wants; columns: what the server has. `.`: applied, `=`: noop, `!`: conflict state, `x`: gone,
    /// `#`: conflict late, `-`: not due.
    private static let columns: [DoseStatus] = [.scheduled, .taken, .missed, .madeUp, .skipped, .cancelled]
    private static let inTime: [DoseStatus: String] = [
        .taken: ".=.!!x", .missed: "-!=!!x", .madeUp: "-=.=!x", .skipped: ".!.!=x", .scheduled: "!!!!!x",
        .cancelled: "!!!!!x",
    ]
    /// After the window's end; the dose is said to be taken now.
    private static let due: [DoseStatus: String] = [
        .taken: ".=.!!x", .missed: ".!=!!x", .madeUp: ".=.=!x", .skipped: ".!.!=x", .scheduled: "!!!!!x",
        .cancelled: "!!!!!x",
    ]
    /// After the grace.
    private static let late: [DoseStatus: String] = [
        .taken: ".=#!!x", .missed: ".!=!!x", .madeUp: ".=.=!x", .skipped: ".!.!=x", .scheduled: "!!!!!x",
        .cancelled: "!!!!!x",
    ]

    private let end = Timestamp(microseconds: 1_763_125_200_000_000)

    private func dose(_ status: DoseStatus) -> Dose {
        Dose(
            id: "d", user: "u", state: DoseState(status), scheduledAt: end.adding(seconds: -14_400),
            day: end.date(utcOffset: 0), windowEnd: end, createdAt: end)
    }

    private func sign(_ verdict: DoseVerdict) -> Character {
        switch verdict {
        case .applied: "."
        case .noop: "="
        case .conflict(.state): "!"
        case .conflict(.gone): "x"
        case .conflict(.late): "#"
        case .conflict(.superseded): "?"
        case .notDue: "-"
        case .tooManyNotes: "n"
        case .untimely: "~"
        }
    }

    private func row(_ wanted: DoseStatus, at now: Timestamp, note: String? = nil) -> String {
        String(
            Self.columns.map { status in
                sign(
                    DoseRules.decide(
                        DoseIntent(DoseState(wanted, takenAt: now), note: note), on: dose(status), at: now))
            })
    }

    @Test(arguments: DoseStatus.allCases)
    func everyCell(_ wanted: DoseStatus) {
        #expect(row(wanted, at: end.adding(seconds: -1)) == Self.inTime[wanted])
        #expect(row(wanted, at: end) == Self.due[wanted])
        #expect(row(wanted, at: end.adding(seconds: DoseRules.graceSeconds)) == Self.due[wanted])
        #expect(row(wanted, at: end.adding(seconds: DoseRules.graceSeconds + 1)) == Self.late[wanted])
    }

    /// A note turns a noop into applied, but does not change a refusal.
    @Test(arguments: DoseStatus.allCases)
    func aNoteBesideAStatus(_ wanted: DoseStatus) {
        let later = end.adding(seconds: DoseRules.graceSeconds + 1)
        #expect(row(wanted, at: later, note: "n") == Self.late[wanted]?.replacing("=", with: "."))
    }

    @Test func aNoteAloneNeverConflicts() {
        for status in DoseStatus.allCases {
            #expect(DoseRules.decide(DoseIntent(note: "n"), on: dose(status), at: end) == .applied)
        }
        #expect(DoseRules.decide(DoseIntent(note: "n"), on: nil, at: end) == .conflict(.gone))
        #expect(DoseRules.decide(DoseIntent(DoseState(.taken)), on: nil, at: end) == .conflict(.gone))
    }

    /// The time that counts is when the dose was taken, not when the device could report it.
    @Test func aLateSynchronisationIsHonoured() {
        let weeks = end.adding(seconds: 1_814_400)
        let taken = DoseIntent(DoseState(.taken, takenAt: end.adding(seconds: -60)))
        #expect(DoseRules.decide(taken, on: dose(.missed), at: weeks) == .applied)
    }

    /// A missed dose cannot have been taken on the day before; it can be made up.
    @Test(arguments: [nil, 0, -3600, 3600])
    func aMissedDoseWasNotTakenLongBeforeItsTime(_ windowStart: Int?) {
        let scheduled = end.adding(seconds: -14_400)
        let dose = Dose(
            id: "d", user: "u", state: DoseState(.missed), scheduledAt: scheduled, day: end.date(utcOffset: 0),
            windowStart: windowStart.map { scheduled.adding(seconds: $0) }, windowEnd: end, createdAt: end)
        let first = scheduled.adding(seconds: min(windowStart ?? 0, 0) - DoseRules.earlySeconds)
        func verdict(_ seconds: Int) -> DoseVerdict {
            let taken = DoseState(.taken, takenAt: first.adding(seconds: seconds))
            return DoseRules.decide(taken, on: dose, seenRev: nil, at: end)
        }
        #expect(verdict(0) == .applied)
        #expect(verdict(-1) == .conflict(.late))
        func verdictOnItsDay(_ seconds: Int) -> DoseVerdict {
            let taken = DoseState(.taken, takenAt: end.adding(seconds: seconds))
            return DoseRules.decide(taken, on: dose, seenRev: nil, isOfItsDay: true, at: end)
        }
        #expect(verdictOnItsDay(-86_000) == .applied)
        #expect(verdictOnItsDay(DoseRules.graceSeconds) == .applied)
        #expect(verdictOnItsDay(DoseRules.graceSeconds + 1) == .conflict(.late))
    }

    /// A status is set only while the server's is the one seen. Two exceptions: it is already set, or the dose is missed.
    @Test(arguments: DoseStatus.allCases)
    func whatWasNotSeenIsNotOverwritten(_ wanted: DoseStatus) {
        for status in Self.columns {
            var dose = dose(status)
            dose.rev = 5
            dose.statusRev = 4
            func sign(seenRev: Int64?) -> Character {
                let intent = DoseIntent(DoseState(wanted, takenAt: end))
                return self.sign(DoseRules.decide(intent, on: dose, seenRev: seenRev, at: end))
            }
            let anyway = sign(seenRev: nil)
            #expect(sign(seenRev: 4) == anyway)
            #expect(sign(seenRev: 5) == anyway)
            #expect(sign(seenRev: 3) == (anyway == "." && status != .missed ? "!" : anyway))
            let note = DoseRules.decide(DoseIntent(note: "n"), on: dose, seenRev: 0, at: end)
            #expect(note == .applied)
        }
    }

    /// A dose cannot be taken more than a day before its window; or before now, if the time was not given for it.
    @Test(arguments: [nil, 0, -3600, 3600])
    func timesLongBeforeTheWindow(_ windowStart: Int?) {
        let scheduled = end.adding(seconds: -14_400)
        let dose = Dose(
            id: "d", user: "u", scheduledAt: scheduled, day: end.date(utcOffset: 0),
            windowStart: windowStart.map { scheduled.adding(seconds: $0) }, windowEnd: end, createdAt: end)
        let first = scheduled.adding(seconds: min(windowStart ?? 0, 0) - 86_400)
        for isDirect in [true, false] {
            #expect(!DoseRules.isUntimely(first, of: dose, isDirect: isDirect, actedAt: end))
            #expect(DoseRules.isUntimely(first.adding(seconds: -1), of: dose, isDirect: isDirect, actedAt: end))
        }
        let longBefore = first.adding(seconds: -864_000)
        let dayBefore = longBefore.adding(seconds: -86_400)
        #expect(DoseRules.isUntimely(longBefore, of: dose, actedAt: longBefore))
        #expect(!DoseRules.isUntimely(dayBefore, of: dose, isDirect: false, actedAt: longBefore))
        #expect(DoseRules.isUntimely(dayBefore.adding(seconds: -1), of: dose, isDirect: false, actedAt: longBefore))
    }

    @Test func onlyScheduledDosesAreToCome() {
        let start = end.adding(seconds: -14_400)
        for status in DoseStatus.allCases {
            #expect(
                DoseRules.isToCome(dose(status), actedAt: start.adding(seconds: -1), at: start.adding(seconds: -1))
                    == (status == .scheduled))
            #expect(!DoseRules.isToCome(dose(status), actedAt: start, at: start))
        }
    }
}
