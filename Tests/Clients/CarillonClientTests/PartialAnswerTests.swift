import Care
import JSON
import Testing

@testable import CarillonClient

/// An action on several doses, of which some are done.
@Suite struct PartialAnswerTests {
    private let now = Timestamp(microseconds: 1_763_629_200_000_000)

    private static let done = #"{"occurrenceId": "d1", "status": "applied", "occurrence": {"rev": 5}}"#
    private static let conflict =
        #"{"occurrenceId": "d2", "status": "conflict", "code": "state", "conflict": {"server": {"rev": 3}}}"#
    private static let refused = #"{"occurrenceId": "d3", "status": "rejected", "code": "not_due"}"#

    /// A bulk of three doses and a note on each, after the bulk's answer.
    private func mirror(_ status: String, _ items: String...) throws -> Mirror {
        var mirror = Mirror()
        var bulk = QueuedAction.made("bulk", "bulkMarkAll")
        bulk.entities = ["dose:d1", "dose:d2", "dose:d3"]
        bulk.more.memory = .parsed(#"{"type": "bulkMarkAll", "isSingle": false, "createdAt": 1, "undo": []}"#)
        try mirror.enqueue(bulk)
        for number in 1...3 { try mirror.enqueue(.made("note\(number)", "addNote", of: "d\(number)")) }
        _ = mirror.number()
        mirror.settle([answer("bulk", status, items)], at: now)
        return mirror
    }

    private func answer(_ key: String, _ status: String, _ items: [String]) -> JSONTree {
        // As a whole only a conflict has a reason.
        let reason = status == "conflict" ? #""code": "state", "message": "changed", "# : ""
        return .parsed(
            """
            {"key": "\(key)", "status": "\(status)", \(reason)"positions": {"c": {"epoch": "e", "offset": 9}},
             "result": {"items": [\(items.joined(separator: ","))]}}
            """)
    }

    private func states(_ mirror: Mirror) -> [String] { mirror.actions.map { "\($0.key) \($0.state.rawValue)" } }

    private func decision(_ key: String, of: String) -> QueuedAction {
        var row = QueuedAction(
            key: key, type: "resolve", payload: .parsed(#"{"of": "\#(of)", "choice": "keep_local"}"#), clientTime: "",
            zone: "UTC")
        row.entities = ["dose:d1", "dose:d2", "dose:d3"]
        return row
    }

    @Test func aConflictOfOneParksThatDoseOnly() throws {
        var mirror = try mirror("partial", Self.done, Self.conflict, Self.refused)
        #expect(states(mirror) == ["bulk parked", "note1 queued", "note2 parked", "note3 queued"])
        #expect(mirror.conflicted == ["dose:d2"])
        #expect(mirror.entity(.own, "dose:d1")?.offset == 5 && mirror.entity(.own, "dose:d2") == nil)
        // What is done counts until its events are here.
        mirror.put(StoredPosition(epoch: "e", offset: 5), of: "c")
        #expect(mirror.counted.contains("bulk"))
        mirror.put(StoredPosition(epoch: "e", offset: 9), of: "c")
        #expect(!mirror.counted.contains("bulk"))
        // Later ones too: behind the conflict on its dose, and free on the others.
        try mirror.enqueue(.made("late1"))
        try mirror.enqueue(.made("late2", of: "d2"))
        #expect(mirror.row(key: "late1")?.state == .queued && mirror.row(key: "late2")?.more.behind == "bulk")
    }

    @Test func eachOfThemIsToldOnce() throws {
        var mirror = try mirror("partial", Self.done, Self.conflict, Self.refused)
        func told() throws -> [String] {
            let row = try #require(mirror.row(key: "bulk"))
            let shown = CarillonQueued(row)
            guard case .array(let items) = shown.items else { return [] }
            return ["\(row.state) \(shown.code ?? "-") \(shown.message ?? "-")"]
                + items.map { $0["occurrenceId"]?.text ?? "" }
        }
        #expect(try told() == ["parked state -", "d2"])
        try mirror.decide("bulk", decision("r", of: "bulk"))
        #expect(mirror.queue.conflict("bulk") == nil)
        _ = mirror.number()
        mirror.settle([answer("r", "applied", [])], at: now)
        // What the hub refused is shown once the conflict is decided.
        #expect(try told() == ["failed not_due -", "d3"])
        mirror.dismiss("bulk")
        #expect(mirror.row(key: "bulk")?.state == .done)
    }

    @Test func aConflictOfOneIsDecidedByTheKeyOfAll() throws {
        var mirror = try mirror("partial", Self.done, Self.conflict)
        let stored = try #require(mirror.queue.conflict("bulk"))
        let wanted = try #require(stored.decision(.keepLocal))
        #expect(wanted.type == "resolve" && wanted.payload["of"]?.string == "bulk")
        #expect(wanted.base?.canonicalText == #"{"d2": {"rev": 3}}"#)
        try mirror.decide("bulk", decision("r", of: "bulk"))
        _ = mirror.number()
        mirror.settle([answer("r", "applied", [])], at: now)
        #expect(
            states(mirror) == ["bulk done", "note1 sent", "note2 queued", "note3 sent", "r done"])
        // Its other doses can be undone as before.
        #expect(try (mirror.cancel("bulk")) == true)
    }

    /// Of two doses in conflict the decision settles one; the other has changed again.
    @Test func aDecisionMayBeAPartialOneToo() throws {
        let other = Self.conflict.replacing("d2", with: "d3")
        var mirror = try mirror("partial", Self.done, Self.conflict, other)
        #expect(states(mirror) == ["bulk parked", "note1 queued", "note2 parked", "note3 parked"])
        try mirror.decide("bulk", decision("r", of: "bulk"))
        _ = mirror.number()
        mirror.settle([answer("r", "partial", [Self.done.replacing("d1", with: "d2"), other])], at: now)
        #expect(
            states(mirror) == ["bulk done", "note1 sent", "note2 queued", "note3 parked", "r parked"])
        #expect(mirror.row(key: "note3")?.more.behind == "r" && mirror.conflicted == ["dose:d3"])
    }

    /// The decision is a conflict as a whole: what is done of the bulk can still be undone.
    @Test func aNewConflictOfADecisionKeepsWhatIsDone() throws {
        var mirror = try mirror("partial", Self.done, Self.conflict, Self.refused)
        try mirror.decide("bulk", decision("r", of: "bulk"))
        _ = mirror.number()
        mirror.settle([answer("r", "conflict", [Self.conflict])], at: now)
        #expect(
            states(mirror) == ["bulk failed", "note1 sent", "note2 parked", "note3 sent", "r parked"])
        #expect(mirror.row(key: "note2")?.more.behind == "r" && mirror.conflicted == ["dose:d2"])
    }

    /// None is done: what the hub refused is shown all the same.
    @Test func whatIsRefusedBesideAConflictIsShown() throws {
        var mirror = try mirror("conflict", Self.conflict, Self.refused)
        #expect(states(mirror) == ["bulk parked", "note1 queued", "note2 parked", "note3 queued"])
        let asked = CarillonQueued(try #require(mirror.row(key: "bulk")))
        #expect(asked.code == "state" && asked.message == "changed")
        try mirror.decide("bulk", decision("r", of: "bulk"))
        _ = mirror.number()
        mirror.settle([answer("r", "applied", [])], at: now)
        let failed = CarillonQueued(try #require(mirror.row(key: "bulk")))
        #expect(mirror.row(key: "bulk")?.state == .failed && failed.items != nil && failed.conflict == nil)
        #expect(failed.code == "not_due" && failed.message == nil)
        #expect(mirror.row(key: "note2")?.state == .queued)
        #expect(try (mirror.cancel("bulk")) == false && mirror.row(key: "bulk") == nil)
    }

    /// The person takes all back: the hub has to take back what is done, and nothing waits behind the conflict any more.
    @Test func whatIsDoneIsUndone() throws {
        var mirror = try mirror("partial", Self.done, Self.conflict)
        #expect(try (mirror.cancel("bulk")) == true)
        #expect(states(mirror) == ["bulk done", "note1 queued", "note2 queued", "note3 queued"])
        var undo = QueuedAction.made("undo", "undo")
        undo.entities = ["dose:d1", "dose:d2", "dose:d3"]
        try mirror.enqueue(undo)
        #expect(mirror.row(key: "undo")?.state == .queued && mirror.queue.conflict("bulk") == nil)
    }

    /// The worst order: the person decides, and takes all back before the decision is sent. It would be carried out first.
    @Test(arguments: ["partial", "conflict"]) func aDecisionGoesWithItsConflict(_ status: String) throws {
        let isPartial = status == "partial"
        var mirror = try mirror(status, isPartial ? Self.done : Self.conflict, Self.conflict)
        try mirror.decide("bulk", decision("r", of: "bulk"))
        #expect(try (mirror.cancel("bulk")) == isPartial)
        #expect(
            states(mirror) == (isPartial ? ["bulk done"] : []) + ["note1 queued", "note2 queued", "note3 queued"])
    }

    /// It was sent: what becomes of it is not known yet, and nothing is taken back until it is.
    @Test func aDecisionUnderWayIsTakenBackByItsOwnUndo() throws {
        var mirror = try mirror("partial", Self.done, Self.conflict)
        try mirror.decide("bulk", decision("r", of: "bulk"))
        mirror.settle([answer("note1", "applied", []), answer("note3", "applied", [])], at: now)
        for key in ["note1", "note3"] { if let row = mirror.row(key: key) { mirror.remove(row) } }
        #expect(mirror.number().map(\.key) == ["r"])
        #expect(throws: CarillonError.noConflict) { try mirror.cancel("bulk") }
        #expect(states(mirror) == ["bulk parked", "note2 parked", "r sent"])
        #expect(mirror.row(key: "bulk")?.more.decidedBy == "r")
        #expect(try (mirror.cancel("r")) == true)
        mirror.settle([answer("r", "applied", [])], at: now)
        #expect(try (mirror.cancel("bulk")) == true)
    }

    @Test func someThatAreRefusedAreShown() throws {
        let mirror = try mirror("partial", Self.done, Self.refused)
        #expect(states(mirror) == ["bulk failed", "note1 queued", "note2 queued", "note3 queued"])
        #expect(mirror.row(key: "bulk")?.more.answer?["items"]?.elements.count == 1)
    }
}
