import Foundation
import Glibc
import TestSupport
import Testing

@testable import carillon

/// What the pages tell people to type.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct ReadmeTests {
    /// As they are pasted after `make run`, one after the other, in the order of the pages.
    @Test func newcomersStepsWork() throws {
        let folder = FileManager.default.temporaryDirectory.path + "/carillon-test-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: folder + "/.build/release", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o755])
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createSymbolicLink(
            atPath: folder + "/.build/release/carillon", withDestinationPath: RunningCommand.carillon)
        let dev = try RunningCommand(shell: "cd \(folder) && exec .build/release/carillon dev --listen 127.0.0.1:0")
        let ready = try #require(dev.line(beginningWith: "ready"))
        let place = try String(#require(ready.firstMatch(of: /127\.0\.0\.1:\d+/)).0)
        func paste(_ steps: [String], isMixed: Bool = false) throws -> RunningCommand {
            let script = steps.joined(separator: "\n").replacing("127.0.0.1:6001", with: place)
            return try RunningCommand(shell: "cd \(folder)\n\(script)", isMixed: isMixed)
        }

        let see = try blocks(of: "## See an event", in: "README.md")
        try #require(see.count == 3 && see[0] == [".build/release/carillon tail --user demo"])
        let tail = try paste(["exec \(see[0][0])"], isMixed: true)
        #expect(tail.line(containing: "subscribed to user.demo.adherence") != nil)
        let change = try paste(see[1])
        #expect(change.rest() == "UPDATE 1\n", "one dose, and others stay open")
        #expect(change.end() == 0)
        for line in see[2] {
            let words = line.split(separator: " ", omittingEmptySubsequences: true)
            #expect(tail.line(containing: "\(words[0])  \(words[1])  {") != nil)
        }

        let send = try blocks(of: "## Send an action", in: "README.md")
        try #require(send.count == 1)
        // The other page's, which sends the same again.
        let wire = try #require(Page("Sources/README.md").section("### Actions"))
        let shell = wire.drop { $0 != "```sh" }.dropFirst().prefix { $0 != "```" }
        try #require(!shell.isEmpty)
        let action = try paste(send[0] + ["echo"] + shell)
        let answers = action.rest().split(separator: "\n")
        #expect(action.end() == 0)
        try #require(answers.count == 2, "\(action.complaint)")
        let parts = [#""status": "taken""#, #""_sync":{"replayed":false,"status":"applied","#]
        #expect(parts.allSatisfy { answers[0].contains($0) }, "\(answers[0])")
        #expect(answers[1].contains(#""_sync":{"replayed":true,"status":"applied","#), "\(answers[1])")
        #expect(tail.line(containing: "user.demo.adherence  occurrence.updated") != nil)
        let taken = try paste([
            #"psql "$(cat .carillon/database-url)" -XAtc "SELECT count(*) FROM care.dose_occurrence WHERE status = 'taken'""#
        ])
        #expect(taken.rest() == "2\n")
        #expect(tail.stop(SIGINT) == 0)
        #expect(dev.stop(SIGINT) == 0)
    }

    @Test(arguments: ["README.md", "sql/README.md"]) func publishesATableOfItsOwn(_ page: String) throws {
        let place = try PrivateCluster()
        let cluster = try place.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        try migrator.migrate { _ in }
        try cluster.widenOwner()
        let statements = try statements(of: "## Publish a table of your own", in: page)
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
        let code = try blocks(of: heading, in: page).joined().filter { !$0.contains("--") && !$0.contains(".build/") }
        return code.joined(separator: "\n").components(separatedBy: ";")
            .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }
    }

    /// The section's blocks of code, without their indentation.
    private func blocks(of heading: String, in page: String) throws -> [[String]] {
        let lines = try #require(try Page(page).section(heading))
        return lines.split { !$0.hasPrefix("    ") }.map { block in block.map { String($0.dropFirst(4)) } }
    }
}
