import Foundation
import TestSupport
import Testing

@testable import carillon

/// What the pages tell people to type.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct ReadmeTests {
    @Test func publishesATableOfItsOwn() throws {
        let place = try PrivateCluster()
        let cluster = try place.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        try migrator.migrate { _ in }
        try cluster.widenOwner()
        let statements = try statements(of: "## Publish a table of your own", in: "README.md")
        try #require(statements.contains { $0.hasPrefix("CREATE TABLE") } && statements.count >= 3)
        for statement in statements {
            try place.query(statement, as: DevelopmentCluster.owner)
        }
        let events = try place.query(
            "select user_id, topic, name from sync.event", as: DevelopmentCluster.owner)
        #expect(events == [["demo", "weight", "weight.created"]])
    }

    @Test func letsABackendRevoke() throws {
        let place = try PrivateCluster()
        let cluster = try place.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        try migrator.migrate { _ in }
        try place.query("create role backend login")
        let revoke = "select sync.revoke('42')"
        #expect(throws: (any Error).self, "nobody may, but whom it was granted") {
            try place.query(revoke, as: "backend")
        }
        let statements = try statements(of: "### Expiry and revocation", in: "deploy/README.md")
        #expect(statements.map { $0.prefix(6) } == ["GRANT ", "GRANT ", "SELECT", "SELECT"])
        for statement in statements {
            try place.query(statement, as: statement.hasPrefix("GRANT") ? DevelopmentCluster.owner : "backend")
        }
        // A later run of the functions leaves the backend its right.
        try migrator.migrate { _ in }
        try place.query(revoke, as: "backend")
        let standing = try place.query("select user_id, before > now() - interval '1 hour' from sync.revocation")
        #expect(standing == [["42", "t"]], "the latest stands")
    }

    /// The SQL of the section, from which comments and the indentation of the code are dropped.
    private func statements(of heading: String, in page: String) throws -> [String] {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../\(page)").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
        let section = try #require(text.components(separatedBy: heading + "\n").dropFirst().first)
        let ours = section.components(separatedBy: "\n## ")[0].components(separatedBy: "\n")
        let code = ours.filter { $0.hasPrefix("    ") && !$0.contains("--") && !$0.contains(".build/") }
        return code.joined(separator: "\n").components(separatedBy: ";")
            .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }
    }
}
