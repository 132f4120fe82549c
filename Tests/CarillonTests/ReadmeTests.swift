import Foundation
import Glibc
import TestSupport
import Testing

@testable import carillon

/// Commands that the pages tell people to type.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct ReadmeTests {
    /// Pasted after `make run`, one after the other, in the order of the pages.
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
        let address = try String(#require(ready.firstMatch(of: /127\.0\.0\.1:\d+/)).0)
        func paste(_ steps: [String], isMixed: Bool = false) throws -> RunningCommand {
            let script = steps.joined(separator: "\n").replacing("127.0.0.1:6001", with: address)
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
            // A clock, the channel, the event.
            let words = line.split(separator: " ", omittingEmptySubsequences: true)
            #expect(tail.line(containing: "  \(words[1])  \(words[2])  {") != nil)
        }

        // The page of the wire, which sends it twice.
        let wire = try #require(Page("Sources/Values/Sync/README.md").section("### Actions by HTTP"))
        let shell = wire.drop { $0 != "```sh" }.dropFirst().prefix { $0 != "```" }
        try #require(!shell.isEmpty)
        let days = try #require(Page("Sources/Values/Sync/README.md").section("### An example with medications"))
        let example = try paste(Array(days.drop { $0 != "```sh" }.dropFirst().prefix { $0 != "```" }))
        let told = example.rest().split(separator: "\n")
        #expect(example.end() == 0, "\(example.complaint)")
        try #require(told.count >= 6, "\(told)")
        for (line, want) in zip(told[2...], ["taken", "scheduled", "made_up"]) {
            #expect(
                line.contains(#""status": "\#(want)""#) && line.contains(#""status":"applied""#), "\(want): \(line)")
        }
        #expect(told[5].contains(#""currentStreakDays""#))
        let table = try String(contentsOfFile: folder + "/doses.csv", encoding: .utf8)
        #expect(table.contains("Ramipril") && table.contains("made_up") && table.contains("was travelling"))
        let action = try paste(Array(shell))
        let answers = action.rest().split(separator: "\n")
        #expect(action.end() == 0)
        try #require(answers.count == 2, "\(action.complaint)")
        let parts = [#""status": "taken""#, #""_sync":{"replayed":false,"status":"applied","#]
        #expect(parts.allSatisfy { answers[0].contains($0) }, "\(answers[0])")
        #expect(answers[1].contains(#""_sync":{"replayed":true,"status":"applied","#), "\(answers[1])")
        #expect(tail.line(containing: "user.demo.adherence  occurrence.updated") != nil)
        let taken = try paste([
            // Without the demonstration's history.
            #"psql "$(cat .carillon/database-url)" -XAtc "SELECT count(*) FROM care.dose_occurrence WHERE status = 'taken' AND local_date >= current_date""#
        ])
        #expect(taken.rest() == "2\n")
        #expect(tail.stop(SIGINT) == 0)
        #expect(dev.stop(SIGINT) == 0)
    }

    /// The first page, in the demonstration, whose owner may create tables in `public`.
    @Test func publishesATableOfItsOwn() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        try migrator.migrate { _ in }
        try cluster.widenOwner()
        let statements = try statements(of: "## Publish a table of your own", in: "README.md")
        try #require(statements.contains { $0.hasPrefix("CREATE TABLE") } && statements.count >= 3)
        for statement in statements {
            try server.query(statement, as: DevelopmentCluster.owner)
        }
        let events = try server.query(
            "select user_id, topic, name from sync.event", as: DevelopmentCluster.owner)
        #expect(events == [["demo", "weight", "weight.created"]])
    }

    @Test func takesAnActionTypeOfItsOwn() throws {
        let server = try ownDatabase()
        let code = try blocks(of: "## An action type of your own", in: Self.sqlPage).map { $0.joined(separator: "\n") }
        try #require(code.count == 2 && code[1].hasPrefix("GRANT "))
        let script = code[0].components(separatedBy: "$$;\n")
        try #require(script.count == 2)
        for statement in [script[0] + "$$", script[1], code[1]] { try server.query(statement, as: "app") }
        func send(_ payload: String) throws -> [String?] {
            let call = "sync.apply('demo', '\(payload)', null, null, 'logWeight', '\(payload)', null, null, null)"
            return try server.query(
                "select status, a #> '{positions,user.demo.weight,offset}' from (select status, answer::jsonb as a from \(call)) as t",
                as: DevelopmentCluster.hub
            ).first ?? []
        }
        #expect(try send(#"{"grams": 71500}"#) == ["applied", "2"], "behind that of the first section")
        for wrong in ["{}", #"{"grams": "a"}"#, #"{"grams": 1e300}"#, #"{"grams": 0}"#, #"{"grams": "\u0000"}"#] {
            #expect(try send(wrong) == ["rejected", nil], "\(wrong)")
        }
    }

    /// The page's builder, and the members of a draft in the order of their type: a builder returns them by it.
    @Test func takesABuilderOfItsOwn() throws {
        let server = try ownDatabase()
        let section = try #require(Page(Self.sqlPage).section("### A builder of your own"))
        let table = section.drop { !$0.hasPrefix("| member of `sync.draft` |") }.dropFirst(2).prefix {
            $0.hasPrefix("|")
        }
        let named = table.map { String($0.split(separator: "`")[1]) }
        let members = try server.query(
            """
            select attname from pg_attribute where attrelid = 'sync.draft'::regclass and attnum > 0 and not attisdropped
            order by attnum
            """)
        #expect(named == members.map { $0[0] ?? "" })
        let code = section.drop { $0 != "```sql" }.dropFirst().prefix { $0 != "```" }.joined(separator: "\n")
        let statements = code.components(separatedBy: ";\n")
        try #require(statements.count == 2)
        for statement in statements { try server.query(statement, as: "app") }
        for statement in [
            "UPDATE app.weight SET grams = 71250", "UPDATE app.weight SET user_id = 'ana'", "DELETE FROM app.weight",
        ] { try server.query(statement, as: "backend") }
        let events = try server.query(
            """
            select user_id, name, data ->> 'kilograms' from sync.event where name <> 'weight.created'
            order by xid, user_id
            """)
        #expect(
            events == [
                ["demo", "weight.changed", "71.3"], ["ana", "weight.changed", "71.3"], ["demo", "weight.removed", nil],
                ["ana", "weight.removed", nil],
            ])
    }

    /// A role that may not make the roles is told of a file. A superuser runs it as the page says, and that role migrates.
    @Test func makesTheRolesByTheirFile() throws {
        let server = try PrivateCluster()
        let folders = try server.start().folders
        _ = try server.makeDatabase("hub")
        try server.query("create role admin login", in: "hub")
        let section = try #require(Page(Self.sqlPage).section("### Roles and grants"))
        let command = section.drop { $0 != "```sh" }.dropFirst().prefix { $0 != "```" }.joined(separator: "\n")
        func migrate() throws -> (text: String, status: Int32) {
            let url = folders.databaseURL(role: "admin", database: "hub")
            let run = try RunningCommand(["migrate", "--database-url", url], isMixed: true)
            let text = run.rest()
            return (text, run.end())
        }
        let refused = try migrate()
        #expect(
            refused.status == 1 && refused.text.contains("run sql/roles.sql as a superuser first"), "\(refused.text)")
        let typed = command.replacing("-h db ", with: "-h \(folders.socket) ")
        #expect(typed != command)
        let roles = try RunningCommand(shell: "cd \(Page.root.path)\n\(typed)", isMixed: true)
        let told = roles.rest()
        #expect(roles.end() == 0, "\(told)")
        let migrated = try migrate()
        #expect(migrated.status == 0, "\(migrated.text)")
    }

    /// From the roles to a large job, each by the role that the page names.
    @Test func setsUpADatabaseOfYourOwn() throws {
        let server = try ownDatabase()
        func run(_ statements: some Sequence<String>, as role: String) throws {
            for statement in statements { try server.query(statement, as: role) }
        }
        let events = try server.query("select user_id, topic, name from sync.event", as: "app")
        #expect(events == [["demo", "weight", "weight.created"]])
        let snapshot = try blocks(of: "## Snapshots of your own tables", in: Self.sqlPage)
        try #require(snapshot.count == 2)
        try run([snapshot[0].joined(separator: "\n")] + snapshot[1], as: "app")
        let resource = try blocks(of: "## A resource of your own", in: Self.sqlPage)[0]
        try #require(resource.allSatisfy { $0.hasPrefix("GRANT ") })
        try run(resource, as: "app")
        for role in ["backend", DevelopmentCluster.hub] {
            let rows = try server.query("SELECT top, body FROM app.weights('demo', 100)", as: role)
            #expect(rows == [["1", "[71500]"]], "\(role)")
        }
        let care = try statements(of: "## Carillon's own tables", in: Self.sqlPage)
        try #require(care.count == 3)
        try run(care, as: DevelopmentCluster.owner)
        let doses = try server.query("SELECT status, tz FROM care.dose_occurrence", as: "backend")
        #expect(doses.first?[1] == "Europe/Berlin" && (14...15).contains(doses.count), "today's may have passed")
        try run(["UPDATE app.weight SET grams = 71500000"], as: "backend")
        try run(blocks(of: "### Large jobs", in: Self.sqlPage).map { $0.joined(separator: "\n") }, as: "backend")
        #expect(try server.query("SELECT grams FROM app.weight") == [["71500"]])
        #expect(throws: (any Error).self, "a backend cannot write a false history") {
            try server.query(
                """
                INSERT INTO care.dose_audit (occurrence_id, user_id, at, actor, status)
                VALUES ('d', '42', now(), 'user', 'taken')
                """, as: "backend")
        }
    }

    @Test func letsABackendRevoke() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        try migrator.migrate { _ in }
        try server.query("create role backend login")
        let revoke = "select sync.revoke('42')"
        #expect(throws: (any Error).self, "nobody may, but whom it was granted") {
            try server.query(revoke, as: "backend")
        }
        let statements = try statements(of: "## Revoke a user's access", in: "sql/README.md")
        #expect(statements.map { $0.prefix(6) } == ["GRANT ", "GRANT ", "SELECT", "SELECT"])
        for statement in statements {
            try server.query(statement, as: statement.hasPrefix("GRANT") ? DevelopmentCluster.owner : "backend")
        }
        // A later run of the functions keeps the backend's grant.
        try migrator.migrate { _ in }
        try server.query(revoke, as: "backend")
        let standing = try server.query("select user_id, before > now() - interval '1 hour' from sync.revocation")
        #expect(standing == [["42", "t"]], "the latest stands")
    }

    /// On a server without the roles: created from a file of them, or by a migration.
    @Test(arguments: [true, false]) func aDumpIsRestoredOnANewServer(_ hasRolesFile: Bool) throws {
        let (old, new) = (try PrivateCluster(), try PrivateCluster())
        try old.start()
        try new.start()
        let oldURL = try old.makeDatabase("hub")
        try Migrator(url: oldURL, files: try SQLFileSet.embedded()).migrate { _ in }
        try old.query("create table own (id int primary key, u text)", in: "hub")
        try old.query("select sync.publish_changes('own', 'u', 'own', 'own')", in: "hub")
        try old.query("insert into own values (1, 'demo')", in: "hub")
        try old.query("alter role carillon_hub password 'secret'", in: "hub")

        let steps = try blocks(of: "## Back up and restore", in: "deploy/README.md")
        try #require(steps.count >= 3)
        let folder = FileManager.default.temporaryDirectory.path + "/carillon-test-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let sockets = [old, new].map { $0.cluster?.folders.socket ?? "" }
        func url(_ database: String) -> String {
            new.cluster?.folders.databaseURL(role: "postgres", database: database) ?? ""
        }
        func run(_ lines: [String]) throws -> (text: String, status: Int32) {
            let script = lines.joined(separator: "\n").replacing(
                "-h old -U admin", with: "-h \(sockets[0]) -U postgres"
            )
            .replacing("-h db -U admin", with: "-h \(sockets[1]) -U postgres")
            .replacing("=postgresql://admin@db/hub ", with: "='\(url("hub"))' ")
            .replacing("=postgresql://admin@db/roles ", with: "='\(url("roles"))' ")
            .replacing("carillon migrate", with: RunningCommand.carillon + " migrate")
            let command = try RunningCommand(shell: "set -e\ncd \(folder)\n\(script)", isMixed: true)
            let text = command.rest()
            return (text, command.end())
        }

        let backUp = try run(steps[0])
        #expect(backUp.status == 0, "\(backUp.text)")
        if !hasRolesFile {
            // Without the roles the restore itself complains, and the migration reports what to do.
            let early = try run(["createdb -h db -U admin hub", "pg_restore -h db -U admin -d hub hub.dump || true"])
            #expect(early.text.contains("role \"carillon_owner\" does not exist"))
            let told = try run(["DATABASE_URL=postgresql://admin@db/hub carillon migrate"])
            #expect(
                told.text == """
                    carillon: the schema sync of this database belongs to postgres, not to carillon_owner, a role that this \
                    server does not have: a dump keeps its owners only if their roles exist; make the roles, and \
                    restore it into a new database (deploy/README.md, Back up and restore)

                    """)
            #expect(told.status == 1)
            try new.query("drop database hub", in: "postgres")
        }
        // The page's first line creates the roles from the file, its last block without one.
        let roles = hasRolesFile ? [steps[1][0]] : steps[2].filter { !$0.contains("\\password") }
        let restore = try run(roles + steps[1].dropFirst())
        #expect(restore.status == 0, "\(restore.text)")
        #expect(restore.text.contains("the database is at migration "))
        #expect(!restore.text.contains("does not tell all its changes"))
        #expect(restore.text.contains("has no password") != hasRolesFile, "the file has it")
        try new.query("insert into own values (2, 'demo')", in: "hub")
        let events = try new.query("select user_id, name from sync.event order by o", in: "hub")
        #expect(events == [["demo", "own.created"], ["demo", "own.created"]])
    }

    /// The page's sample is a key set that the hub can read.
    @Test func theSampleOfAKeySetIsRead() throws {
        let section = try #require(Page("deploy/README.md").section("### Tokens"))
        let keys = section.drop { $0 != "```json" }.dropFirst().prefix { $0 != "```" }
        try #require(!keys.isEmpty)
        let file = FileManager.default.temporaryDirectory.path + "/carillon-test-\(UUID().uuidString.prefix(8)).json"
        try keys.joined(separator: "\n").write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        let check = try RunningCommand(
            ["check-config", "--jwt-keys-file", file, "--database-url", "postgresql://h/d"], isMixed: true,
            environment: ["CARILLON_APPS": #"[{"id": "1", "key": "k", "secret": "s"}]"#])
        let text = check.rest()
        #expect(check.end() == 0, "\(text)")
    }

    /// The page's sample is a settings file that the hub can read.
    @Test func theSampleOfAppsIsRead() throws {
        let section = try #require(Page("deploy/README.md").section("## Apps"))
        let apps = section.drop { $0 != "```json" }.dropFirst().prefix { $0 != "```" }
        try #require(!apps.isEmpty)
        let file = FileManager.default.temporaryDirectory.path + "/carillon-test-\(UUID().uuidString.prefix(8)).json"
        try apps.joined(separator: "\n").write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        let check = try RunningCommand(["check-config", "--config", file], isMixed: true)
        let text = check.rest()
        #expect(check.end() == 0 && text.contains("file \(file)"), "\(text)")
    }

    private static let sqlPage = "sql/README.md"

    /// A migrated database with the roles and the published table of the page: a superuser sets up the roles, and `app`
    /// publishes its table.
    private func ownDatabase() throws -> PrivateCluster {
        let server = try PrivateCluster()
        let cluster = try server.start()
        try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded()).migrate { _ in }
        let roles = try statements(of: "### Roles and grants", in: Self.sqlPage)
        try #require(roles.count == 10 && roles[0].hasPrefix("CREATE ROLE app"))
        try #require(roles[5] == "SET ROLE carillon_owner" && roles[9] == "RESET ROLE")
        for statement in roles[..<5] { try server.query(statement, as: "postgres") }
        for statement in roles[6..<9] { try server.query(statement, as: DevelopmentCluster.owner) }
        let table = try statements(of: "## Publish a table", in: Self.sqlPage)
        try #require(table.map { $0.prefix(6) } == ["CREATE", "SELECT", "INSERT", "GRANT "])
        for statement in table { try server.query(statement, as: "app") }
        return server
    }

    /// The SQL of the section, without comments and code indentation.
    private func statements(of heading: String, in page: String) throws -> [String] {
        let code = try blocks(of: heading, in: page).joined().filter { !$0.contains("--") && !$0.contains(".build/") }
        return code.joined(separator: "\n").components(separatedBy: ";")
            .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }
    }

    /// The section's code blocks that are indented, without their indentation.
    private func blocks(of heading: String, in page: String) throws -> [[String]] {
        var isFenced = false
        let lines = try #require(try Page(page).section(heading)).map { line in
            let isFence = line.drop { $0 == " " }.hasPrefix("```")
            if isFence { isFenced.toggle() }
            return isFence || isFenced ? "" : line
        }
        return lines.split { !$0.hasPrefix("    ") }.map { block in block.map { String($0.dropFirst(4)) } }
    }
}
