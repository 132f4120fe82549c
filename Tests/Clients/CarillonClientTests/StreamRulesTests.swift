import JSON
import Testing

@testable import CarillonClient

@Suite struct StreamRulesTests {
    private let channel = "user.u.adherence"

    private func updated(
        _ offset: Int64, _ status: String, rev: Int64, key: String? = nil, more: String = ""
    ) -> ChannelEvent {
        let taken = status == "taken" ? "\"2025-11-20T08:30:00+00:00\"" : "null"
        let updates = #"{"status": "\#(status)", "takenAt": \#(taken), "rev": \#(rev), "hasNote": false\#(more)}"#
        let text = """
            {"userId": "u", "occurrenceId": "d1", "updates": \(updates),
             "daySummary": {"month": "2025-11", "date": "2025-11-20", "takenCount": 1},
             "_sync": {"o": \(offset), "k": \(key.map { "\"\($0)\"" } ?? "null")}}
            """
        return ChannelEvent(name: "occurrence.updated", data: .parsed(text))
    }

    private func mirror(at offset: Int64) -> Mirror {
        Mirror(entities: [.dose("d1")], positions: [channel: StoredPosition(epoch: "e", offset: offset)])
    }

    @Test func eventsAndPositionAreOne() {
        var mirror = mirror(at: 5)
        #expect(mirror.apply([updated(6, "taken", rev: 2), updated(7, "missed", rev: 3)], of: channel) == .done)
        #expect(mirror.positions[channel]?.offset == 7 && mirror.value(.dose, "d1")?["status"]?.string == "missed")
        #expect(mirror.entity(.day, "2025-11-20")?.value?["month"] == nil)
        let changes = mirror.takeChanges()
        #expect(changes.positions == [channel] && changes.entities.contains(EntityKey(kind: .dose, id: "d1")))
    }

    @Test func aGapStopsBeforeIt() {
        var mirror = mirror(at: 5)
        #expect(mirror.apply([updated(6, "taken", rev: 2), updated(8, "missed", rev: 4)], of: channel) == .gap)
        #expect(mirror.positions[channel]?.offset == 6 && mirror.value(.dose, "d1")?["status"]?.string == "taken")
        // Old ones are known.
        #expect(mirror.apply([updated(4, "scheduled", rev: 1)], of: channel) == .done)
        #expect(mirror.value(.dose, "d1")?["status"]?.string == "taken")
        #expect(mirror.apply([updated(6, "taken", rev: 2)], of: "other") == .none)
    }

    /// The hub has gone back, as after a restore: events that were told once do not come. What the hub answers while the
    /// snapshot is fetched waits for its events as always.
    @Test func aSnapshotThatIsBehindSettlesWhatWasAnswered() {
        var mirror = mirror(at: 9)
        for (key, offset) in [("old", 9), ("new", 6)] as [(String, Int64)] {
            var row = QueuedAction(
                key: key, type: "markTaken", payload: .parsed(#"{"occurrenceId": "d1"}"#), clientTime: "", zone: "")
            row.state = .done
            row.more.until = [channel: StoredPosition(epoch: "e", offset: offset)]
            mirror.append(row)
        }
        for id in ["dose:d1", "medication:m"] { mirror.put(Entity(.own, id, offset: 9, value: nil)) }
        func waiting() -> [String] { mirror.counting(.doses).map(\.key) }
        func replace(_ epoch: String, _ offset: Int64, _ answered: Set<String>) {
            let body = JSONTree.parsed(#"{"summary": {"date": "2025-11-20"}, "occurrences": []}"#)
            let position = StoredPosition(epoch: epoch, offset: offset)
            let snapshot = ClientSnapshot(part: .today, body: body, position: position)
            let isWhole = mirror.replace(.adherence, of: channel, with: [snapshot], answered: answered)
            #expect(isWhole)
        }
        #expect(waiting() == [] && mirror.answered(on: channel) == ["old", "new"])
        // One that is not behind changes nothing.
        replace("e", 9, ["old", "new"])
        #expect(mirror.row(key: "old")?.more.until?[channel]?.offset == 9 && mirror.entity(.own, "dose:d1") != nil)
        replace("e", 5, ["old"])
        #expect(waiting() == ["new"])
        #expect(mirror.entity(.own, "dose:d1") == nil && mirror.entity(.own, "medication:m") != nil)
        mirror.put(StoredPosition(epoch: "e", offset: 6), of: channel)
        #expect(waiting() == [])
    }

    @Test func anActionTellsItsOwnTexts() throws {
        var mirror = mirror(at: 5)
        var row = QueuedAction(
            key: "a", type: "skip", payload: .parsed(#"{"occurrenceId": "d1", "reason": "ill"}"#), clientTime: "",
            zone: "")
        row.entities = ["dose:d1"]
        try mirror.enqueue(row)
        _ = mirror.apply([updated(6, "skipped", rev: 2, key: "a")], of: channel)
        #expect(mirror.value(.dose, "d1")?["reason"]?.string == "ill")
        // The next state has another one, or none.
        _ = mirror.apply([updated(7, "scheduled", rev: 3)], of: channel)
        #expect(mirror.value(.dose, "d1")?["reason"] == nil)
    }

    @Test func notesOfOtherDevicesAreFetched() {
        var mirror = mirror(at: 5)
        _ = mirror.apply([updated(6, "scheduled", rev: 2, more: #", "hasNote": true"#)], of: channel)
        #expect(mirror.entity(.dose, "d1")?.isNoteOld == true)
        let body = JSONTree.parsed(#"{"id": "d1", "rev": 2, "note": "with water", "reason": null}"#)
        mirror.add(
            ClientSnapshot(part: .note(dose: "d1"), body: body, position: StoredPosition(epoch: "e", offset: 6)),
            of: channel)
        #expect(mirror.entity(.dose, "d1")?.isNoteOld == false)
        #expect(mirror.value(.dose, "d1")?["note"]?.string == "with water")
    }

    /// Neither events nor a day's answer tell why a dose was skipped.
    @Test func reasonsOfOtherDevicesAreFetched() {
        var mirror = mirror(at: 5)
        _ = mirror.apply([updated(6, "skipped", rev: 2)], of: channel)
        #expect(mirror.entity(.dose, "d1")?.isNoteOld == true)
        let body = JSONTree.parsed(#"{"id": "d1", "rev": 2, "note": null, "reason": "ill"}"#)
        let position = StoredPosition(epoch: "e", offset: 6)
        mirror.add(ClientSnapshot(part: .note(dose: "d1"), body: body, position: position), of: channel)
        #expect(mirror.entity(.dose, "d1")?.isNoteOld == false)
        #expect(mirror.value(.dose, "d1")?["reason"]?.string == "ill")
    }

    @Test func aSnapshotTakesThePlaceOfAll() {
        var mirror = Mirror(entities: [.dose("d1"), .dose("old")])
        let day = JSONTree.parsed(
            """
            {"summary": {"date": "2025-11-20"}, "stats": {"currentStreakDays": 3},
             "occurrences": [\(Entity.doseTree("d1", "taken", rev: 4).canonicalText)]}
            """)
        let position = StoredPosition(epoch: "e", offset: 9)
        let isWhole = mirror.replace(
            .adherence, of: channel, with: [ClientSnapshot(part: .today, body: day, position: position)])
        #expect(isWhole)
        #expect(Set(mirror.all(.dose).keys) == ["d1"] && mirror.positions[channel] == position)
        #expect(mirror.entity(.loaded, "day:2025-11-20") != nil && mirror.entity(.stats, "stats") != nil)
        // Two epochs are no one state.
        let other = ClientSnapshot(part: .day("2025-11-21"), body: day, position: StoredPosition(epoch: "f", offset: 9))
        let first = ClientSnapshot(part: .today, body: day, position: position)
        let isOfTwo = mirror.replace(.adherence, of: channel, with: [first, other])
        #expect(!isOfTwo)
    }

    @Test func deletionsStayKnown() {
        var mirror = Mirror(positions: ["r": StoredPosition(epoch: "e", offset: 1)])
        func event(_ name: String, _ text: String) -> ChannelEvent { ChannelEvent(name: name, data: .parsed(text)) }
        _ = mirror.apply(
            [
                event("reminder.created", #"{"id": "r1", "rev": 1, "_sync": {"o": 2}}"#),
                event("reminder.occurrence_updated", #"{"id": "o1", "ruleId": "r1", "_sync": {"o": 3}}"#),
                event("reminder.deleted", #"{"id": "r1", "rev": 2, "_sync": {"o": 4}}"#),
            ], of: "r")
        #expect(mirror.value(.reminder, "r1") == nil && mirror.entity(.reminder, "r1") != nil)
        #expect(mirror.value(.reminderDay, "o1") == nil)
        // A snapshot that is older does not bring it back.
        let body = JSONTree.parsed(#"{"items": [{"id": "r1", "rev": 1}], "occurrences": []}"#)
        mirror.add(
            ClientSnapshot(part: .list(.reminders), body: body, position: StoredPosition(epoch: "e", offset: 3)),
            of: "r")
        #expect(mirror.value(.reminder, "r1") == nil)
    }
}
