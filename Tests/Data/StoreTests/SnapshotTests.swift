import Clock
import Foundation
import Postgres
import Reactor
import Store
import TestDatabase
import TestSupport
import Testing

/// Snapshots, read beside writers, lost connections and absent databases.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class SnapshotTests {
    private var kiosks: [Kiosk] = []

    deinit {
        for kiosk in kiosks { kiosk.stop() }
    }

    private func open(_ database: Database, _ change: (inout StoreConfiguration) -> Void = { _ in }) throws -> Kiosk {
        let kiosk = try Kiosk(database, change)
        kiosks.append(kiosk)
        return kiosk
    }

    private static func plan(_ database: Database, _ user: String, doses: Int = 3) throws {
        _ = try database.owner().query(
            """
            INSERT INTO care.dose_occurrence (id, user_id, scheduled_at, tz)
            SELECT $1 || '-' || n, $1, '2025-11-20 08:00Z', 'UTC' FROM generate_series(1, $2::int) AS n
            """, [user, String(doses)])
    }

    /// From here on the hub's reads pause midway, at the clock, while the lock is held.
    private static func pause(_ database: Database) throws -> BlockingConnection {
        try database.owner().execute(
            """
            CREATE OR REPLACE FUNCTION sync.clock() RETURNS timestamptz LANGUAGE plpgsql AS $$
            BEGIN
                IF session_user = 'carillon_hub' THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                RETURN '2025-11-20 12:00Z';
            END $$
            """)
        let holder = try database.owner()
        try holder.execute("SELECT pg_advisory_lock(77)")
        return holder
    }

    private static func awaitPaused(_ holder: BlockingConnection, _ count: Int = 1) throws {
        let end = Instant.read().advanced(by: .seconds(60))
        let query = """
            SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """
        while try holder.query(query).first?.first != String(count) {
            try #require(Instant.read() < end, "not \(count) readers in a minute")
        }
    }

    private static func top(_ database: Database, _ user: String) throws -> Int64? {
        try database.owner().query("SELECT top FROM sync.stream WHERE user_id = $1", [user]).first?.first
            .flatMap { $0 }.flatMap { Int64($0) }
    }

    /// Position, doses, summary and statistics are of one moment, whatever is committed meanwhile.
    @Test func aCommitInTheMiddleIsNotSeen() throws {
        let database = try Cluster.shared.get().database()
        try Self.plan(database, "u")
        let kiosk = try open(database)
        let holder = try Self.pause(database)
        try holder.execute("SELECT pg_advisory_unlock(77)")
        let before = try kiosk.found("u", .day("2025-11-20"))
        #expect(try before.offset == Self.top(database, "u"))
        try holder.execute("SELECT pg_advisory_lock(77)")
        let pending = kiosk.ask("u", .day("2025-11-20"))
        try Self.awaitPaused(holder)
        try database.owner().execute("UPDATE care.dose_occurrence SET status = 'taken' WHERE user_id = 'u'")
        try holder.execute("SELECT pg_advisory_unlock(77)")
        #expect(try pending.take() == .found(before))
        let after = try kiosk.found("u", .day("2025-11-20"))
        #expect(try after.offset == Self.top(database, "u"))
        #expect(after.offset > before.offset && after.body != before.body && after.epoch == before.epoch)
        let text = String(decoding: after.body, as: UTF8.self)
        #expect(text.contains("\"currentStreakDays\": 1") && text.contains("\"takenCount\": 3"))
    }

    /// A connection ends under a request: it is sent again, once.
    @Test func aLostQuestionIsAskedOnceMore() throws {
        let database = try Cluster.shared.get().database()
        try Self.plan(database, "u")
        let kiosk = try open(database) { $0.queryConnections = 2 }
        _ = try kiosk.found("u", .reminders)
        let holder = try Self.pause(database)
        let admin = try database.admin()
        let readers =
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            + " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        let saved = kiosk.ask("u", .day(nil))
        try Self.awaitPaused(holder)
        try admin.execute(readers)
        try Self.awaitPaused(holder)
        try holder.execute("SELECT pg_advisory_unlock(77)")
        guard case .found = try saved.take() else {
            Issue.record("the second execution was not answered")
            return
        }
        try holder.execute("SELECT pg_advisory_lock(77)")
        let lost = kiosk.ask("u", .day(nil))
        for _ in 0..<2 {
            try Self.awaitPaused(holder)
            try admin.execute(readers)
        }
        #expect(try lost.take().isUnavailable)
        try holder.execute("SELECT pg_advisory_unlock(77)")
        _ = try kiosk.found("u", .day(nil))
    }

    /// While the database is known to be away, requests are answered at once; when it is back, they succeed.
    @Test func aDatabaseThatIsAwayIsNotWaitedFor() throws {
        let cluster = try Cluster()
        let database = try cluster.database()
        let kiosk = try open(database)
        _ = try kiosk.found("u", .day(nil))
        try cluster.stop()
        // The first request may be the one that finds out.
        #expect(try kiosk.ask("u", .day(nil)).take().isUnavailable)
        let asked = Instant.read()
        let pending = (0..<100).map { _ in kiosk.ask("u", .month(firstDay: "2025-11-01")) }
        for pending in pending {
            guard case .unavailable(let wait) = try pending.take() else {
                Issue.record("answered without a database")
                return
            }
            #expect(wait >= .seconds(1) && wait <= .seconds(10))
        }
        #expect(Instant.read().duration(since: asked) < .seconds(5))
        try cluster.start()
        _ = try kiosk.found("u", .day(nil))
    }

    /// The queue is bounded by number and by time, and the store's stop answers the rest.
    @Test func whatWaitsIsBounded() throws {
        let database = try Cluster.shared.get().database()
        let kiosk = try open(database) {
            $0.queryConnections = 1
            $0.actionTimeout = .seconds(600)
            $0.statementTimeout = .seconds(610)
        }
        _ = try kiosk.found("u", .reminders)
        let holder = try Self.pause(database)
        // Up to four are in flight; 10,000 more may wait.
        let waiting = (0..<10_000).map { kiosk.ask("u\($0 / 20)", .reminders) }
        try Self.awaitPaused(holder)
        let more = (0..<5).map { kiosk.ask("v\($0)", .reminders) }
        #expect(try #require(more.last).take().isUnavailable)
        try holder.execute("SELECT pg_advisory_unlock(77)")
        for pending in waiting.prefix(100) {
            guard case .found = try pending.take() else {
                Issue.record("one that waited was not answered")
                return
            }
        }
        kiosk.stop()
        kiosks.removeAll()
        for pending in waiting.dropFirst(100) + more.dropLast() { _ = try pending.take() }
        #expect(try kiosk.ask("u", .reminders).take().isUnavailable)
    }

    /// A user whose requests hang occupies one connection; all others have the rest.
    @Test func aSlowUserHoldsUpNobody() throws {
        let database = try Cluster.shared.get().database()
        try database.owner().execute(
            """
            CREATE OR REPLACE FUNCTION sync.reminders(who text) RETURNS TABLE(epoch text, top bigint, body text)
            LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
            BEGIN
                IF who = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                RETURN QUERY SELECT p.epoch, p.top, '{}' FROM sync.positions(array[who], array['reminders']) AS p;
            END $$
            """)
        let kiosk = try open(database) {
            $0.queryConnections = 2
            $0.actionTimeout = .seconds(150)
            $0.statementTimeout = .seconds(150)
        }
        _ = try kiosk.found("u", .reminders)
        let holder = try database.owner()
        try holder.execute("SELECT pg_advisory_lock(77)")
        // One in flight, 32 waiting.
        let slow = (0..<33).map { _ in kiosk.ask("slow", .reminders) }
        try Self.awaitPaused(holder)
        guard case .unavailable(let wait) = try kiosk.ask("slow", .reminders).take() else {
            Issue.record("more than 32 wait")
            return
        }
        #expect(wait >= .seconds(1) && wait <= .seconds(2))
        // One after the other until the slow request counts as slow; then many at once.
        let paused = Instant.read()
        var answered = 0
        while answered < 20 || Instant.read().duration(since: paused) < .milliseconds(100) {
            guard case .found = try kiosk.ask("u\(answered)", .reminders).take() else {
                Issue.record("a question was not answered beside a slow one")
                return
            }
            answered += 1
        }
        let many = (0..<200).map { kiosk.ask("v\($0 / 20)", .reminders) }
        for pending in many {
            guard case .found = try pending.take() else {
                Issue.record("a question was not answered beside a slow one")
                return
            }
        }
        try Self.awaitPaused(holder)
        try holder.execute("SELECT pg_advisory_unlock(77)")
        for pending in slow {
            guard case .found = try pending.take() else {
                Issue.record("a slow question was not answered")
                return
            }
        }
    }

    @Test func deadlinesHold() throws {
        let database = try Cluster.shared.get().database()
        let kiosk = try open(database) {
            $0.queryConnections = 1
            $0.statementTimeout = .seconds(30)
        }
        _ = try kiosk.found("u", .reminders)
        kiosk.stop()
        kiosks.removeAll()
        let hasty = try open(database) {
            $0.queryConnections = 1
            $0.actionTimeout = .seconds(1)
            $0.statementTimeout = .seconds(30)
        }
        _ = try hasty.found("u", .reminders)
        let holder = try Self.pause(database)
        let pending = (0..<6).map { _ in hasty.ask("u", .reminders) }
        for pending in pending { #expect(try pending.take().isUnavailable) }
        try holder.execute("SELECT pg_advisory_unlock(77)")
        _ = try hasty.found("u", .reminders)
    }

    @Test func whatIsNotThereIsMissing() throws {
        let database = try Cluster.shared.get().database()
        try Self.plan(database, "u")
        try Self.plan(database, "v")
        let kiosk = try open(database)
        _ = try kiosk.found("u", .occurrence("u-1"))
        for id in ["v-1", "U-1", "", "u-1\0", "\0", String(repeating: "x", count: 60_000), "u-1'; --", "é"] {
            #expect(try kiosk.ask("u", .occurrence(id)).take() == .missing)
        }
        #expect(try kiosk.ask("u\0x", .day(nil)).take() == .missing)
        #expect(try kiosk.ask("u\0x", .reminders).take() == .missing)
        // Composed and decomposed names are two users.
        try Self.plan(database, "\u{E9}", doses: 1)
        #expect(try kiosk.ask("e\u{301}", .occurrence("\u{E9}-1")).take() == .missing)
        _ = try kiosk.found("\u{E9}", .occurrence("\u{E9}-1"))
    }

    @Test func tooMuchIsNotHandedOut() throws {
        let database = try Cluster.shared.get().database()
        try database.admin().execute("ALTER TABLE care.dose_occurrence DISABLE TRIGGER USER")
        try database.owner().execute(
            """
            INSERT INTO care.dose_occurrence (id, user_id, scheduled_at, tz, local_date, local_time, window_end)
            SELECT 'big-' || n, CASE WHEN n <= 4000 THEN 'big' ELSE 'huge' END, '2025-11-20 08:00Z', 'UTC', '2025-11-20',
                '08:00', '2025-11-20 12:00Z' FROM generate_series(1, 16000) AS n
            """)
        let kiosk = try open(database)
        let big = try kiosk.found("big", .day("2025-11-20"))
        #expect(big.body.count > 1 << 20)
        // On a busy machine the statement may time out first.
        var answer = try kiosk.ask("huge", .day("2025-11-20")).take()
        for _ in 0..<20 {
            guard case .unavailable = answer else { break }
            answer = try kiosk.ask("huge", .day("2025-11-20")).take()
        }
        #expect(answer == .tooLarge)
    }
}
