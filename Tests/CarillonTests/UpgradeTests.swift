import Foundation
import Postgres
import TestSupport
import Testing

@testable import carillon

/// Upgrades of a database that is in use: nobody fails, nobody waits for long, and who is in the way is named.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15)))
struct UpgradeTests {
    /// A migrator among writers who rest no longer than they work: the machine may be slow.
    private static let patience = Duration.seconds(300)

    /// A database as carillon 0.1.0 left it, with rows.
    private struct Released {
        let server: PrivateCluster
        let url: String

        init() throws {
            server = try PrivateCluster()
            try server.start()
            url = try server.makeDatabase("old")
            var files = try SQLFileSet.embedded()
            files.migrations.removeAll { $0.version > 7 }
            files.functions = [.init(path: "functions/0.1.0.sql", text: try Page("Tests/Releases/0.1.0.sql").text)]
            #expect(try Migrator(url: url, files: files).migrate { _ in }.isCurrent)
            try connection().execute(Self.rows)
        }

        func connection(as role: String = "postgres") throws -> BlockingConnection {
            try BlockingConnection(url.replacing("//postgres@", with: "//\(role)@"))
        }

        /// 40 users with a product, a stack, reminders of which two exceptions are of one day, and 60 doses each.
        private static let rows = """
            insert into care.user_settings (user_id, zone) select 'u' || n, 'Europe/Berlin' from generate_series(1, 40) as n;
            insert into care.product (id, user_id, name) select 'p' || n, 'u' || n, 'P' from generate_series(1, 40) as n;
            insert into care.stack (id, user_id, name) select 's' || n, 'u' || n, 'S' from generate_series(1, 40) as n;
            insert into care.schedule (id, user_id, product_id, time)
                select 'c' || n, 'u' || n, 'p' || n, '08:00' from generate_series(1, 40) as n;
            insert into care.reminder_rule (id, user_id, client_id, time)
                select 'r' || n, 'u' || n, 'r' || n, '08:00' from generate_series(1, 40) as n;
            insert into care.reminder_occurrence (rule_id, original_local, status)
                select 'r' || n, '2025-11-20'::date + t, 'cancelled'
                from generate_series(1, 40) as n cross join unnest('{08:00,09:00}'::time[]) as t;
            insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, window_end)
                select format('d%s-%s', n, day), 'u' || n, 'p' || n, at, at + interval '4 hours'
                from generate_series(1, 40) as n cross join generate_series(1, 60) as day
                cross join lateral (select now() + (day - 30) * interval '1 day' as at) as t;
            """
    }

    /// What somebody does over and over on a connection of their own, until it is told to stop.
    private final class Loop: @unchecked Sendable {
        private let lock = NSLock()
        private let body: (BlockingConnection, Int) throws -> Void
        private var rounds = 0
        private var isTold = false
        private var isOver = false
        private var failures: [String] = []

        init(_ connection: BlockingConnection, _ body: @escaping (BlockingConnection, Int) throws -> Void) {
            self.body = body
            nonisolated(unsafe) let connection = connection
            Thread.detachNewThread { [self] in
                let clock = ContinuousClock()
                while !lock.withLock({ isTold }) {
                    let start = clock.now
                    do {
                        try self.body(connection, count)
                    } catch {
                        try? connection.execute("rollback")
                        lock.withLock { failures.append("\(error)") }
                    }
                    lock.withLock { rounds += 1 }
                    // As long as it worked, however slow the machine is: of seven that never rest, one is always in the way.
                    Thread.sleep(forTimeInterval: (clock.now - start) / .seconds(1))
                }
                lock.withLock { isOver = true }
            }
        }

        var count: Int { lock.withLock { rounds } }

        /// Waits until it does `more` rounds.
        func goes(on more: Int) -> Bool {
            let before = count
            return eventually { count >= before + more }
        }

        func stop() -> [String] {
            lock.withLock { isTold = true }
            _ = eventually { lock.withLock { isOver } }
            return lock.withLock { failures }
        }
    }

    /// Writers that take the tables in either order, as a person who renames a medication and one who takes a dose.
    private func writers(_ old: Released) throws -> [Loop] {
        let orders = [
            [
                "update care.product set name = name || 'x' where id = 'p%'",
                "update care.dose_occurrence set note = 'n' where id = 'd%-5'",
            ],
            [
                "update care.dose_occurrence set note = 'm' where id = 'd%-6'",
                "update care.product set strength = '1' where id = 'p%'",
            ],
            [
                "update care.reminder_rule set label = 'l' where id = 'r%'",
                "update care.dose_occurrence set note = 'o' where id = 'd%-7'",
            ],
            [
                "update care.dose_occurrence set status = 'taken', taken_at = now() where id = 'd%-8'",
                "update care.schedule set dose = '1' where id = 'c%'",
            ],
        ]
        return try orders.enumerated().map { index, statements in
            Loop(try old.connection()) { connection, round in
                // Each has users of its own: they cross in tables, not in rows.
                let user = String(index * 10 + round % 10 + 1)
                try connection.execute("begin")
                for statement in statements {
                    try connection.execute(statement.replacing("%", with: user))
                }
                try connection.execute("commit")
            }
        }
    }

    /// What a hub of 0.1.0 asks: its hello, new events, positions, revocations, the state of a day, actions, retention.
    private func hub(_ old: Released) throws -> Loop {
        var snapshot: String?
        return Loop(try old.connection(as: "carillon_hub")) { connection, round in
            if snapshot == nil {
                snapshot = try connection.query("select snapshot from sync.hub_hello()").first?.first ?? nil
            }
            let tail = try connection.query(
                "select snapshot, epoch, user_id, topic, o, name, data, age from sync.tail($1, null, null, null, 1000)",
                [snapshot])
            snapshot = tail.first?.first ?? nil
            _ = try connection.query("select * from sync.positions('{u1,u2}', '{adherence,reminders}')")
            _ = try connection.query(
                "select snapshot, user_id, before from sync.revocations($1, null, 100)", [snapshot])
            _ = try connection.query("select sync.adherence_day('u3', current_date), sync.reminders('u3')")
            let answer = try connection.query(
                "select status from sync.apply('u40', $1, 'phone', null, 'addNote', $2, null, null, null)",
                // A dose keeps 1,000 notes, and the hub may go round more often than that.
                ["k\(round)", "{\"occurrenceId\": \"d40-\(round % 60 + 1)\", \"note\": \"n\"}"])
            guard answer.first?.first == "applied" else { throw Failure("an action was \(answer)") }
            _ = try connection.query("select relation, problem from sync.check_published()")
            _ = try connection.query("select sync.retain(7, 100)")
        }
    }

    private func readers(_ old: Released) throws -> [Loop] {
        try [["care.product", "care.dose_occurrence"], ["care.dose_occurrence", "care.product"]].map { tables in
            Loop(try old.connection()) { connection, _ in
                try connection.execute("begin")
                for table in tables { _ = try connection.query("select count(*) from \(table)") }
                try connection.execute("commit")
            }
        }
    }

    @Test func nobodyFailsWhileADatabaseOf010IsUpgraded() throws {
        let old = try Released()
        let loops = try writers(old) + readers(old) + [hub(old)]
        for loop in loops { #expect(loop.goes(on: 3)) }
        var migrator = try Migrator(url: old.url, files: try SQLFileSet.embedded())
        migrator.patience = Self.patience
        #expect(try migrator.migrate { _ in }.isCurrent)
        for loop in loops { #expect(loop.goes(on: 3)) }
        #expect(loops.flatMap { $0.stop() } == [])
        let doubles =
            "select count(*) from (select from care.reminder_occurrence group by rule_id, day having count(*) > 1) as t"
        #expect(try old.connection().query(doubles).first?.first == "0")
    }

    /// One session that has read a medication and forgot to end: doses go on, and the operator is told who it is.
    @Test func aSessionThatHoldsATableIsNamedAndDosesGoOn() throws {
        let old = try Released()
        let idle = try BlockingConnection(old.url + "&application_name=forgotten")
        try idle.execute("begin; select count(*) from care.product")
        let loops = try writers(old)
        var migrator = try Migrator(url: old.url, files: try SQLFileSet.embedded())
        migrator.patience = .seconds(3)
        var applied: [String] = []
        let failure = #expect(throws: Failure.self) { try migrator.migrate { applied.append($0) } }
        let text = failure.map(\.description) ?? ""
        #expect(
            text.contains("0011_medications.sql failed, and nothing of it was kept: for 3 seconds, others held"),
            "\(text)")
        #expect(
            text.contains("session \(idle.backendPID) (role postgres, forgotten, idle in transaction, for "), "\(text)")
        #expect(text.hasSuffix("end them, and migrate again"), "\(text)")
        #expect(applied.last == "migration 10 (0010_feedback) applied")
        for loop in loops { #expect(loop.goes(on: 3)) }

        // With less to see, the number and the role.
        var owner = try Migrator(
            url: old.url.replacing("//postgres@", with: "//carillon_owner@"), files: try SQLFileSet.embedded())
        owner.patience = .seconds(1)
        let less = #expect(throws: Failure.self) { try owner.migrate { _ in } }
        #expect(less?.description.contains("session \(idle.backendPID) (role postgres") == true)

        // It ends while the migrator tries.
        nonisolated(unsafe) let leaving = idle
        let waiting =
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%carillon.migration%'"
        let probe = try old.connection()
        nonisolated(unsafe) let watching = probe
        Thread.detachNewThread {
            _ = eventually { ((try? watching.query(waiting))?.first?.first).flatMap { $0 } != "0" }
            try? leaving.execute("commit")
        }
        migrator.patience = Self.patience
        #expect(try migrator.migrate { _ in }.isCurrent)
        #expect(loops.flatMap { $0.stop() } == [])
    }

    /// The functions too: who has written a table on which they make triggers holds nobody up.
    @Test func functionsGiveWayAsMigrationsDo() throws {
        let server = try PrivateCluster()
        try server.start()
        let url = try server.makeDatabase("one")
        let files = try SQLFileSet.embedded()
        try Migrator(url: url, files: files).migrate { _ in }
        let owner = try BlockingConnection(url)
        try owner.execute("delete from sync.function_set; insert into sync.function_set (checksum) values ('another')")
        let idle = try BlockingConnection(url)
        try idle.execute("begin; insert into care.stack (user_id, name) values ('idle', 'S')")
        let writer = Loop(owner) { connection, round in
            try connection.execute(
                "insert into care.dose_occurrence (id, user_id, scheduled_at, window_end) values ('w\(round)', 'w', now(), now())"
            )
        }
        var migrator = try Migrator(url: url, files: files)
        migrator.patience = .seconds(2)
        let failure = #expect(throws: Failure.self) { try migrator.migrate { _ in } }
        let text = failure.map(\.description) ?? ""
        #expect(text.contains("09_sync_settle_writers.sql failed, and nothing of it was kept"), "\(text)")
        #expect(text.contains("session \(idle.backendPID) ("), "\(text)")
        #expect(writer.goes(on: 3))
        try idle.execute("commit")
        migrator.patience = Self.patience
        #expect(try migrator.migrate { _ in }.isCurrent)
        #expect(writer.stop() == [])
    }
}
