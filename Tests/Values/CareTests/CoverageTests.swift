import Care
import JSON
import TestSupport
import Testing

/// Random histories must meet every possible outcome of an action.
@Suite(.timeLimit(.minutes(15)))
struct CoverageTests {
    @Test func historiesMeetEveryOutcome() async throws {
        let outcomes = try await onOwnThread { try Self.outcomes() }
        #expect(Self.wanted.subtracting(outcomes) == [])
    }

    private static func outcomes() throws -> Set<String> {
        var outcomes: Set<String> = []
        for seed in 0..<300 as Range<UInt64> {
            var generator = HistoryGenerator(seed: seed, model: Subject.model(epoch: "e"))
            let (steps, expected) = generator.run()
            for (step, text) in zip(steps, expected) {
                guard case .action(let envelope) = step.change else { continue }
                let lines = text.split(separator: "\n")
                let answer = try JSONTree(String(lines[1]))
                let code = answer["code"]?.string.map { " " + $0 } ?? ""
                let isKnown = DoseAction.types.contains(envelope.type)
                outcomes.insert("\(isKnown ? envelope.type : "unknown") \(lines[0])\(code)")
                if answer["replayed"] != nil { outcomes.insert("replayed \(lines[0])") }
            }
        }
        return outcomes
    }

    private static let wanted: Set<String> = [
        "markTaken applied", "markTaken noop", "markTaken conflict state", "markTaken conflict late",
        "markTaken conflict gone", "markTaken rejected invalid", "markTaken rejected key_reused",
        "markTaken retry out_of_order", "markMissed applied", "markMissed noop", "markMissed conflict state",
        "markMissed conflict gone", "markMissed rejected not_due", "makeUp applied", "makeUp noop",
        "makeUp conflict state", "makeUp conflict gone", "makeUp rejected not_due", "skip applied", "skip noop",
        "skip conflict state", "skip conflict gone", "addNote applied", "addNote conflict gone", "undo applied",
        "undo noop", "undo partial", "undo conflict superseded", "undo conflict late", "undo conflict gone",
        "undo rejected invalid", "bulkMarkAll applied", "bulkMarkAll noop", "bulkMarkAll partial",
        "bulkMarkAll conflict state", "bulkMarkAll conflict late", "bulkMarkAll conflict gone",
        "bulkMarkAll rejected not_due", "bulkMarkAll rejected invalid", "resolve applied", "resolve noop",
        "resolve partial", "resolve conflict state", "resolve conflict gone", "resolve rejected invalid",
        "unknown rejected invalid", "replayed applied", "replayed noop", "replayed partial", "replayed conflict",
        "replayed rejected",
    ]
}
