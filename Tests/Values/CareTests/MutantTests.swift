import Foundation
import TestSupport
import Testing

/// Tests the differential test: it must notice what is wrong in a database.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(30)))
struct MutantTests {
    /// A wrong database is found within a bounded number of actions. The histories are always the same.
    @Test(arguments: Mutant.allCases)
    func aWrongDatabaseIsFound(_ mutant: Mutant) async throws {
        let isFound = try await onOwnThread {
            let differential = Differential(subject: try Subject(mutant))
            let seeds = 0..<UInt64(Mutant.actionsMax / HistoryGenerator.actions)
            return try seeds.contains { try differential.disagreement(seed: $0) != nil }
        }
        #expect(isFound)
    }

    /// Each failing history is reduced to the steps that matter, as few as in a handmade one.
    @Test(arguments: [(Mutant.dropsGrace, 2), (.undoesTwice, 4), (.equalNotesForgetWhatWas, 5)])
    func aFailingHistoryIsShort(_ mutant: Mutant, _ steps: Int) async throws {
        let differences = try await onOwnThread {
            let differential = Differential(subject: try Subject(mutant))
            var differences: [Difference] = []
            for seed in 0..<UInt64(Mutant.actionsMax / HistoryGenerator.actions) where differences.count < Self.shrunk {
                if let difference = try differential.difference(seed: seed) { differences.append(difference) }
            }
            return differences
        }
        #expect(differences.count == Self.shrunk)
        for difference in differences {
            #expect(difference.steps.count <= steps, "\(difference)")
        }
    }

    /// Failing histories of each mutant that are shrunk.
    private static let shrunk = Int(Environment.number("CARILLON_SHRUNK") ?? 2)

    /// For changes of the generator: how many of many histories find each mutant. `CARILLON_HISTORIES` sets the number;
    /// fewer than 200 are not conclusive.
    @Test(.enabled(if: Environment.number("CARILLON_HISTORIES") != nil), arguments: Mutant.allCases)
    func manyHistoriesFindAWrongDatabase(_ mutant: Mutant) async throws {
        var random = SeededRandom()
        let seeds = (0..<Int(Environment.number("CARILLON_HISTORIES") ?? 0)).map { _ in random.next() }
        let finds = try await onOwnThread {
            let subject = try Subject(mutant)
            let differential = Differential(subject: subject)
            return try seeds.enumerated().filter { count, seed in
                if count % 200 == 199 { try subject.vacuum() }
                return try differential.disagreement(seed: seed) != nil
            }.count
        }
        // Histories are independent. With 99.9 % confidence, one finds the mutant with at least this probability (Wilson).
        let (count, share, z) = (Double(seeds.count), Double(finds) / Double(seeds.count), 3.09)
        let least =
            (share + z * z / (2 * count) - z * (share * (1 - share) / count + z * z / (4 * count * count)).squareRoot())
            / (1 + z * z / count)
        let actions = (log(0.001) / log(1 - min(least, 0.999))).rounded(.up) * Double(HistoryGenerator.actions)
        let report =
            "\(mutant): \(finds) of \(seeds.count) histories find it; 999 of 1,000 runs need at most \(Int(actions)) actions\n"
        FileHandle.standardError.write(Data(report.utf8))
        #expect(actions < Double(Mutant.actionsMax) / 2)
    }
}
