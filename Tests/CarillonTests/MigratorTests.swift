import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing

@testable import carillon

@Suite(.ownThread, .serialized, .timeLimit(.minutes(15)))
struct MigratorTests {
    /// Two migrations and a function, small enough to verify by eye.
    private func files() throws -> SQLFileSet {
        var files = try SQLFileSet.embedded()
        files.migrations = [
            .init(version: 1, file: .init(path: "migrations/0001_one.sql", text: "create table sync.one (n int);")),
            .init(version: 2, file: .init(path: "migrations/0002_two.sql", text: "create table sync.two (n int);")),
        ]
        files.functions = [
            .init(
                path: "functions/10_three.sql",
                text: "create or replace function sync.three() returns int language sql return 3;")
        ]
        return files
    }

    private func lines(_ url: String, _ files: SQLFileSet) throws -> [String] {
        var lines: [String] = []
        try Migrator(url: url, files: files).migrate { lines.append($0) }
        return lines
    }

    @Test func migratesOnceAndThenHasNothingToDo() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try files()
        let before = try Migrator(url: url, files: files).status()
        #expect(before.pending.map(\.version) == [1, 2])
        #expect(
            MigrateCommand.plan(before, missingRoles: try Migrator(url: url, files: files).missingRoles()) == [
                "would make the role carillon_owner", "would make the role carillon_hub",
                "would apply 0001_one", "would apply 0002_two", "would apply the functions",
            ])
        #expect(try server.query("select to_regclass('sync.migration')", in: "one").first?.first == .some(nil))

        #expect(try lines(url, files).count == 3)
        let after = try Migrator(url: url, files: files).status()
        #expect(after.isCurrent)
        #expect(try Migrator(url: url, files: files).missingRoles().isEmpty)
        #expect(MigrateCommand.plan(after, missingRoles: []) == ["nothing to do"])
        #expect(MigrateCommand.table(after).count == 3)
        #expect(try lines(url, files).isEmpty)
        #expect(try server.query("select sync.three()", as: "carillon_owner", in: "one").first?.first == "3")
        let owner = "select tableowner from pg_tables where schemaname = 'sync' group by 1"
        #expect(try server.query(owner, in: "one") == [["carillon_owner"]])
    }

    @Test func saysThatTheHubHasNoPassword() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        func migrate(_ url: String, _ options: [String] = []) throws -> String {
            let command = try RunningCommand(["migrate"] + options, isMixed: true, environment: ["DATABASE_URL": url])
            let text = command.rest()
            #expect(command.end() == 0, "\(text)")
            return text
        }
        let advice = MigrateCommand.passwordAdvice.joined(separator: "\n") + "\n"
        #expect(try migrate(url).hasSuffix(advice), "after the roles were made")
        #expect(try migrate(url).hasSuffix(advice), "and where there was nothing to do")
        let renewed = try migrate(url, ["--new-epoch"])
        #expect(renewed.hasSuffix(advice) && renewed.contains("devices fetch snapshots, connected ones at once\n"))
        #expect(try !migrate(url, ["--status"]).contains("password"))
        // A role that may not look reports nothing about existing roles.
        let owner = url.replacing("//postgres@", with: "//carillon_owner@")
        #expect(try !migrate(owner).contains("password"))
        try server.query("alter role carillon_hub password 'secret'", in: "one")
        #expect(try !migrate(url).contains("password"))
    }

    @Test func saysSoWhereTheRolesMakerMayNotLook() throws {
        let server = try PrivateCluster()
        try server.start()
        try server.query("create role maker login createrole", in: "postgres")
        let url = try server.makeDatabase("one")
        try server.query("alter database one owner to maker", in: "postgres")
        let maker = url.replacing("//postgres@", with: "//maker@")
        let command = try RunningCommand(["migrate"], isMixed: true, environment: ["DATABASE_URL": maker])
        let text = command.rest()
        #expect(command.end() == 0, "\(text)")
        #expect(text.hasSuffix(MigrateCommand.passwordAdvice.joined(separator: "\n") + "\n"))
    }

    @Test func appliesWhatIsNewAndRunsFunctionsThatChanged() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        var files = try files()
        _ = try lines(url, files)
        files.functions[0] = .init(
            path: files.functions[0].path,
            text: files.functions[0].text.replacingOccurrences(of: "return 3", with: "return 4"))
        #expect(try lines(url, files) == ["1 function files applied"])
        files.migrations.append(
            .init(version: 3, file: .init(path: "migrations/0003_x.sql", text: "create table sync.x (n int);")))
        #expect(try lines(url, files) == ["migration 3 (0003_x) applied", "1 function files applied"])
        #expect(try server.query("select sync.three()", as: "carillon_owner", in: "one").first?.first == "4")
    }

    @Test func refusesChangedNewerAndPassedOverMigrations() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try files()
        _ = try lines(url, files)

        var changed = files
        changed.migrations[0] = .init(
            version: 1, file: .init(path: files.migrations[0].file.path, text: "create table sync.other (n int);"))
        expectFailure("checksum differs") { _ = try lines(url, changed) }
        #expect(try Migrator(url: url, files: changed).status().lines[0].state == .changed)

        var older = files
        older.migrations.removeLast()
        expectFailure("newer than this program") { _ = try lines(url, older) }

        var between = files
        between.migrations[1] = .init(version: 5, file: files.migrations[1].file)
        try server.query("update sync.migration set version = 5 where version = 2", in: "one")
        between.migrations.insert(
            .init(version: 3, file: .init(path: "migrations/0003_x.sql", text: "select 1;")), at: 1)
        expectFailure("never ran, but 5 did") { _ = try lines(url, between) }
        #expect(try server.query("select count(*) from sync.migration", in: "one").first?.first == "2")
    }

    /// The hub's role is in the same environment, and easily taken.
    @Test func saysWhoMayMigrate() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        _ = try lines(url, try files())
        let hub = url.replacing("//postgres@", with: "//carillon_hub@")
        expectFailure("connect as a superuser or as carillon_owner, not as carillon_hub") {
            _ = try lines(hub, try files())
        }
    }

    @Test func keepsNothingOfAMigrationThatFails() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        var files = try files()
        files.migrations[1] = .init(
            version: 2,
            file: .init(path: "migrations/0002_two.sql", text: "create table sync.two (n int); select 1 / 0;"))
        expectFailure("sql/migrations/0002_two.sql failed") { _ = try lines(url, files) }
        let status = try Migrator(url: url, files: files).status()
        #expect(status.pending.map(\.version) == [2])
        #expect(try server.query("select to_regclass('sync.two')", in: "one").first?.first == .some(nil))
    }

    @Test func twoAtOnceApplyEachMigrationOnce() async throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try files()
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    var lines: [String] = []
                    try Migrator(url: url, files: files).migrate { lines.append($0) }
                    return lines.count
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts.sorted() == [0, 3])
    }

    @Test func embeddedFilesMigrateAndDemonstrateTwice() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        #expect(try migrator.migrate { _ in }.isCurrent)
        for _ in 0..<2 {
            try migrator.demonstrate()
            let doses = try server.query(
                "select user_id, count(*) from care.dose_occurrence group by 1 order by 1", as: DevelopmentCluster.owner
            )
            #expect(doses.map(\.first) == ["demo", "demo2"])
            #expect(doses.allSatisfy { Int($0[1] ?? "") ?? 0 >= 6 })
        }
        let epoch = { try server.query("select epoch from sync.meta", as: DevelopmentCluster.owner).first?.first }
        let before = try epoch()
        let begun = try migrator.beginEpoch()
        #expect(try epoch() == begun)
        #expect(before != begun)
        try cluster.widenOwner()
        #expect(try server.query("show data_directory", as: DevelopmentCluster.owner).count == 1)
        // As the owner alone, without a superuser, the next start has nothing to do and reports that.
        #expect(try Migrator(url: cluster.ownerURL, files: try SQLFileSet.embedded()).migrate { _ in }.isCurrent)
        #expect(throws: (any Error).self) { try server.query("select * from sync.event", as: DevelopmentCluster.hub) }
    }

    /// The product's own tables are repaired, even if there is nothing else to do; others' are reported.
    @Test func putsPublishedTablesRight() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try SQLFileSet.embedded()
        _ = try lines(url, files)
        try server.query(
            "update sync.published set topic = 'weight' where relation = 'care.reminder_rule'::regclass", in: "one")
        try server.query("alter table care.dose_occurrence disable trigger sync_insert", in: "one")
        try server.query("alter table sync.ticket disable trigger flush", in: "one")
        let before = try Migrator(url: url, files: files).status()
        #expect(!before.isCurrent && before.functionsCurrent && before.problems.count == 3)
        #expect(MigrateCommand.plan(before, missingRoles: []).last == "would apply the functions")
        #expect(try lines(url, files) == ["\(files.functions.count) function files applied"])
        #expect(try Migrator(url: url, files: files).status().problems.isEmpty)
        #expect(try lines(url, files).isEmpty)

        try server.query("create table own (id int primary key, u text)", in: "one")
        try server.query("select sync.publish_changes('own', 'u', 'own', 'own')", in: "one")
        try server.query("alter table own rename id to code", in: "one")
        let complaint =
            "the published table public.own does not tell all its changes: column id is gone: publish the table again"
        #expect(try lines(url, files) == [complaint])
        #expect(MigrateCommand.table(try Migrator(url: url, files: files).status()).last == complaint)
        // It blocks neither a migration nor other repairs.
        try server.query("delete from sync.function_set", in: "one")
        try server.query(
            "update sync.published set builder = 'care.reminder_events' where relation = 'care.dose_occurrence'::regclass",
            in: "one")
        #expect(try lines(url, files) == ["\(files.functions.count) function files applied", complaint])
    }

    @Test func saysWhatIsMissingToAnOrdinaryRole() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        try server.query("create role nobody login")
        let url = cluster.folders.databaseURL(role: "nobody", database: DevelopmentCluster.database)
        expectFailure("run sql/roles.sql as a superuser first") { _ = try lines(url, try files()) }
        expectFailure("cannot be reached") {
            _ = try lines(cluster.folders.databaseURL(role: "postgres", database: "absent"), try files())
        }
    }

    /// As after a restore with other owners, such as `pg_restore --no-owner`; without the role, see `ReadmeTests`.
    @Test func saysThatTheSchemaIsAnothers() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try files()
        _ = try lines(url, files)
        try server.query("create role \"Some one\"", in: "one")
        try server.query("alter schema sync owner to \"Some one\"", in: "one")
        let words =
            "the schema sync of this database belongs to Some one, not to carillon_owner: a dump keeps its owners only if"
        expectFailure(words) { _ = try lines(url, files) }
        expectFailure(words) { _ = try Migrator(url: url, files: files).status() }
        try server.query("alter schema sync owner to carillon_owner", in: "one")
        #expect(try lines(url, files).isEmpty)
    }

    @Test func aRoleThatMakesRolesBecomesAMember() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        try server.query("create role deployer login createrole")
        try server.query("create database deployed owner deployer", in: "postgres")
        let url = cluster.folders.databaseURL(role: "deployer", database: "deployed")
        #expect(try lines(url, try files()).count == 3)

        try server.query("create role \"Some one\" login")
        try server.query("create database other", in: "postgres")
        let other = cluster.folders.databaseURL(role: "Some%20one", database: "other")
        expectFailure("have a superuser run: GRANT carillon_owner TO \"Some one\"") {
            _ = try lines(other, try files())
        }
    }

    @Test func failuresAreOneLine() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        var files = try files()
        files.migrations[1] = .init(
            version: 2, file: .init(path: "migrations/0002_two.sql", text: "select 1;\nselect nothing;\n"))
        let failure = #expect(throws: Failure.self) { try lines(url, files) }
        #expect(failure?.description.contains { $0.isNewline } == false)
        #expect(failure?.description.contains("\"nothing\" does not exist") == true)
        // None of a function's text, which may be pages long.
        files.migrations[1] = .init(
            version: 2,
            file: .init(
                path: "migrations/0002_two.sql",
                text: "do $$ begin perform 'a long text', nothing.at_all(); end $$"))
        let inFunction = #expect(throws: Failure.self) { try lines(url, files) }
        #expect(inFunction?.description.hasSuffix("ERROR:  schema \"nothing\" does not exist") == true)
    }

    /// What an operator has set for a database, a migration sets for itself.
    @Test(arguments: ["isolation = 'repeatable read'", "isolation = 'serializable'", "read_only = on"])
    func migratesWhateverTheDefaultIs(setting: String) throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        try server.query("alter database one set statement_timeout = '10ms'", in: "one")
        try server.query("alter database one set default_transaction_\(setting)", in: "one")
        let migrator = try Migrator(url: url, files: try SQLFileSet.embedded())
        #expect(try migrator.migrate { _ in }.isCurrent)
        try migrator.demonstrate()
        _ = try migrator.beginEpoch()
    }

    /// Before the first migration, so that nothing half-made stays.
    @Test(arguments: ["LATIN1", "SQL_ASCII"]) func refusesADatabaseThatIsNotUTF8(encoding: String) throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        try server.query("create database one encoding '\(encoding)' locale 'C' template template0", in: "postgres")
        let url = cluster.folders.databaseURL(role: "postgres", database: "one")
        let files = try SQLFileSet.embedded()
        expectFailure("the database one has the encoding \(encoding), and Carillon needs UTF8") {
            _ = try lines(url, files)
        }
        let command = try RunningCommand(["migrate", "--dry-run"], isMixed: true, environment: ["DATABASE_URL": url])
        #expect(command.rest().contains("createdb -T template0 -E UTF8"))
        #expect(command.end() == 1)
        #expect(try server.query("select to_regnamespace('sync')", in: "one") == [[nil]])
    }

    @Test func saysThatPgcryptoIsClosedBeforeItBegins() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try SQLFileSet.embedded()
        try server.query("create schema \"My tools\"", in: "one")
        try server.query("create extension pgcrypto schema \"My tools\"", in: "one")
        expectFailure("GRANT USAGE ON SCHEMA \"My tools\" TO carillon_owner") { _ = try lines(url, files) }
        #expect(try server.query("select to_regnamespace('sync')", in: "one") == [[nil]])
        try server.query("grant usage on schema \"My tools\" to carillon_owner", in: "one")
        #expect(try Migrator(url: url, files: files).migrate { _ in }.isCurrent)
    }

    private func expectFailure(_ words: String, _ body: () throws -> Void) {
        let failure = #expect(throws: Failure.self, performing: body)
        #expect(failure?.description.contains(words) == true, "\(failure.map(\.description) ?? "no failure")")
    }
}
