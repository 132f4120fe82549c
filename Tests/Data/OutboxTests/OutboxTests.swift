import Clock
import Logging
import Metrics
import Outbox
import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

/// The outbox and the real functions of SQL.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) final class OutboxTests {
    private let database: Database
    private let admin: BlockingConnection
    private let lines = KeptLines()
    private let taken = Locked<[DuePush]>([])
    private let metrics = OutboxMetrics()
    private var running: [Outbox] = []

    init() throws {
        database = try Cluster.shared.get().database()
        admin = try database.admin()
    }

    deinit {
        for outbox in running { outbox.stop(within: .zero) }
    }

    private func start(_ change: (inout OutboxConfiguration) -> Void = { _ in }) throws -> Outbox {
        var configuration = OutboxConfiguration(connectionString: database.hub)
        configuration.interval = .milliseconds(20)
        change(&configuration)
        let (lines, taken) = (lines, taken)
        let outbox = try Outbox.start(
            configuration, logger: Logger(label: "test") { _ in lines }, metrics: metrics
        ) { pushes in taken.withLock { $0 += pushes } }
        running.append(outbox)
        return outbox
    }

    private func one(_ sql: String) throws -> String? {
        try admin.query(sql).first?.first ?? nil
    }

    private func wait(until sql: String) throws {
        let end = Instant.read().advanced(by: .seconds(60))
        while try one(sql) != "t" {
            try #require(Instant.read() < end, "not in 60 s: \(sql)")
        }
    }

    private func addPushes(_ count: Int, _ platform: PushPlatform = .apns) throws {
        try admin.execute(
            """
            INSERT INTO care.device (user_id, device_id, platform, token, environment, topic, registered_at)
            SELECT 'u' || n, '\(platform)', '\(platform)', 'aa' || n, 'sandbox', 'org.example', now() - interval '1 minute'
            FROM generate_series(1, \(count)) AS n;
            INSERT INTO care.push
                (user_id, device_id, platform, kind, occurrence_id, start, expires_at, next_at, created_at, title, body)
            SELECT 'u' || n, '\(platform)', '\(platform)', 'notify', 'o' || n, now(), now() + interval '1 hour', now(), now(),
                CASE WHEN n > 1 THEN 'Title' END, CASE WHEN n > 1 THEN 'Body' END
            FROM generate_series(1, \(count)) AS n
            """)
    }

    private var text: String {
        var exposition = Exposition()
        metrics.append(to: &exposition)
        return String(decoding: exposition.bytes, as: UTF8.self)
    }

    @Test func aPushIsClaimedWholeAndSettled() throws {
        try addPushes(2)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == 2 })
        let pushes = taken.withLock { $0 }.sorted { $0.userID < $1.userID }
        let push = try #require(pushes.last)
        #expect(push.platform == .apns && push.token == "aa2" && push.isSandbox && push.topic == "org.example")
        #expect(push.userID == "u2" && push.deviceID == "apns" && push.occurrenceID == "o2" && push.attempt == 1)
        #expect(push.text == DuePush.Text(title: "Title", body: "Body") && pushes.first?.text == .neutral)
        #expect(push.start.duration(until: push.expiresAt) == .seconds(3_600))
        #expect(push.useEnd > .read() && push.leaseEnd > .read() && push.useEnd > push.leaseEnd)
        outbox.settle([
            PushOutcome(pushes[0], .retry, retrySeconds: 600),
            PushOutcome(push, .dead, dropBefore: push.readAt),
        ])
        try wait(until: "SELECT count(*) = 1 FROM care.push WHERE state = 'dead'")
        #expect(try one("SELECT string_agg(user_id, ',') FROM care.device") == "u1")
        #expect(try one("SELECT next_at > now() + interval '9 minutes' FROM care.push WHERE user_id = 'u1'") == "t")
        #expect(taken.withLock { $0.count } == 2)
    }

    @Test func moreThanMayBeHeldWaits() throws {
        try addPushes(OutboxLimits.heldMax + 300)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == OutboxLimits.heldMax })
        #expect(eventually { text.contains("carillon_pushes_held \(OutboxLimits.heldMax)\n") })
        outbox.settle(taken.withLock { $0 }.map { PushOutcome($0, .sent) })
        #expect(eventually { taken.withLock { $0.count } == OutboxLimits.heldMax + 300 })
        #expect(Set(taken.withLock { $0 }.map(\.id)).count == OutboxLimits.heldMax + 300)
    }

    /// The outbox's connection is lost with outcomes that are not settled, and with claims that are not answered.
    @Test func outcomesSurviveALostConnection() throws {
        try addPushes(4)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == 4 })
        for push in taken.withLock({ $0 }) {
            outbox.settle([PushOutcome(push, .sent)])
            try admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'carillon_hub'"
                    + " AND datname = current_database()")
        }
        try wait(until: "SELECT count(*) = 4 FROM care.push WHERE state = 'sent'")
    }

    /// The database is away until the leases have ended, and more is known here to have been sent than one settlement holds.
    @Test func aSentPushIsNotSentAgainAfterAnOutage() throws {
        let count = OutboxLimits.batchMax + 100
        try addPushes(count)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == count })
        try admin.execute(
            "ALTER DATABASE \(database.name) CONNECTION LIMIT 0;"
                + " SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'carillon_hub'"
                + " AND datname = current_database()")
        try wait(
            until: "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'carillon_hub'"
                + " AND datname = current_database()")
        outbox.settle(taken.withLock { $0 }.map { PushOutcome($0, .sent) })
        try admin.execute(
            "UPDATE care.push SET leased_until = now() - interval '1 second';"
                + " ALTER DATABASE \(database.name) CONNECTION LIMIT -1")
        try wait(until: "SELECT count(*) = \(count) FROM care.push WHERE state = 'sent'")
        #expect(taken.withLock { $0.count } == count)
    }

    @Test func aRowThatIsHeldHoldsUpNoOther() throws {
        try addPushes(20)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == 20 })
        let other = try database.admin()
        try other.execute("BEGIN; SELECT FROM care.push WHERE user_id = 'u1' FOR UPDATE")
        outbox.settle(taken.withLock { $0 }.map { PushOutcome($0, .sent) })
        try wait(until: "SELECT count(*) = 19 FROM care.push WHERE state = 'sent'")
        #expect(eventually { text.contains("push_batches_total{type=\"settle\",result=\"locked\"}") })
        try addPushesBehind()
        #expect(eventually { taken.withLock { $0.count } == 21 })
        // Its lease has ended when it is let go: that it was sent is known here.
        try other.execute(
            "UPDATE care.push SET leased_until = now() - interval '1 second' WHERE user_id = 'u1'"
                + " AND occurrence_id <> 'behind'; COMMIT")
        try wait(until: "SELECT count(*) = 20 FROM care.push WHERE state = 'sent'")
        #expect(taken.withLock { $0.count } == 21)
    }

    private func addPushesBehind() throws {
        try admin.execute(
            """
            INSERT INTO care.push (user_id, device_id, kind, occurrence_id, start, expires_at, next_at, created_at)
            VALUES ('u1', 'apns', 'notify', 'behind', now(), now() + interval '1 hour', now(), now())
            """)
    }

    /// A gateway that says nothing fills its own places alone.
    @Test func aPlatformThatIsFullHoldsUpNoOther() throws {
        try addPushes(OutboxLimits.heldMax + 10, .webhook)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == OutboxLimits.heldMax })
        try addPushes(5)
        outbox.look()
        #expect(eventually { taken.withLock { $0.count } == OutboxLimits.heldMax + 5 })
        #expect(taken.withLock { $0.suffix(5).allSatisfy { $0.platform == .apns } })
    }

    /// Worst interleaving: a settlement is under way, a claim is sent behind it without a full platform, and the
    /// settlement's answer makes room there. The next look is an hour away.
    @Test func roomThatComesWhileAClaimIsUnderWayIsUsedAtOnce() throws {
        try addPushes(OutboxLimits.heldMax + 10, .webhook)
        let outbox = try start { $0.interval = .seconds(3_600) }
        #expect(eventually { taken.withLock { $0.count } == OutboxLimits.heldMax })
        let other = try database.admin()
        try other.execute("BEGIN; LOCK TABLE care.push IN SHARE ROW EXCLUSIVE MODE")
        outbox.settle(taken.withLock { $0.prefix(OutboxLimits.batchMax) }.map { PushOutcome($0, .sent) })
        outbox.look()
        try wait(until: "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'care.push'::regclass)")
        try other.execute("COMMIT")
        #expect(eventually { taken.withLock { $0.count } == OutboxLimits.heldMax + 10 })
    }

    /// 800 of one user are due before two of another, and none of the 800 is answered. The next look is an hour away.
    @Test func oneUserHasAShareOfWhatIsHeld() throws {
        try addPushes(2, .webhook)
        try admin.execute(
            """
            INSERT INTO care.push (user_id, device_id, platform, kind, occurrence_id, start, expires_at, next_at, created_at)
            SELECT 'u1', 'webhook', 'webhook', 'notify', 'many' || n, now(), now() + interval '1 hour',
                now() - interval '1 minute', now()
            FROM generate_series(1, 800) AS n
            """)
        let outbox = try start { $0.interval = .seconds(3_600) }
        let share = OutboxLimits.shareOfUser
        #expect(eventually { taken.withLock { $0.count } == share + 1 })
        let first = taken.withLock { $0 }
        #expect(first.count { $0.userID == "u1" } == share && first.count { $0.userID == "u2" } == 1)
        try admin.execute(
            """
            INSERT INTO care.push (user_id, device_id, platform, kind, occurrence_id, start, expires_at, next_at, created_at)
            VALUES ('u2', 'webhook', 'webhook', 'notify', 'second', now(), now() + interval '1 hour', now(), now())
            """)
        outbox.look()
        #expect(eventually { taken.withLock { $0.count } == share + 2 })
        // As they are answered, more of the user's come, at once.
        var settled = 0
        while settled < 803 {
            let news = taken.withLock { Array($0[settled...]) }
            outbox.settle(news.map { PushOutcome($0, .sent) })
            settled += news.count
            try #require(eventually { settled == 803 || taken.withLock { $0.count } > settled })
        }
        try wait(until: "SELECT count(*) = 803 FROM care.push WHERE state = 'sent'")
    }

    @Test func aStopSettlesWhatIsKnown() throws {
        try addPushes(5)
        let outbox = try start()
        #expect(eventually { taken.withLock { $0.count } == 5 })
        outbox.stopClaiming()
        outbox.settle(taken.withLock { $0 }.map { PushOutcome($0, .sent) })
        outbox.stop(within: .seconds(60))
        running = []
        #expect(try one("SELECT count(*) FROM care.push WHERE state = 'sent'") == "5")
    }

    @Test func lookClaimsAtOnce() throws {
        let outbox = try start { $0.interval = .seconds(3_600) }
        #expect(eventually { text.contains("push_batches_total{type=\"claim\",result=\"nothing\"} 1\n") })
        try addPushes(1)
        outbox.look()
        #expect(eventually { taken.withLock { $0.count } == 1 })
        #expect(eventually { text.contains("carillon_pushes_waiting 1\n") })
    }
}
