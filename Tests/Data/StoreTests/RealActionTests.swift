import Clock
import Postgres
import Reactor
import Store
import Sync
import TestDatabase
import TestSupport
import Testing

/// The store and the real `sync.apply`: doses, notes, events, summaries.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class RealActionTests {
    private let database: Database
    private let admin: BlockingConnection
    private var desks: [Desk] = []

    init() throws {
        database = try Cluster.shared.get().database()
        admin = try database.admin()
        try admin.execute(
            """
            INSERT INTO care.dose_occurrence
                (id, user_id, scheduled_at, tz, local_date, local_time, window_start, window_end)
            SELECT u || '-' || n, 'u' || u, now() - interval '1 hour', 'UTC', date '2025-11-01' + n % 5, '08:00',
                now() - interval '1 hour', now() + interval '3 hours'
            FROM generate_series(1, 6) AS u, generate_series(1, 30) AS n
            """)
    }

    deinit {
        for desk in desks { desk.stop() }
    }

    private func one(_ sql: String) throws -> String? {
        try admin.query(sql).first?.first ?? nil
    }

    @Test func dosesAreTakenOnceWhateverIsLost() throws {
        let events = try one("SELECT count(*) FROM sync.event")
        let seed = SeededRandom()
        let random = Locked(seed)
        let desk = try Desk(database) {
            $0.connections = 3
            $0.depth = 4
            $0.userRate = Rate(perSecond: 0, burst: 1)
            $0.deviceRate = Rate(perSecond: 0, burst: 1)
            $0.failpoints = Failpoints { _ in random.withLock { Int.random(in: 0..<500, using: &$0) == 0 } }
        }
        desks.append(desk)
        let failures = Locked<[String]>([])
        let users = (1...6).map { user in
            Thread {
                do {
                    for n in 1...30 {
                        let payload = "{\"occurrenceId\":\"\(user)-\(n)\",\"note\":\"note \(user)-\(n)\"}"
                        for _ in 0..<2 {
                            let answer = try desk.decide("u\(user)", "k\(n)", n: Int64(n), "markTaken", payload)
                            #expect(answer.status == .applied)
                        }
                    }
                } catch {
                    failures.withLock { $0.append("\(user): \(error)") }
                }
            }
        }
        for user in users { user.join() }
        #expect(failures.withLock { $0 } == [], "seed \(seed.seed)")
        #expect(desk.complaints.isEmpty, "seed \(seed.seed)")
        #expect(try one("SELECT count(*) FROM care.dose_occurrence WHERE status = 'taken' AND rev = 2") == "180")
        #expect(try one("SELECT count(*) FROM care.dose_note") == "180")
        #expect(try one("SELECT count(*) FROM sync.action WHERE status = 'applied'") == "180")
        #expect(try one("SELECT count(*) FROM sync.device WHERE last_n = 30") == "6")
        // One event of the dose and one of its day, for each action.
        #expect(try one("SELECT count(*) - \(events ?? "0") FROM sync.event") == "360")
        #expect(try one("SELECT sum(taken_count) FROM care.day_summary") == "180")
    }

    @Test func whatPostgreSQLCannotReadIsRejectedForGood() throws {
        let desk = try Desk(database)
        desks.append(desk)
        let payload = "{\"occurrenceId\":\"1-1\",\"note\":\"\\u0000\"}"
        #expect(try desk.decide("u1", "k1", n: 1, "markTaken", payload).status == .rejected)
        #expect(try desk.decide("u1", "k1", n: 1, "markTaken", payload).isReplayed)
        #expect(try desk.decide("u1", "k2", n: 2, "markTaken", "{\"occurrenceId\":\"1-1\"}").status == .applied)
        #expect(try one("SELECT count(*) FROM sync.action") == "2")
    }

    /// A preset of the role would show in the positions of every answer.
    @Test func aPresetOfTheRoleIsNotShown() throws {
        let owner = "ALTER ROLE carillon_hub IN DATABASE \(database.name)"
        try admin.execute("\(owner) SET sync.lineage = 'preset'; \(owner) SET sync.system = 'preset'")
        let desk = try Desk(database)
        desks.append(desk)
        let answer = try desk.decide("u1", "k1", "markTaken", "{\"occurrenceId\":\"1-1\"}")
        #expect(answer.status == .applied)
        #expect(answer.json.string.contains("epoch"))
        #expect(!answer.json.string.contains("preset"))
    }

    /// The transaction itself does not notify; the store wakes the other hubs.
    @Test func otherHubsAreWoken() throws {
        let loop = try EventLoop()
        var isReady = false
        var heard = 0
        let listener = Connection(
            loop: loop, parameters: try ConnectionParameters(database.hub),
            handlers: Connection.Handlers(
                ready: { isReady = true }, notified: { _ in heard += 1 }, lost: { _ in Issue.record("lost") }))
        listener.connect()
        defer { listener.close() }
        func run(until isMet: () -> Bool) throws {
            let end = Instant.read().advanced(by: .seconds(20))
            while !isMet() {
                try #require(Instant.read() < end, "not in 20 s")
                loop.tick(waitingAtMost: .milliseconds(100))
            }
        }
        try run { isReady }
        isReady = false
        listener.query("LISTEN sync") { _ in isReady = true }
        try run { isReady }
        let desk = try Desk(database)
        desks.append(desk)
        #expect(try desk.decide("u1", "k1", "markTaken", "{\"occurrenceId\":\"1-1\"}").status == .applied)
        try run { heard > 0 }
        // Neither a repeat nor the transaction itself has caused a wake-up: one action, one wake-up.
        desk.stop()
        var isIdle = false
        listener.query("SELECT 1") { _ in isIdle = true }
        try run { isIdle }
        #expect(heard == 1)
    }
}
