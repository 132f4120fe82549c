import Care
import JSON
import Testing

@testable import CarillonClient

@Suite struct QueueRulesTests {
    private let now = Timestamp(microseconds: 1_763_629_200_000_000)

    private func mirror(_ rows: [QueuedAction]) throws -> Mirror {
        var mirror = Mirror()
        for row in rows { try mirror.enqueue(row) }
        return mirror
    }

    private func states(_ mirror: Mirror) -> [String] {
        mirror.actions.map { "\($0.key) \($0.state.rawValue) \($0.n ?? 0)" }
    }

    @Test func numbersAreGivenInOrderAtFirstSend() throws {
        var mirror = try mirror([.made("a"), .made("b", of: "d2"), .made("c", of: "d1"), .made("e", of: "d3")])
        // c waits for the answer to a, and e for c: the queue is first in, first out.
        #expect(mirror.number().map(\.key) == ["a", "b"])
        #expect(mirror.number().map(\.n) == [1, 2])
        mirror.settle([.parsed(#"{"key": "a", "status": "applied", "result": {"rev": 7}, "positions": {}}"#)], at: now)
        #expect(mirror.number().map { "\($0.key) \($0.n ?? 0)" } == ["b 2", "c 3", "e 4"])
    }

    @Test func ownRevisionsAreNoConflict() throws {
        var mirror = try mirror([.made("a", base: 3), .made("b", "skip", base: 3)])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "applied", "result": {"rev": 4}}"#)], at: now)
        #expect(mirror.number().first?.base?["rev"]?.integer == 4)
        // What another device has made is.
        var other = try self.mirror([.made("a", base: 3)])
        #expect(other.number().first?.base?["rev"]?.integer == 3)
    }

    /// Worst interleaving: the person sees revision 3, another device makes 4, and an own action is merged with it as 5. A
    /// base of 5 would say that the person has seen 4. The hub knows which of them this device has made.
    @Test func aReminderIsChangedAsItWasSeen() throws {
        var rows = [QueuedAction.made("a", "updateReminder", base: 3), .made("b", "setReminderOccurrence", base: 1)]
        for index in rows.indices { rows[index].entities = ["reminder:r1"] }
        var mirror = try mirror(rows)
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "applied", "result": {"rev": 5}}"#)], at: now)
        #expect(mirror.number().first?.base?["rev"]?.integer == 1)
        var next = QueuedAction.made("c", "updateReminder", base: 3)
        next.entities = ["reminder:r1"]
        try mirror.enqueue(next)
        mirror.settle([.parsed(#"{"key": "b", "status": "applied", "result": {"rev": 2}}"#)], at: now)
        #expect(mirror.number().first?.base?["rev"]?.integer == 3)
    }

    @Test func aConflictParksThatEntityOnly() throws {
        var mirror = try mirror([.made("a"), .made("b", of: "d2"), .made("c"), .made("e", of: "d3")])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "conflict", "code": "state", "conflict": {}}"#)], at: now)
        #expect(states(mirror) == ["a parked 1", "b sent 2", "c parked 0", "e queued 0"])
        try mirror.enqueue(.made("f"))
        #expect(mirror.row(key: "f")?.more.behind == "a")
        #expect(mirror.number().map(\.key) == ["b", "e"])
        mirror.release("a")
        #expect(states(mirror) == ["b sent 2", "c queued 0", "e sent 3", "f queued 0"])
    }

    @Test func aNewConflictOfADecisionTakesOver() throws {
        var mirror = try mirror([.made("a"), .made("c")])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "conflict", "conflict": {}}"#)], at: now)
        var decision = QueuedAction(
            key: "r", type: "resolve", payload: .parsed(#"{"of": "a", "choice": "keep_local"}"#), clientTime: "",
            zone: "UTC")
        decision.entities = ["dose:d1"]
        try mirror.enqueue(decision)
        #expect(mirror.row(key: "r")?.state == .queued)
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "r", "status": "conflict", "conflict": {}}"#)], at: now)
        #expect(states(mirror) == ["c parked 0", "r parked 2"])
        #expect(mirror.row(key: "c")?.more.behind == "r")
    }

    @Test func aRefusedDecisionCanBeMadeAgain() throws {
        var mirror = try mirror([.made("a")])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "conflict", "conflict": {}}"#)], at: now)
        var decision = QueuedAction(
            key: "r", type: "resolve", payload: .parsed(#"{"of": "a", "choice": "merge"}"#), clientTime: "", zone: "UTC"
        )
        decision.entities = ["dose:d1"]
        try mirror.enqueue(decision)
        var parked = try #require(mirror.row(key: "a"))
        parked.more.decidedBy = "r"
        mirror.put(parked)
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "r", "status": "rejected", "code": "invalid"}"#)], at: now)
        #expect(mirror.row(key: "a")?.more.decidedBy == nil && mirror.row(key: "r")?.state == .failed)
    }

    @Test func unsentAndUndoneIsNeverSent() throws {
        var mirror = try mirror([.made("a"), .made("b", of: "d2")])
        #expect(try (mirror.cancel("a")) == false)
        #expect(states(mirror) == ["b queued 0"])
        _ = mirror.number()
        // It may have been applied: only the hub can take it back.
        #expect(try (mirror.cancel("b")) == true)
        #expect(mirror.row(key: "b") != nil)
    }

    @Test func whatWaitsForAPersonIsTakenBackHere() throws {
        var mirror = try mirror([.made("a"), .made("b"), .made("c")])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "conflict", "conflict": {}}"#)], at: now)
        #expect(try (mirror.cancel("b")) == false)
        #expect(states(mirror) == ["a parked 1", "c parked 0"])
        #expect(try (mirror.cancel("a")) == false)
        #expect(states(mirror) == ["c queued 0"])
    }

    /// A decision that is taken back before it was sent: the conflict is there again, with all that waits behind it.
    @Test func aDecisionThatIsTakenBackDecidesNothing() throws {
        var mirror = try mirror([.made("a"), .made("b")])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "conflict", "conflict": {}}"#)], at: now)
        var target = try #require(mirror.row(key: "a"))
        target.more.decidedBy = "r"
        mirror.put(target)
        let decision = QueuedAction(
            key: "r", type: "resolve", payload: .parsed(#"{"of": "a", "choice": "keep_local"}"#),
            clientTime: "2025-11-20T08:00:00+00:00", zone: "UTC")
        mirror.append(decision)
        #expect(try (mirror.cancel("r")) == false)
        #expect(mirror.row(key: "a")?.more.decidedBy == nil && states(mirror) == ["a parked 1", "b parked 0"])
    }

    @Test func aRefusalIsShownUntilItIsSeen() throws {
        var mirror = try mirror([.made("a")])
        _ = mirror.number()
        mirror.settle([.parsed(#"{"key": "a", "status": "rejected", "code": "not_due", "path": "x"}"#)], at: now)
        let shown = CarillonQueued(try #require(mirror.row(key: "a")))
        #expect(shown.code == "not_due" && shown.path == "x")
        #expect(mirror.counted.isEmpty)
        mirror.dismiss("a")
        #expect(mirror.actions.isEmpty)
    }

    @Test func numbersGoOnWhereTheHubSays() throws {
        var mirror = try mirror([.made("a"), .made("b", of: "d2"), .made("c", of: "d3")])
        _ = mirror.number()
        // Only the first of several says it.
        mirror.renumber("b", expected: 8)
        #expect(mirror.actions.map(\.n) == [1, 2, 3])
        mirror.renumber("a", expected: 8)
        #expect(mirror.actions.map(\.n) == [8, 9, 10] && mirror.meta[MirrorKey.number] == "10")
    }

    @Test func anotherDeviceBeginsAnew() throws {
        var mirror = try mirror([.made("a"), .made("b", of: "d2")])
        _ = mirror.number()
        mirror.becomeDevice("tablet")
        #expect(states(mirror) == ["a queued 0", "b queued 0"])
        #expect(mirror.number().map(\.n) == [1, 2])
    }

    /// The worst moment: the old device has sent it, or will. Only the hub can take it back.
    @Test func anotherDeviceTellsItsUndo() throws {
        var mirror = try mirror([.made("a"), .made("b", of: "d2")])
        mirror.becomeDevice("tablet")
        #expect(try (mirror.cancel("a")) == true)
        #expect(states(mirror) == ["a queued 0", "b queued 0"])
    }

    @Test func whatIsAnsweredCountsUntilItsEventsAreHere() throws {
        var mirror = try mirror([.made("a")])
        mirror.put(StoredPosition(epoch: "e", offset: 5), of: "c")
        _ = mirror.number()
        let answer = #"{"key": "a", "status": "applied", "positions": {"c": {"epoch": "e", "offset": 7}}}"#
        mirror.settle([.parsed(answer)], at: now)
        #expect(mirror.counted == ["a"])
        mirror.put(StoredPosition(epoch: "e", offset: 7), of: "c")
        #expect(mirror.counted.isEmpty)
        mirror.put(StoredPosition(epoch: "f", offset: 1), of: "c")
        #expect(mirror.counted.isEmpty)
        mirror.tidy(channels: [:], at: now)
        #expect(mirror.actions.count == 1)
        mirror.tidy(channels: [:], at: now.adding(seconds: 86_401))
        #expect(mirror.actions.isEmpty)
    }

    @Test func aSignedOutUserActsNoMore() {
        var mirror = Mirror(meta: [MirrorKey.signedOut: "1"])
        #expect(throws: CarillonError.signedOut) { try mirror.enqueue(.made("a")) }
    }

    @Test func rowsAreAsTheyWereAfterStoring() throws {
        var row = QueuedAction.made("a")
        row.more.memory = .parsed(#"{"type": "markTaken"}"#)
        row.more.behind = "b"
        row.more.decidedBy = "c"
        row.more.until = ["x": StoredPosition(epoch: "e", offset: 3)]
        row.more.answeredAt = 4
        let again = try QueuedAction.More(stored: row.more.tree.canonicalText)
        #expect(again.tree.canonicalText == row.more.tree.canonicalText)
        #expect(again.until == row.more.until && again.behind == "b" && again.answeredAt == 4)
        #expect(again.memory?["type"]?.string == "markTaken")
        #expect(try QueuedAction.More(stored: "{}").memory == nil)
        // What is not JSON is found when it is read, not when it is asked for.
        for text in ["", "[]", "{", #"{"memory": }"#, #"{"memory": {"a": }}"#] {
            #expect(throws: (any Error).self) { try QueuedAction.More(stored: text) }
        }
    }
}
