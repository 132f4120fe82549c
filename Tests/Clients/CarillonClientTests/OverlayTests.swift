import Care
import Foundation
import JSON
import Testing

@testable import CarillonClient

@Suite struct OverlayTests {
    private let morning = Timestamp(microseconds: 1_763_627_400_000_000)  // 2025-11-20T08:30Z
    private var channel: String { "user.u.adherence" }

    private func mirror(_ doses: Entity...) -> Mirror {
        let loaded = Entity(.loaded, "day:2025-11-20", offset: 1, value: .bool(true))
        return Mirror(
            entities: doses + [loaded], positions: [channel: StoredPosition(epoch: "e", offset: 1)],
            meta: [MirrorKey.device: "phone"])
    }

    private func act(_ type: String, _ text: String, _ mirror: inout Mirror, at now: Timestamp) throws -> Prediction? {
        let builder = RowBuilder(mirror: mirror, zone: "UTC", now: now)
        var overlay = DoseOverlay()
        let made = try builder.row(type, .parsed(text), overlay: &overlay) { UUID().uuidString }
        try mirror.enqueue(made.row)
        return made.prediction
    }

    private func today(_ mirror: Mirror, at now: Timestamp, _ overlay: inout DoseOverlay) -> [String] {
        overlay.fold(mirror, zone: "UTC", at: now)
        let value = overlay.day(mirror, "2025-11-20", user: "u", at: now)
        return value?.doses.map { "\($0.id) \($0.status.rawValue)\($0.isPending ? " pending" : "")" } ?? []
    }

    private func today(_ mirror: Mirror, at now: Timestamp) -> [String] {
        var overlay = DoseOverlay()
        return today(mirror, at: now, &overlay)
    }

    @Test func actionsAreFoldedOverTheHubsState() throws {
        var mirror = mirror(.dose("d1"), .dose("d2"))
        #expect(today(mirror, at: morning) == ["d1 scheduled", "d2 scheduled"])
        #expect(try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)?.status == "applied")
        #expect(today(mirror, at: morning) == ["d1 taken pending", "d2 scheduled"])
        #expect(try act("skip", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)?.code == "state")
    }

    @Test func timeMissesDosesAsTheJobDoes() throws {
        var mirror = mirror(.dose("d1"), .dose("d2"))
        let late = morning.adding(seconds: 4 * 3600 + 60)
        var overlay = DoseOverlay()
        #expect(today(mirror, at: morning, &overlay) == ["d1 scheduled", "d2 scheduled"])
        #expect(overlay.edge == TimeText.instant("2025-11-20T12:00:00Z"))
        _ = try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)
        #expect(today(mirror, at: late, &overlay) == ["d1 taken pending", "d2 missed"])
        #expect(try act("markTaken", #"{"occurrenceId": "d2"}"#, &mirror, at: late)?.code == "late")
    }

    /// The value stays as the person made it, from the act until the hub's event is here.
    @Test func theValueNeverFlickers() throws {
        var mirror = mirror(.dose("d1"))
        var overlay = DoseOverlay()
        _ = try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)
        _ = try act("addNote", #"{"occurrenceId": "d1", "text": "with water"}"#, &mirror, at: morning)
        func isTaken() -> Bool { today(mirror, at: morning, &overlay).first?.hasPrefix("d1 taken") == true }
        #expect(isTaken())
        let key = mirror.actions[0].key
        _ = mirror.number()
        #expect(isTaken())
        let answer = #"""
            {"key": "\#(key)", "status": "applied", "result": {"rev": 2},
             "positions": {"\#(channel)": {"epoch": "e", "offset": 2}}}
            """#
        mirror.settle([.parsed(answer)], at: morning)
        #expect(isTaken() && mirror.counted.count == 2)
        let event = #"""
            {"userId": "u", "occurrenceId": "d1", "updates": {"status": "taken", "takenAt": "2025-11-20T08:30:00+00:00",
             "rev": 2, "hasNote": false}, "_sync": {"o": 2, "k": "\#(key)"}}
            """#
        _ = mirror.apply([ChannelEvent(name: "occurrence.updated", data: .parsed(event))], of: channel)
        #expect(isTaken() && mirror.counted.count == 1)
        overlay.fold(mirror, zone: "UTC", at: morning)
        #expect(overlay.doses["d1"]?.note == "with water")
    }

    /// What was shown is kept, and yet never old: the worst is an action in place of another, or an event that brings no
    /// new revision.
    @Test func whatIsKeptOfADayIsNeverOld() throws {
        var mirror = mirror(.dose("d1"), .dose("d2"))
        var overlay = DoseOverlay()
        func shown(_ mirror: Mirror, at now: Timestamp) -> [CarillonDose]? {
            overlay.fold(mirror, zone: "UTC", at: now)
            let kept = overlay.day(mirror, "2025-11-20", user: "u", at: now)
            var fresh = DoseOverlay()
            fresh.fold(mirror, zone: "UTC", at: now)
            let made = fresh.day(mirror, "2025-11-20", user: "u", at: now)
            #expect(kept == made)
            return kept?.doses
        }
        _ = shown(mirror, at: morning)
        _ = try act("markTaken", #"{"occurrenceId": "d1", "note": "one"}"#, &mirror, at: morning)
        #expect(shown(mirror, at: morning)?.first?.note == "one")
        _ = try mirror.cancel(mirror.actions[0].key)
        _ = try act("markTaken", #"{"occurrenceId": "d1", "note": "two"}"#, &mirror, at: morning)
        #expect(shown(mirror, at: morning)?.first?.note == "two")
        // The text of a note is fetched: neither the revision nor the event is newer.
        let value = Entity.doseTree("d2", "scheduled", rev: 1).setting([
            .init("note", .string("three")), .init("hasNote", .bool(true)),
        ])
        mirror.put(Entity(.dose, "d2", offset: 1, value: value, statusRev: 1, noteRev: 1))
        #expect(shown(mirror, at: morning)?.last?.note == "three")
        #expect(shown(mirror, at: morning.adding(seconds: 4 * 3600 + 60))?.last?.status == .missed)
    }

    /// The event may come before the answer, and then the queue still has the action.
    @Test func anEventBeforeItsAnswerChangesNothing() throws {
        var mirror = mirror(.dose("d1"))
        _ = try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)
        mirror.put(.dose("d1", "taken", rev: 2, offset: 2))
        #expect(today(mirror, at: morning) == ["d1 taken"])
    }

    @Test func foldsGoOnWhereTheyWere() throws {
        var mirror = mirror(.dose("d1"), .dose("d2"))
        var going = DoseOverlay()
        for (type, id) in [("markTaken", "d1"), ("skip", "d2"), ("addNote", "d1")] {
            _ = try act(type, #"{"occurrenceId": "\#(id)", "text": "x"}"#, &mirror, at: morning)
            #expect(today(mirror, at: morning, &going) == today(mirror, at: morning))
        }
        #expect(going.doses["d1"]?.note == "x")
    }

    @Test func anAnsweredActionCanBeUndone() throws {
        var mirror = mirror(.dose("d1"))
        _ = try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)
        let key = mirror.actions[0].key
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "\#(key)", "status": "applied", "result": {"rev": 2}}"#)], at: morning)
        mirror.put(.dose("d1", "taken", rev: 2, offset: 2))
        #expect(try act("undo", #"{"targetKey": "\#(key)"}"#, &mirror, at: morning)?.status == "applied")
        #expect(today(mirror, at: morning) == ["d1 scheduled pending"])
        #expect(mirror.actions.last?.entities == ["dose:d1"])
        // Once the undo is answered, another one changes nothing.
        let undo = try #require(mirror.actions.last?.key)
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "\#(undo)", "status": "applied"}"#)], at: morning)
        #expect(try act("undo", #"{"targetKey": "\#(key)"}"#, &mirror, at: morning)?.status == "noop")
    }

    @Test func aDecisionIsFoldedToo() throws {
        var mirror = mirror(.dose("d1", "missed", rev: 3))
        _ = try act("markTaken", #"{"occurrenceId": "d1", "takenAt": "2025-11-20T08:10:00Z"}"#, &mirror, at: morning)
        let key = mirror.actions[0].key
        _ = mirror.number()
        mirror.put(.dose("d1", "skipped", rev: 4, offset: 2))
        let conflict = #"""
            {"key": "\#(key)", "status": "conflict", "code": "state", "conflict": {"entity": {"type": "dose", "id": "d1"},
             "server": {"rev": 4}, "local": {"status": "taken", "takenAt": "2025-11-20T08:10:00+00:00"}}}
            """#
        mirror.settle([.parsed(conflict)], at: morning)
        #expect(today(mirror, at: morning) == ["d1 skipped"])
        let row = try #require(mirror.row(key: key))
        let wanted = try #require(row.decision(.keepLocal))
        #expect(wanted.base?["rev"]?.integer == 4)
        _ = try act("resolve", wanted.payload.canonicalText, &mirror, at: morning)
        #expect(today(mirror, at: morning) == ["d1 taken pending"])
    }

    /// What the person keeps is shown from the decision until the hub's event is here.
    @Test func whatIsKeptNeverFlickers() throws {
        var mirror = mirror(.dose("d1"))
        _ = try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)
        let key = mirror.actions[0].key
        _ = mirror.number()
        mirror.put(.dose("d1", "skipped", rev: 2, offset: 2))
        mirror.put(StoredPosition(epoch: "e", offset: 2), of: channel)
        let conflict = #"""
            {"key": "\#(key)", "status": "conflict", "code": "state", "conflict": {"entity": {"type": "dose", "id": "d1"},
             "server": {"rev": 2}, "local": {"status": "taken", "takenAt": "2025-11-20T08:30:00+00:00"}}}
            """#
        mirror.settle([.parsed(conflict)], at: morning)
        let wanted = try #require(mirror.row(key: key)?.decision(.keepLocal))
        _ = try act("resolve", wanted.payload.canonicalText, &mirror, at: morning)
        let decision = try #require(mirror.actions.last?.key)
        #expect(today(mirror, at: morning) == ["d1 taken pending"])
        _ = mirror.number()
        // The answer comes before the event.
        let answer = #"""
            {"key": "\#(decision)", "status": "applied", "result": {"rev": 3},
             "positions": {"\#(channel)": {"epoch": "e", "offset": 3}}}
            """#
        mirror.settle([.parsed(answer)], at: morning)
        #expect(today(mirror, at: morning) == ["d1 taken pending"])
        mirror.tidy(channels: [:], at: morning)
        #expect(today(mirror, at: morning) == ["d1 taken pending"])
        mirror.put(.dose("d1", "taken", rev: 3, offset: 3))
        mirror.put(StoredPosition(epoch: "e", offset: 3), of: channel)
        #expect(today(mirror, at: morning) == ["d1 taken"])
        #expect(mirror.counted.isEmpty && mirror.conflicted.isEmpty)
    }

    /// Taken, taken back, and taken again, all without a network: the hub will be told the revision that the undo makes.
    @Test func ownActionsNeverConflictWithEachOther() throws {
        var mirror = mirror(.dose("d1"))
        _ = try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)
        let key = mirror.actions[0].key
        _ = mirror.number()
        _ = try act("undo", #"{"targetKey": "\#(key)"}"#, &mirror, at: morning)
        #expect(try act("markTaken", #"{"occurrenceId": "d1"}"#, &mirror, at: morning)?.status == "applied")
        #expect(today(mirror, at: morning) == ["d1 taken pending"])
    }

    /// An act is performed before it is stored. If it is not stored then, or waits behind a conflict, it is not shown.
    @Test func anAttemptThatIsNotStoredIsForgotten() throws {
        var mirror = mirror(.dose("d1"), .dose("d2"))
        var overlay = DoseOverlay()
        func attempt(_ dose: String, _ mirror: Mirror) throws -> QueuedAction {
            let payload = JSONTree.parsed(#"{"occurrenceId": "\#(dose)"}"#)
            let builder = RowBuilder(mirror: mirror, zone: "UTC", now: morning)
            return try builder.row("markTaken", payload, overlay: &overlay) { UUID().uuidString }.row
        }
        _ = try attempt("d1", mirror)
        #expect(today(mirror, at: morning, &overlay) == ["d1 scheduled", "d2 scheduled"])
        // Another process has stored one in its place.
        let lost = try attempt("d1", mirror)
        mirror.append(.made("other", of: "d2"))
        #expect(today(mirror, at: morning, &overlay) == ["d1 scheduled", "d2 taken pending"])
        var parked = lost
        parked.state = .parked
        parked.more.behind = "another"
        _ = try attempt("d1", mirror)
        mirror.append(parked)
        #expect(today(mirror, at: morning, &overlay) == ["d1 scheduled", "d2 taken pending"])
        // What acts on the same dose waits with it.
        try mirror.enqueue(attempt("d1", mirror))
        #expect(today(mirror, at: morning, &overlay) == ["d1 scheduled", "d2 taken pending"])
        for waiting in mirror.actions where waiting.state == .parked { mirror.remove(waiting) }
        try mirror.enqueue(attempt("d1", mirror))
        #expect(today(mirror, at: morning, &overlay) == ["d1 taken pending", "d2 taken pending"])
    }

    @Test func intakesWithoutAScheduleAreShownAndNotCounted() throws {
        var mirror = mirror(.dose("d1"))
        _ = try act("logDose", #"{"productId": "p"}"#, &mirror, at: morning)
        var overlay = DoseOverlay()
        overlay.fold(mirror, zone: "UTC", at: morning)
        let shown = overlay.day(mirror, "2025-11-20", user: "u", at: morning)
        let value = try #require(shown)
        #expect(value.doses.map(\.isAsNeeded) == [false, true] && value.summary.scheduledCount == 1)
    }

    @Test func medicationsAreFolded() throws {
        let settings = Entity(.settings, "settings", offset: 1, value: .parsed(#"{"timezone": "UTC"}"#))
        let own = Entity(
            .medication, "m1", offset: 1,
            value: .parsed(
                #"{"id": "m1", "name": "A", "rev": 2, "schedules": [{"id": "s1", "time": "08:00", "rev": 1}]}"#))
        var mirror = Mirror(entities: [settings, own], meta: [MirrorKey.device: "phone"])
        _ = try act("createMedication", #"{"name": "B", "times": ["09:00"]}"#, &mirror, at: morning)
        _ = try act("updateSchedule", #"{"id": "s1", "time": "07:00"}"#, &mirror, at: morning)
        let value = try #require(MedicationOverlay.value(mirror))
        #expect(value.items.map(\.name) == ["A", "B"] && value.items.map(\.isPending) == [true, true])
        #expect(value.items.map { $0.schedules.map(\.time) } == [["07:00"], ["09:00"]])
        #expect(mirror.actions[1].entities == ["schedule:s1", "medication:m1"])
        #expect(mirror.actions[1].base?["rev"]?.integer == 1)
        _ = try act("archiveMedication", #"{"id": "m1"}"#, &mirror, at: morning)
        #expect(MedicationOverlay.value(mirror)?.items.map(\.name) == ["B"])
        // A revision that an own action is about to change is none that the person saw, and the hub is told none.
        _ = try act("updateMedication", #"{"id": "m1", "name": "C", "rev": 2}"#, &mirror, at: morning)
        #expect(mirror.actions.last?.base == nil && mirror.actions.last?.payload["rev"] == nil)
    }

    /// The ids are those that the hub will give: an action on a schedule may follow without a network.
    @Test func timesThatStayKeepTheirSchedules() throws {
        let settings = Entity(.settings, "settings", offset: 1, value: .parsed(#"{"timezone": "UTC"}"#))
        let own = Entity(
            .medication, "m1", offset: 1,
            value: .parsed(
                #"{"id": "m1", "name": "A", "rev": 2, "frequency": "twice_daily", "schedules": [{"id": "s1", "#
                    + #""time": "08:00", "repeat": "daily"}, {"id": "s2", "time": "20:00", "repeat": "daily"}]}"#))
        var mirror = Mirror(entities: [settings, own], meta: [MirrorKey.device: "phone"])
        func shown() -> [String] {
            let item = MedicationOverlay.value(mirror)?.items.first
            return [item?.frequency ?? ""] + (item?.schedules ?? []).map { "\($0.time ?? "") \($0.id)" }
        }
        _ = try act("updateMedication", #"{"id": "m1", "times": ["20:00", "23:00"]}"#, &mirror, at: morning)
        let begun = OccurrenceID.schedule(of: "m1", 1)
        #expect(shown() == ["twice_daily", "20:00 s2", "23:00 \(begun)"])
        _ = try act(
            "updateMedication", #"{"id": "m1", "frequency": "daily", "times": ["20:00"]}"#, &mirror, at: morning)
        #expect(shown() == ["daily", "20:00 s2"])
        _ = try act("updateMedication", #"{"id": "m1", "name": "B"}"#, &mirror, at: morning)
        #expect(shown() == ["daily", "20:00 s2"])
        #expect(OccurrenceID.schedule(of: "md-ibu", 1) == "bfc3e6fd-95a5-5522-805a-eba98a3ade52")
    }

    /// What the hub has confirmed is no reason to hide what the person saw: another device may have changed it since.
    @Test func aConfirmedActionHidesNoRevision() throws {
        let own = Entity(.medication, "m1", offset: 1, value: .parsed(#"{"id": "m1", "name": "A", "rev": 2}"#))
        var mirror = Mirror(
            entities: [own], positions: ["c": StoredPosition(epoch: "e", offset: 1)], meta: [MirrorKey.device: "phone"])
        _ = try act("updateMedication", #"{"id": "m1", "name": "B"}"#, &mirror, at: morning)
        _ = mirror.number()
        let key = mirror.actions[0].key
        let answer = #"{"key": "\#(key)", "status": "applied", "positions": {"c": {"epoch": "e", "offset": 2}}}"#
        mirror.settle([.parsed(answer)], at: morning)
        _ = try act("updateMedication", #"{"id": "m1", "name": "C"}"#, &mirror, at: morning)
        #expect(mirror.actions[1].base == nil)
        mirror.remove(mirror.actions[1])
        mirror.put(StoredPosition(epoch: "e", offset: 2), of: "c")
        _ = try act("updateMedication", #"{"id": "m1", "name": "D"}"#, &mirror, at: morning)
        #expect(mirror.actions[1].base?["rev"]?.integer == 2)
    }

    /// Criteria would mean another day when the hub hears of them, and no dose that was missed meanwhile.
    @Test func allDosesAreThoseThatThePersonSaw() throws {
        var mirror = mirror(.dose("d1"), .dose("d2"))
        _ = try act("bulkMarkAll", #"{"criteria": {}}"#, &mirror, at: morning)
        let named = mirror.actions[0].payload
        #expect(named["occurrenceIds"]?.elements.compactMap(\.string) == ["d1", "d2"] && !named.has("criteria"))
        _ = try act("bulkMarkAll", #"{"criteria": {}}"#, &mirror, at: morning)
        #expect(mirror.actions[1].payload["criteria"]?["date"]?.string == "2025-11-20")
    }

    @Test func remindersAreFolded() throws {
        let rule = JSONTree.parsed(
            #"""
            {"id": "r1", "clientId": null, "rev": 3, "productId": "p", "appliesTo": "item", "time": "08:00",
             "timezone": "Europe/Berlin", "tzMode": "fixed", "repeat": "daily", "delivery": "local", "enabled": true,
             "createdAt": "2025-11-01T00:00:00+00:00",
             "upcoming": [{"id": "o1", "ruleId": "r1", "start": "2025-11-21T08:00:00+01:00", "status": "scheduled"}]}
            """#)
        var mirror = Mirror(
            entities: [Entity(.reminder, "r1", offset: 1, value: rule)],
            positions: ["user.u.reminders": StoredPosition(epoch: "e", offset: 1)], meta: [MirrorKey.device: "phone"])
        func value() -> CarillonReminders? {
            ReminderOverlay.value(mirror, zone: "UTC", channel: "user.u.reminders", now: morning.second)
        }
        #expect(value()?.rules.map(\.isPending) == [false])
        _ = try act("updateReminder", #"{"id": "r1", "time": "09:15"}"#, &mirror, at: morning)
        #expect(mirror.actions[0].base?["rev"]?.integer == 3 && mirror.actions[0].entities == ["reminder:r1"])
        let changed = try #require(value()?.rules.first)
        #expect(changed.time == "09:15" && changed.isPending)
        #expect(
            changed.upcoming.first?.start
                == TimeText.instant("2025-11-20T09:15:00+01:00").map(\.date)?.addingTimeInterval(86_400))
        _ = try act("setReminderOccurrence", #"{"occurrenceId": "o1", "enabled": false}"#, &mirror, at: morning)
        #expect(value()?.days.map { "\($0.date) \($0.status)" } == ["2025-11-21 cancelled"])
        _ = try act("createReminder", #"{"productId": "q", "time": "10:00"}"#, &mirror, at: morning)
        #expect(value()?.rules.count == 2)
        _ = try act("deleteReminder", #"{"id": "r1"}"#, &mirror, at: morning)
        #expect(value()?.rules.map(\.productID) == ["q"])
    }

    /// What another device decided about an occurrence is overwritten by nobody who has not seen it: its revision is the
    /// base, and 0 where it is as its rule says, whether it is named by its id or by its rule and day.
    @Test(arguments: [
        (#""id": "r1", "date": "2025-11-21""#, 0), (#""id": "r1", "date": "2025-11-22""#, 4),
        (#""id": "tmp-1", "date": "2025-11-22""#, 4), (#""occurrenceId": "o1""#, 0), (#""occurrenceId": "o2""#, 4),
        (#""occurrenceId": "o2", "rev": 3"#, 3), (#""occurrenceId": "o2", "rev": 0"#, 0),
        (#""id": "r2", "date": "2025-11-21""#, nil), (#""occurrenceId": "o9""#, nil),
    ])
    func anOccurrenceSaysWhatThePersonSaw(named: String, seen: Int64?) throws {
        let rule = #"""
            {"id": "r1", "clientId": "tmp-1", "rev": 5, "productId": "p", "time": "09:00", "timezone": "UTC",
             "repeat": "daily", "upcoming": [{"id": "o1", "ruleId": "r1", "start": "2025-11-21T09:00:00+00:00"}]}
            """#
        let day = #"{"id": "o2", "ruleId": "r1", "date": "2025-11-22", "status": "cancelled", "rev": 4}"#
        func base(_ type: String, _ more: String) throws -> Int64? {
            var mirror = Mirror(
                entities: [
                    Entity(.reminder, "r1", offset: 1, value: .parsed(rule)),
                    Entity(.reminderDay, "o2", offset: 1, value: .parsed(day)),
                ], meta: [MirrorKey.device: "phone"])
            _ = try act(type, "{\(named), \(more)}", &mirror, at: morning)
            return mirror.actions.first?.base?["rev"]?.integer
        }
        #expect(try base("setReminderOccurrence", #""enabled": true"#) == seen)
        // The rev of a rule's object is the rule's.
        guard !named.contains("rev") else { return }
        #expect(try base("updateReminder", #""enabled": true, "applyTo": "occurrence", "rev": 5"#) == seen)
    }

    /// What came from another device between the look and the tap, the person has not seen: of an object that is sent back
    /// whole, its `rev` is the base, and not what the device has by now.
    @Test(arguments: [
        ("updateReminder", "r1"), ("deleteReminder", "r1"), ("updateMedication", "m1"), ("archiveMedication", "m1"),
        ("updateSchedule", "s1"), ("updateStack", "k1"), ("updateSettings", "settings"),
    ])
    func aWholeObjectSaysWhatThePersonSaw(type: String, id: String) throws {
        func base(_ rev: String) throws -> Int64? {
            let values: [(EntityKind, String, String)] = [
                (.reminder, "r1", #"{"id": "r1", "rev": 5, "productId": "p", "time": "09:00", "timezone": "UTC"}"#),
                (.medication, "m1", #"{"id": "m1", "rev": 5, "schedules": [{"id": "s1", "rev": 5}]}"#),
                (.stack, "k1", #"{"id": "k1", "rev": 5}"#), (.settings, "settings", #"{"rev": 5}"#),
            ]
            var mirror = Mirror(
                entities: values.map { Entity($0, $1, offset: 1, value: .parsed($2)) },
                meta: [MirrorKey.device: "phone"])
            _ = try act(type, #"{"id": "\#(id)"\#(rev)}"#, &mirror, at: morning)
            return mirror.actions.first?.base?["rev"]?.integer
        }
        #expect(try base(#", "rev": 3"#) == 3)
        #expect(try base(#", "rev": 7"#) == 7)
        // It was shown before the hub knew it.
        #expect(try base(#", "rev": 0"#) == 1)
        #expect(try base("") == (type == "updateSettings" ? nil : 5))
    }

    /// An own action goes without a base as long as the revision that it makes is not here, and no longer.
    @Test func aConfirmedActionIsUnderWayNoMore() throws {
        let channel = "user.u.medications"
        let medication = Entity(.medication, "m1", offset: 1, value: .parsed(#"{"id": "m1", "name": "A", "rev": 2}"#))
        var mirror = Mirror(
            entities: [medication], positions: [channel: StoredPosition(epoch: "e", offset: 1)],
            meta: [MirrorKey.device: "phone"])
        _ = try act("updateMedication", #"{"id": "m1", "name": "B"}"#, &mirror, at: morning)
        _ = mirror.number()
        let answer = #"""
            {"key": "\#(mirror.actions[0].key)", "status": "applied", "result": {"rev": 3},
             "positions": {"\#(channel)": {"epoch": "e", "offset": 2}}}
            """#
        mirror.settle([.parsed(answer)], at: morning)
        func base() throws -> JSONTree? {
            let builder = RowBuilder(mirror: mirror, zone: "UTC", now: morning)
            var overlay = DoseOverlay()
            let payload = JSONTree.parsed(#"{"id": "m1", "name": "C"}"#)
            return try builder.row("updateMedication", payload, overlay: &overlay) { UUID().uuidString }.row.base
        }
        #expect(try base() == nil)
        mirror.put(StoredPosition(epoch: "e", offset: 2), of: channel)
        #expect(try base()?["rev"]?.integer == 2)
    }

    /// The hub alone knows what a person saw whom another device's change has overtaken.
    @Test func whatThePersonWantsOfAnOldObjectIsShown() throws {
        let rule = JSONTree.parsed(
            #"""
            {"id": "r1", "rev": 5, "productId": "p", "appliesTo": "item", "time": "09:00", "timezone": "UTC",
             "tzMode": "fixed", "repeat": "daily", "delivery": "local", "enabled": true}
            """#)
        var mirror = Mirror(
            entities: [Entity(.reminder, "r1", offset: 1, value: rule)],
            positions: ["user.u.reminders": StoredPosition(epoch: "e", offset: 1)], meta: [MirrorKey.device: "phone"])
        func shown() -> CarillonReminder? {
            ReminderOverlay.value(mirror, zone: "UTC", channel: "user.u.reminders", now: morning.second)?.rules.first
        }
        // Which day it is of, and what of it counts, the hub says.
        let whole = #"{"id": "r1", "rev": 5, "applyTo": "occurrence", "date": "2025-11-21", "time": "07:00"}"#
        _ = try act("updateReminder", whole, &mirror, at: morning)
        #expect(mirror.actions[0].base?["rev"]?.integer == 0 && shown()?.time == "09:00")
        _ = try act("updateReminder", #"{"id": "r1", "rev": 3, "time": "08:15"}"#, &mirror, at: morning)
        #expect(mirror.actions[1].base?["rev"]?.integer == 3 && shown()?.time == "08:15" && shown()?.isPending == true)
        _ = try act("deleteReminder", #"{"id": "r1", "rev": 3}"#, &mirror, at: morning)
        #expect(shown() == nil)
    }

    @Test func largeActionsAreRefused() {
        let builder = RowBuilder(mirror: Mirror(), zone: "UTC", now: morning)
        let text = JSONTree.object([.init("text", .string(String(repeating: "x", count: 60_000)))])
        var overlay = DoseOverlay()
        #expect(throws: CarillonError.tooLarge) {
            try builder.row("addNote", text, overlay: &overlay) { "k" }
        }
    }
}
