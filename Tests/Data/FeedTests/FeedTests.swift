import Bytes
import Clock
import Foundation
import Logging
import Metrics
import Postgres
import Sync
import TestDatabase
import TestSupport
import Testing

@testable import Feed

/// The feed against a real server: whatever writers, server and network do, each stream gets its log.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class FeedTests {
    let database: Database
    let writer: BlockingConnection
    private var recorders: [Recorder] = []

    init() throws {
        database = try Cluster.shared.get().database()
        writer = try Self.prepare(database)
    }

    deinit {
        for recorder in recorders { recorder.stop() }
    }

    /// A feed that runs until the test ends.
    func record(
        _ database: Database? = nil, _ change: (inout FeedConfiguration) -> Void = { _ in }
    ) throws -> Recorder {
        let recorder = try Recorder(database ?? self.database, change)
        recorders.append(recorder)
        return recorder
    }

    /// A published table of the test's own: one topic, any users.
    static func prepare(_ database: Database) throws -> BlockingConnection {
        let writer = try database.owner()
        try writer.execute(
            """
            CREATE SCHEMA app;
            CREATE TABLE app.item (id text PRIMARY KEY, user_id text, label text, rev bigint NOT NULL DEFAULT 1);
            """)
        _ = try writer.query("SELECT sync.publish_changes('app.item', 'user_id', 'items', 'item')")
        return writer
    }

    func insert(_ id: String, _ user: String, by writer: BlockingConnection? = nil) throws {
        _ = try (writer ?? self.writer).query("INSERT INTO app.item VALUES ($1, $2, 'x')", [id, user])
    }

    @Test func commitsArrive() throws {
        let recorder = try record()
        try insert("before", "ann")
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(ann, bob)
        #expect(recorder.stream(ann)?.start?.offset == 1)
        #expect(recorder.stream(bob)?.start?.offset == 0)
        try insert("a", "ann")
        try writer.execute(
            "UPDATE app.item SET label = 'y', rev = 2 WHERE id = 'a'; DELETE FROM app.item WHERE id = 'before'")
        try insert("c", "carol")
        try writer.execute("UPDATE app.item SET user_id = 'bob', rev = 3 WHERE id = 'a'")
        try recorder.waitForLog(ann, bob)
        #expect(
            recorder.stream(ann)?.events.map(\.name) == [
                "item.created", "item.deleted", "item.updated", "item.deleted",
            ])
        #expect(recorder.stream(bob)?.events.map(\.name) == ["item.created"])
        #expect(recorder.seenStatuses.last == .live)
    }

    /// Beside writers who keep the server busy, a read takes long; there are then fewer reads, each for more commits.
    @Test func aSlowTailRests() throws {
        try writer.execute(
            """
            ALTER FUNCTION sync.news(pg_snapshot, int) RENAME TO quick_news;
            CREATE FUNCTION sync.news(prev pg_snapshot, page int) RETURNS TABLE(
                snapshot pg_snapshot, epoch text, user_id text, topic text, o bigint, name text, data text, age bigint)
            LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM pg_sleep(0.01);
                RETURN QUERY SELECT * FROM sync.quick_news(prev, page);
            END $$;
            GRANT EXECUTE ON FUNCTION sync.news(pg_snapshot, int) TO carillon_hub;
            """)
        let recorder = try record()
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        let (before, begun) = (recorder.metrics.reads["tail"].count, Instant.read())
        for number in 0..<400 { try insert("\(number)", "ann") }
        try recorder.waitForLog(ann)
        let elapsed = Instant.read().duration(since: begun)
        #expect(Double(recorder.metrics.reads["tail"].count - before) <= elapsed / .milliseconds(15) + 3)
    }

    /// The hub's role may not look at the writer's session.
    @Test func anOpenWriterIsSeen() throws {
        let other = try database.owner()
        try other.execute("BEGIN; INSERT INTO app.item VALUES ('open', 'ann', 'x')")
        let recorder = try record()
        try recorder.waitForPosition(recorder.watch("ann"))
        func seconds() throws -> Double {
            var exposition = Exposition()
            recorder.metrics.append(to: &exposition)
            let text = String(decoding: exposition.bytes, as: UTF8.self)
            let line = try #require(text.firstMatch(of: /\ncarillon_pg_oldest_writer_seconds (\S+)/))
            return try #require(Double(line.1))
        }
        #expect(try eventually { try seconds() > 0.2 })
        try other.execute("COMMIT")
    }

    /// The count is updated although there is no output.
    @Test func unwatchedStreamsAreNotCounted() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        #expect(recorder.metrics.streams.level == 1)
        recorder.unwatch(ann)
        let end = Date(timeIntervalSinceNow: 30)
        while recorder.metrics.streams.level > 0, Date() < end { sched_yield() }
        #expect(recorder.metrics.streams.level == 0)
    }

    @Test func oddUserIDsAreApart() throws {
        let users = ["é", "e\u{301}", "a.b", "\"{},\\", "' or 1=1", "\u{1F48A}", "NULL", " "]
        let recorder = try record()
        let streams = users.map { recorder.watch($0) }
        for (number, user) in users.enumerated() { try insert("\(number)", user) }
        for (number, stream) in streams.enumerated() {
            try recorder.waitForPosition(stream)
            try recorder.waitForLog(stream)
            for event in recorder.stream(stream)?.events ?? [] {
                #expect(event.data.string.contains("\"id\": \"\(number)\""))
            }
        }
    }

    @Test func onlyWhatIsCommittedArrives() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try writer.execute("BEGIN")
        try insert("1", "ann")
        try writer.execute("ROLLBACK; BEGIN")
        try insert("2", "ann")
        try writer.execute("SAVEPOINT s")
        try insert("3", "ann")
        try writer.execute("ROLLBACK TO s")
        try insert("4", "ann")
        try writer.execute("COMMIT")
        try recorder.waitForLog(ann)
        #expect(recorder.stream(ann)?.events.count == 2)
    }

    /// Its events are numbered early and committed late, while others commit and the tail goes on.
    @Test func aTransactionHeldOpenIsNotPassedOver() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(ann, bob)
        let slow = try database.owner()
        try slow.execute("BEGIN")
        try insert("slow", "ann", by: slow)
        // Numbered here; committed below.
        try slow.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for number in 0..<20 {
            try insert("bob \(number)", "bob")
            try recorder.waitForLog(bob)
        }
        #expect(recorder.stream(ann)?.events.count == 0)
        try slow.execute("COMMIT")
        try recorder.waitForLog(ann, bob)
        #expect(recorder.stream(ann)?.events.count == 1)
    }

    @Test func aBulkOfManyStreams() throws {
        let recorder = try record()
        let streams = ["ann", "bob", "zoe"].map { recorder.watch($0) }
        for stream in streams { try recorder.waitForPosition(stream) }
        _ = try writer.query(
            """
            INSERT INTO app.item
            SELECT g::text, (array['ann', 'bob', 'nobody', 'zoe'])[1 + g % 4], 'x' FROM generate_series(1, 5000) AS g
            """)
        try insert("one more", "ann")
        for stream in streams { try recorder.waitForLog(stream) }
        #expect(recorder.stream(streams[1])?.events.count == 1250)
    }

    @Test func aLostNotificationCostsAPollAtMost() throws {
        let recorder = try record { $0.pollInterval = .milliseconds(50) }
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try writer.execute("SET sync.notify = off")
        try insert("quiet", "ann")
        try recorder.waitForLog(ann)
        #expect(recorder.stream(ann)?.events.count == 1)
    }

    /// LISTEN succeeds and nothing comes; here it listens in another database.
    @Test func aListenerThatCannotHearIsFoundByTheProbe() throws {
        let elsewhere = try Cluster.shared.get().database()
        let recorder = try record {
            $0.notifyConnectionString = elsewhere.hub
            $0.heartbeatTimeout = .milliseconds(100)
            $0.pollIntervalUnheard = .milliseconds(20)
        }
        try recorder.waitForStatus(.polling)
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try insert("1", "ann")
        try recorder.waitForLog(ann)
    }

    @Test func losingTheReaderLosesNothing() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        for number in 0..<30 {
            try insert("\(number)", "ann")
            if number % 5 == 0 { try terminate("sync.") }
        }
        try recorder.waitForLog(ann)
        #expect(recorder.stream(ann)?.events.count == 30)
        try recorder.waitForStatus(.live)
    }

    @Test func losingTheListenerLosesNothing() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        for number in 0..<30 {
            try insert("\(number)", "ann")
            if number % 5 == 0 { try terminate("LISTEN") }
        }
        // The next poll is a minute away: the read after LISTEN finds the rest.
        try recorder.waitForLog(ann)
        try recorder.waitForStatus(.live)
    }

    /// Ends the feed's backend whose last statement contains `text`.
    ///
    /// - Returns: whether there was one: its last statement may be another one just now.
    @discardableResult func terminate(_ text: String) throws -> Bool {
        let ended = try database.admin().query(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND usename = 'carillon_hub' AND query LIKE '%' || $1 || '%'
            """, [text])
        return !ended.isEmpty
    }

    /// Its backend is stopped: the connection is open and nothing comes. A server of its own: a backend that is stopped
    /// within a statement may hold up the whole server, and the next heartbeat may begin just before the signal.
    @Test func aDeafListenerIsFoundByItsHeartbeat() throws {
        let database = try Cluster().database()
        let writer = try Self.prepare(database)
        let recorder = try record(database) {
            $0.heartbeatInterval = .milliseconds(50)
            $0.heartbeatTimeout = .milliseconds(300)
        }
        try recorder.waitForStatus(.live)
        let find = """
            SELECT pid FROM pg_stat_activity WHERE usename = 'carillon_hub' AND datname = current_database()
            AND query LIKE '%pg_listening_channels%' AND state = 'idle' AND wait_event = 'ClientRead'
            """
        let admin = try database.admin()
        var pid: pid_t?
        while pid == nil { pid = try admin.query(find).first?[0].flatMap { pid_t($0) } }
        let backend = try #require(pid)
        kill(backend, SIGSTOP)
        defer { kill(backend, SIGCONT) }
        try recorder.wait("the loss is noticed") { recorder.unlockedStatuses.contains(.polling) }
        try recorder.waitForStatus(.live)
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try insert("1", "ann", by: writer)
        try recorder.waitForLog(ann)
    }

    @Test func watchesComeAndGoWhileWritersWrite() throws {
        var random = SeededRandom()
        let recorder = try record { $0.pollInterval = .milliseconds(100) }
        let users = (0..<10).map { "user \($0)" }
        var watched: [String: StreamID] = [:]
        for number in 0..<600 {
            let user = users.randomElement(using: &random) ?? ""
            switch Int.random(in: 0..<4, using: &random) {
            case 0: watched[user] = recorder.watch(user)
            case 1: if let stream = watched.removeValue(forKey: user) { recorder.unwatch(stream) }
            default: try insert("\(number)", user)
            }
        }
        for stream in watched.values {
            try recorder.waitForPosition(stream)
            try recorder.waitForLog(stream)
        }
        #expect(!watched.isEmpty, "CARILLON_SEED=\(random.seed)")
    }

    @Test func manyWatchesAtOnce() throws {
        let recorder = try record()
        let streams = (0..<2_500).map { recorder.watch("user \($0)") }
        try recorder.wait("all positions") { streams.allSatisfy { recorder.unlockedStream($0)?.start != nil } }
        _ = try writer.query(
            "INSERT INTO app.item SELECT g::text, 'user ' || g, 'x' FROM generate_series(0, 2499) AS g")
        try recorder.wait("all events") { streams.allSatisfy { recorder.unlockedStream($0)?.events.count == 1 } }
    }

    @Test func readingWaitsForSlowReceivers() throws {
        let recorder = try record { $0.backlogMax = 10 }
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        recorder.setBacklog(11)
        // Positions are still read. This answer comes after that of a tail that was in flight.
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(bob)
        try insert("1", "ann")
        // This position is read after the row was written.
        let eve = recorder.watch("eve")
        try recorder.waitForPosition(eve)
        #expect(recorder.stream(ann)?.events.count == 0)
        recorder.setBacklog(10)
        try recorder.waitForLog(ann)
    }

    @Test func anotherEpochIsAReset() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try insert("1", "ann")
        try recorder.waitForPosition(ann)
        _ = try writer.query("SELECT sync.new_epoch()")
        try terminate("sync.")
        try recorder.wait("a reset") { recorder.unlockedStream(ann)?.resets == 1 }
        try insert("2", "ann")
        try recorder.waitForLog(ann)
    }

    /// The connection stays up, and no position check is due.
    @Test func aNewEpochIsAResetAtOnce() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try insert("1", "ann")
        try recorder.waitForLog(ann)
        _ = try writer.query("SELECT sync.new_epoch()")
        try recorder.wait("a reset") { recorder.unlockedStream(ann)?.resets == 1 }
        try insert("2", "ann")
        try recorder.waitForLog(ann)
    }

    @Test func eventsNoLongerKeptAreAReset() throws {
        let recorder = try record { $0.pollInterval = .milliseconds(200) }
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        recorder.setBacklog(.max)
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(bob)
        for number in 0..<5 { try insert("\(number)", "ann") }
        try terminate("sync.")
        try writer.execute("DELETE FROM sync.event WHERE o <= 3")
        recorder.setBacklog(0)
        try recorder.wait("a reset") { (recorder.unlockedStream(ann)?.resets ?? 0) >= 1 }
        try insert("more", "ann")
        try recorder.waitForLog(ann)
    }

    @Test func aMissingSchemaIsWaitedFor() throws {
        try writer.execute("ALTER FUNCTION sync.hub_hello() RENAME TO hub_hello_later")
        let recorder = try record()
        let ann = recorder.watch("ann")
        try writer.execute("ALTER FUNCTION sync.hub_hello_later() RENAME TO hub_hello")
        try recorder.waitForPosition(ann)
    }

    /// One migration short of what the program needs: nothing is served until it has run.
    @Test func anOlderSchemaIsWaitedFor() throws {
        let newest = try #require(
            try writer.query("SELECT max(version) FROM sync.migration").first?.first.flatMap { $0 }.flatMap {
                Int64($0)
            })
        let log = KeptLines()
        let recorder = try Recorder(database, logger: Logger(label: "feed") { _ in log }) {
            $0.schemaVersion = newest + 1
        }
        defer { recorder.stop() }
        let ann = recorder.watch("ann")
        let complaint = "the schema is at version \(newest) and must be at \(newest + 1): run carillon migrate"
        #expect(eventually { log.all.contains { $0.contains(complaint) } })
        #expect(recorder.stream(ann)?.start == nil)
        _ = try writer.query(
            "INSERT INTO sync.migration (version, name, checksum) VALUES ($1::int, 'x', 'x')", ["\(newest + 1)"])
        try recorder.waitForPosition(ann)
    }

    @Test func anUnreadableStringIsRefusedAtOnce() {
        #expect(throws: PostgresError.self) {
            let sink = FeedSink(deliver: { _ in }, backlog: { 0 })
            _ = try Feed.start(
                FeedConfiguration(connectionString: "postgres://%zz"), sink: sink, logger: .init(label: ""))
        }
    }

    /// The server crashes midway and is written to before or after the feed reconnects: every event arrives, and streams
    /// watched meanwhile are answered.
    @Test func aCrashOfTheServerLosesNothing() throws {
        let cluster = try Cluster()
        let database = try cluster.database()
        var writer: BlockingConnection? = try Self.prepare(database)
        let recorder = try record(database)
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        for round in 0..<3 {
            for number in 0..<50 { try insert("\(round) \(number)", "ann", by: writer) }
            writer = nil
            try cluster.stop("immediate")
            try recorder.waitForStatus(.away)
            let bob = recorder.watch("bob \(round)")
            try cluster.start()
            writer = try database.owner()
            for number in 0..<50 { try insert("\(round) later \(number)", "ann", by: writer) }
            try recorder.waitForPosition(bob)
            try recorder.waitForLog(ann, bob)
        }
        #expect(recorder.stream(ann)?.events.count == 300)
        #expect(recorder.stream(ann)?.resets == 0)
        recorder.stop()
    }

    /// Concurrent writers, with rollbacks, bulks, long transactions, and backends terminated at random.
    @Test func writersAtOnceWithFaults() async throws {
        var random = SeededRandom()
        let seeds = (0..<4).map { _ in random.next() }
        let recorder = try record { $0.pollInterval = .milliseconds(300) }
        let streams = ["ann", "bob"].map { recorder.watch($0) }
        for stream in streams { try recorder.waitForPosition(stream) }
        let database = database
        try await withThrowingTaskGroup(of: Void.self) { group in
            for seed in seeds {
                group.addTask { try Self.write(database, SeededRandom(seed: seed)) }
            }
            for number in 0..<10 {
                try insert("fault \(number)", "ann")
                try terminate(number % 2 == 0 ? "sync." : "LISTEN")
            }
            try await group.waitForAll()
        }
        for stream in streams { try recorder.waitForLog(stream) }
        #expect((recorder.stream(streams[0])?.events.count ?? 0) > 100, "CARILLON_SEED=\(random.seed)")
    }

    private static func write(_ database: Database, _ start: SeededRandom) throws {
        var random = start
        let writer = try database.owner()
        for number in 0..<60 {
            let user = Bool.random(using: &random) ? "ann" : "bob"
            let count = Int.random(in: 0..<10, using: &random) == 0 ? 300 : 2
            try writer.execute("BEGIN")
            _ = try writer.query(
                "INSERT INTO app.item SELECT $1 || g, $2, 'x' FROM generate_series(1, $3::int) AS g",
                ["\(start.seed) \(number) ", user, String(count)])
            if Bool.random(using: &random) { try writer.execute("SET CONSTRAINTS ALL IMMEDIATE") }
            try writer.execute(Int.random(in: 0..<5, using: &random) == 0 ? "ROLLBACK" : "COMMIT")
        }
    }
}
