import Foundation
import TestSupport
import Testing

@testable import carillon

/// What the README tells people to type.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct ReadmeTests {
    @Test func publishesATableOfItsOwn() throws {
        let place = try PrivateCluster()
        let cluster = try place.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        try migrator.migrate { _ in }
        try cluster.widenOwner()
        for statement in try statements() {
            try place.query(statement, as: DevelopmentCluster.owner)
        }
        let events = try place.query(
            "select user_id, topic, name from sync.event", as: DevelopmentCluster.owner)
        #expect(events == [["demo", "weight", "weight.created"]])
    }

    /// The SQL of the section, from which comments and the indentation of the code are dropped.
    private func statements() throws -> [String] {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../README.md").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
        let section = try #require(text.components(separatedBy: "## Publish a table of your own\n").dropFirst().first)
        let ours = section.components(separatedBy: "\n## ")[0].components(separatedBy: "\n")
        let code = ours.filter { $0.hasPrefix("    ") && !$0.contains("--") && !$0.contains(".build/") }
        let statements = code.joined(separator: "\n").components(separatedBy: ";")
            .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }
        try #require(statements.contains { $0.hasPrefix("CREATE TABLE") } && statements.count >= 3)
        return statements
    }
}
