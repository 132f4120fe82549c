import Foundation
import Reactor
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
        var difference: Difference?
        for _ in 0..<(Mutant.actionsMax / HistoryGenerator.actions) {
            difference = try Differential(subject: subject).difference(seed: random.next())
            if difference != nil { break }
        }
        #expect(difference != nil, "CARILLON_SEED=\(random.seed)")
    }
}
