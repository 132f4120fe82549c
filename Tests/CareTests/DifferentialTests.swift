import Care
import Foundation
import TestSupport
import Testing

/// The model against the SQL functions, on random histories: the same answers, events and rows.
///
/// A failure prints its seed and a short history that shows it.
@Suite(.serialized, .timeLimit(.minutes(10)))
struct DifferentialTests {
    /// Actions of one run; `CARILLON_ACTIONS` asks for more or fewer.
    static let actions = Int(Environment.number("CARILLON_ACTIONS") ?? 100_000)

    @Test func databaseDoesWhatTheModelSays() async throws {
        var random = SeededRandom()
        let histories = (Self.actions + HistoryGenerator.actions - 1) / HistoryGenerator.actions
        let seeds = (0..<histories).map { _ in random.next() }
        let half = seeds.count / 2
        async let first = Self.run(Array(seeds[..<half]))
        async let second = Self.run(Array(seeds[half...]))
        for difference in [try await first, try await second] {
            if let difference { Issue.record("CARILLON_SEED=\(random.seed), \(difference)") }
        }
    }

    /// The first difference among the histories of `seeds`, each on the same database, on a thread of its own.
    private static func run(_ seeds: [UInt64]) async throws -> Difference? {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        let subject = try Subject()
                        for (count, seed) in seeds.enumerated() {
                            if count % 200 == 199 { try subject.vacuum() }
                            if let difference = try Differential(subject: subject).difference(seed: seed) {
                                return difference
                            }
                        }
                        return nil
                    })
            }
        }
    }

    /// A database that is wrong is found out, within so many actions.
    @Test(arguments: Mutant.allCases)
    func aWrongDatabaseIsFound(_ mutant: Mutant) throws {
        let subject = try Subject(mutant)
        var random = SeededRandom()
        let isFound = try (0..<(Mutant.actionsMax / HistoryGenerator.actions)).contains { _ in
            try Differential(subject: subject).disagreement(seed: random.next()) != nil
        }
        #expect(isFound, "CARILLON_SEED=\(random.seed)")
    }

    /// A difference is boiled down to the steps that matter.
    @Test func aFailingHistoryIsShort() throws {
        let differential = Differential(subject: try Subject(.dropsGrace))
        let seed = try #require(
            (0..<200 as Range<UInt64>).first { try differential.disagreement(seed: $0) != nil })
        let difference = try #require(try differential.difference(seed: seed))
        #expect(difference.steps.count <= 4, "\(difference)")
    }

    /// As many doses as can be marked at once, and one more.
    @Test(arguments: [200, 201])
    func criteriaMeanOnlySoMany(_ count: Int) throws {
        let subject = try Subject()
        let at = Timestamp(microseconds: 1_773_100_800_000_000)
        let day = at.date(utcOffset: 0)
        var steps = (0..<count).map { number in
            Step(
                at: at, user: "ann",
                change: .insert(
                    Dose(
                        id: Identifier("d\(number)"), user: "ann", scheduledAt: at.adding(seconds: number % 7), day: day,
                        windowEnd: at.adding(seconds: 3600), createdAt: at)))
        }
        let payload = JSONTree.object([.init("criteria", .object([]))])
        for seconds in [5, 60] {
            let envelope = ActionEnvelope(key: Identifier("k\(seconds)"), type: "bulkMarkAll", payload: payload)
            steps.append(Step(at: at.adding(seconds: seconds), user: "ann", change: .action(envelope)))
        }
        if let difference = try Differential(subject: subject).difference(steps) { Issue.record("\(difference)") }
    }
}
