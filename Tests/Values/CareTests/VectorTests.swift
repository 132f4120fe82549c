import Foundation
import JSON
import TestSupport
import Testing

@testable import Care

/// `Tests/Vectors`: histories by which clients in other languages are held to the rules. The model makes them, the SQL
/// functions agree, and `Tests/ThirdParty/test_web_vectors.py` holds the web client to them.
///
/// `CARILLON_VECTORS=write swift test --filter VectorTests` writes the files anew, after a change of the rules.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10)))
struct VectorTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../Vectors").standardized
    private static let doseHistories = 24
    private static let reminderHistories = 24

    private static func doses() -> [DoseVector] {
        Array((1...).lazy.compactMap { DoseVector(seed: $0) }.prefix(doseHistories))
    }

    private static func text(_ trees: [JSONTree], of name: String, _ more: [JSONTree.Member] = []) -> String {
        // A history a line: a change of the rules is then seen in its diff.
        let head = JSONTree.object([.init("of", .string(name))] + more).canonicalText.dropLast()
        return head + ",\"histories\":[\n" + trees.map(\.canonicalText).joined(separator: ",\n") + "\n]}\n"
    }

    private static func check(_ name: String, _ text: String) throws {
        let file = folder.appendingPathComponent("\(name).json")
        if ProcessInfo.processInfo.environment["CARILLON_VECTORS"] == "write" {
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        let isSame = try String(contentsOf: file, encoding: .utf8) == text
        #expect(isSame, "\(file.lastPathComponent) is not what the rules say: see VectorTests on how to write it anew")
    }

    @Test func dosesAreAsTheModelSays() throws {
        let zones = Subject.zones.sorted { $0.key < $1.key }.map { JSONTree.Member($0.key, .integer(Int64($0.value))) }
        try Self.check("doses", Self.text(Self.doses().map(\.tree), of: "doses", [.init("zones", .object(zones))]))
    }

    @Test func dosesAreAsTheDatabaseSays() async throws {
        let seeds = Self.doses().map(\.seed)
        let difference = try await onOwnThread { () -> Difference? in
            let differential = Differential(subject: try Subject())
            for seed in seeds { if let found = try differential.difference(seed: seed) { return found } }
            return nil
        }
        if let difference { Issue.record("\(difference)") }
    }

    @Test func remindersAreAsTheModelSays() throws {
        let trees = (1...UInt64(Self.reminderHistories)).map { seed in
            var vector = ReminderVector(seed: seed)
            return vector.tree()
        }
        try Self.check("reminders", Self.text(trees, of: "reminders"))
    }

    @Test func schedulesAreAsTheModelSays() throws {
        try Self.check("schedules", Self.text((1...24).map { MedicationTimeTests.vector(seed: $0) }, of: "schedules"))
    }
}
