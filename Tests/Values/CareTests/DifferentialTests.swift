import Care
import Foundation
import JSON
import TestSupport
import Testing

/// Compares the model with the SQL functions on random histories: answers, events and rows must be equal.
///
/// A failure prints its seed and a short history.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15)))
struct DifferentialTests {
    /// Actions of one run, six times as many as find each mutant; `CARILLON_ACTIONS` changes the number.
    static let actions = Int(Environment.number("CARILLON_ACTIONS") ?? 60_000)

    @Test func databaseDoesWhatTheModelSays() async throws {
        var random = SeededRandom()
        let histories = (Self.actions + HistoryGenerator.actions - 1) / HistoryGenerator.actions
        let seeds = (0..<histories).map { _ in random.next() }
        let half = seeds.count / 2
        async let first = onOwnThread { try Self.difference(among: seeds[..<half]) }
        async let second = onOwnThread { try Self.difference(among: seeds[half...]) }
        for difference in [try await first, try await second] {
            if let difference { Issue.record("CARILLON_SEED=\(random.seed), \(difference)") }
        }
    }

    /// The first difference among the seeds' histories, all on one database.
    private static func difference(among seeds: ArraySlice<UInt64>) throws -> Difference? {
        let subject = try Subject()
        for (count, seed) in seeds.enumerated() {
            if count % 200 == 199 { try subject.vacuum() }
            if let difference = try Differential(subject: subject).difference(seed: seed) { return difference }
        }
        return nil
    }

    /// A dose with a reused id is a new dose, even when its revisions equal the old one's.
    @Test func aDoseMadeAgainIsAnother() async throws {
        let at = Timestamp(microseconds: 1_773_100_800_000_000)
        func insert(_ second: Int) -> Step {
            let dose = Dose(
                id: "d", user: "ann", scheduledAt: at, day: at.date(utcOffset: 0), windowEnd: at.adding(seconds: 3600),
                createdAt: at.adding(seconds: second))
            return Step(at: at.adding(seconds: second), user: "ann", change: .insert(dose))
        }
        func action(_ second: Int, _ key: Identifier, _ type: String, _ members: [JSONTree.Member]) -> Step {
            let envelope = CareEnvelope(key: key, type: type, payload: .object(members))
            return Step(at: at.adding(seconds: second), user: "ann", change: .action(envelope))
        }
        let steps = [
            insert(0), action(1, "skip", "skip", [.init("occurrenceId", .string("d"))]),
            action(2, "clash", "markTaken", [.init("occurrenceId", .string("d"))]),
            Step(at: at.adding(seconds: 3), user: "ann", change: .delete(["d"])), insert(4),
            action(5, "again", "skip", [.init("occurrenceId", .string("d"))]),
            action(6, "undo", "undo", [.init("targetKey", .string("skip"))]),
            action(7, "keep", "resolve", [.init("of", .string("clash")), .init("choice", .string("keep_local"))]),
        ]
        var model = Subject.model(epoch: "e")
        let answers = steps.map { model.play($0) }
        #expect(answers[6].hasPrefix("conflict") && answers[6].contains("superseded"))
        #expect(answers[7].hasPrefix("conflict"))
        let difference = try await onOwnThread { try Differential(subject: try Subject()).difference(steps) }
        if let difference { Issue.record("\(difference)") }
    }

    /// Two devices more than are remembered: the least recently active are forgotten.
    @Test func devicesAreForgotten() async throws {
        let at = Timestamp(microseconds: 1_773_100_800_000_000)
        func act(_ second: Int, _ device: String, _ number: Int64, _ key: String) -> Step {
            let envelope = CareEnvelope(
                key: Identifier(key), device: Identifier(device), number: number, type: "skip", payload: .object([]))
            return Step(at: at.adding(seconds: second), user: "ann", change: .action(envelope))
        }
        var steps = (0..<100).map { act($0 / 7, "d\($0)", 1, "first \($0)") }
        steps.append(act(100, "d0", 2, "second 0"))
        // One more device, with a time before all others; then one that makes it forget two others.
        steps.append(act(-1, "new", 1, "new"))
        steps.append(act(101, "newer", 1, "newer"))
        // Forgotten devices, with the next number and with the expected one.
        for device in ["d0", "d1", "d2", "new"] {
            steps.append(act(102, device, 2, "next \(device)"))
            steps.append(act(103, device, 1, "next \(device)"))
        }
        let history = steps
        let difference = try await onOwnThread { try Differential(subject: try Subject()).difference(history) }
        if let difference { Issue.record("\(difference)") }
        var model = Subject.model(epoch: "e")
        for step in steps { _ = model.play(step) }
        #expect(model.accounts["ann"]?.devices.count == 100)
    }

    /// As many doses as can be marked at once, and one more.
    @Test(arguments: [200, 201])
    func criteriaMeanOnlySoMany(_ count: Int) async throws {
        let at = Timestamp(microseconds: 1_773_100_800_000_000)
        var steps = (0..<count).map { number in
            let dose = Dose(
                id: Identifier("d\(number)"), user: "ann", scheduledAt: at.adding(seconds: number % 7),
                day: at.date(utcOffset: 0), windowEnd: at.adding(seconds: 3600), createdAt: at)
            return Step(at: at, user: "ann", change: .insert(dose))
        }
        let payload = JSONTree.object([.init("criteria", .object([]))])
        for seconds in [5, 60] {
            let envelope = CareEnvelope(key: Identifier("k\(seconds)"), type: "bulkMarkAll", payload: payload)
            steps.append(Step(at: at.adding(seconds: seconds), user: "ann", change: .action(envelope)))
        }
        let history = steps
        let difference = try await onOwnThread {
            try Differential(subject: try Subject()).difference(history)
        }
        if let difference { Issue.record("\(difference)") }
    }
}

/// Runs `body` on its own thread: it waits for the database, and tests share two threads.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
}
