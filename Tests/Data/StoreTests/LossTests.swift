import Bytes
import Clock
import Glibc
import Postgres
import Reactor
import Store
import Sync
import TestDatabase
import TestSupport
import Testing

/// Connections and servers end at every moment of an action's life: it is applied exactly once, or answered `retry`.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class LossTests {
    private var desks: [Desk] = []

    deinit {
        for desk in desks { desk.stop() }
    }

    private func open(_ database: Database, _ change: (inout StoreConfiguration) -> Void = { _ in }) throws -> Desk {
        let desk = try Desk(database) {
            $0.userRate = Rate(perSecond: 0, burst: 1)
            $0.deviceRate = Rate(perSecond: 0, burst: 1)
            change(&$0)
        }
        desks.append(desk)
        return desk
    }

    private func database(_ cluster: Cluster? = nil) throws -> Database {
        let database = try (cluster ?? Cluster.shared.get()).database()
        try Toy.install(in: database)
        return database
    }

    /// The connection ends at one moment of the third action or batch, with others before and behind it.
    @Test(arguments: Failpoint.allCases, [1, 8]) func aLostConnectionCostsNothing(
        failpoint: Failpoint, depth: Int
    ) throws {
        let database = try database()
        let count = Locked(0)
        let desk = try open(database) {
            $0.connections = 1
            $0.depth = depth
            $0.failpoints = Failpoints { reached in
                guard reached == failpoint else { return false }
                return count.withLock { count in
                    count += 1
                    return count == 3
                }
            }
        }
        let bob = Thread { try? desk.drain("bob", 15) }
        try desk.drain("ann", 15)
        bob.join()
        #expect(count.withLock { $0 } >= 3)
        for user in ["ann", "bob"] { try expectOrder(database, user, 15) }
        #expect(desk.complaints.isEmpty)
    }

    /// The first execution continues in a backend that has not noticed the loss.
    @Test func theSecondExecutionWaitsForTheFirst() throws {
        let database = try database()
        let isCut = Locked(false)
        let desk = try open(database) {
            $0.connections = 2
            $0.lockTimeout = .seconds(20)
            $0.failpoints = Failpoints { reached in
                guard reached == .afterSend else { return false }
                return isCut.withLock { isCut in
                    defer { isCut = true }
                    return !isCut
                }
            }
        }
        let answer = try desk.decide("ann", "k1", "sleep", "{\"s\":0.3}")
        #expect(answer.status == .applied)
        #expect(try database.admin().query("SELECT count(*) FROM toy.done") == [["1"]])
    }

    /// Backends are terminated and connections cut at every kind of moment, while devices send until all is decided.
    @Test func aStormOfLossesAppliesEachOnceInOrder() throws {
        let database = try database()
        let seed = SeededRandom()
        let random = Locked(seed)
        let desk = try open(database) {
            $0.connections = 3
            $0.depth = 4
            $0.failpoints = Failpoints { _ in random.withLock { Int.random(in: 0..<600, using: &$0) == 0 } }
        }
        let isOver = Locked(false)
        let killer = Thread {
            guard let admin = try? database.admin() else { return }
            while !isOver.withLock({ $0 }) {
                _ = try? admin.query(
                    """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND usename = 'carillon_hub' ORDER BY random() LIMIT 1
                    """)
                _ = try? admin.query("SELECT pg_sleep(0.3)")
            }
        }
        let users = (0..<12).map { "u\($0)" }
        let failures = Locked<[String]>([])
        let devices = users.map { user in
            Thread {
                do {
                    try desk.drain(user, 80, repeating: 3)
                } catch {
                    failures.withLock { $0.append("\(user): \(error)") }
                }
            }
        }
        for device in devices { device.join() }
        isOver.withLock { $0 = true }
        killer.join()
        #expect(failures.withLock { $0 } == [], "seed \(seed.seed)")
        for user in users { try expectOrder(database, user, 80) }
        #expect(desk.complaints.isEmpty, "seed \(seed.seed)")
    }

    // MARK: Servers

    @Test func aServerThatIsAwayIsARetryAtOnce() throws {
        let cluster = try Cluster()
        let database = try database(cluster)
        try cluster.stop()
        let desk = try open(database)
        // An action waits until the first attempt to connect has failed; later ones are answered at once.
        let first = try desk.decideOrRetry("ann", "k1")
        #expect(first.status == .retry)
        #expect(first.retry == .unavailable)
        #expect(first.retryAfter.map { $0 >= .milliseconds(500) && $0 <= .seconds(10) } == true)
        try cluster.start()
        #expect(try desk.decide("ann", "k1").status == .applied)
        // Away again, with actions in flight.
        for number in 0..<50 { desk.submit("u\(number)", "k1") }
        try cluster.stop()
        try cluster.start()
        for number in 0..<50 {
            let answer = try desk.take("u\(number)", "k1")
            if answer.status == .retry { #expect(try desk.decide("u\(number)", "k1").status == .applied) }
        }
        let admin = try database.admin()
        #expect(try admin.query("SELECT count(*), count(DISTINCT user_id) FROM toy.done") == [["51", "51"]])
        #expect(desk.complaints.isEmpty)
    }

    @Test func aSlowServerIsARetry() throws {
        let database = try database()
        let desk = try open(database) { $0.statementTimeout = .milliseconds(200) }
        let answer = try desk.decideOrRetry("ann", "k1", "sleep", "{\"s\":30}")
        #expect(answer.retry == .unavailable)
        #expect(try database.admin().query("SELECT count(*) FROM toy.done") == [["0"]])
        #expect(try desk.decide("ann", "k1").status == .applied)
    }

    /// A backend stops, and continues long after the action was executed elsewhere. A server of its own: a stopped
    /// backend may hold up the whole server.
    @Test func aServerThatSaysNothingIsLeft() throws {
        let database = try database(Cluster())
        let desk = try open(database) {
            $0.statementTimeout = .milliseconds(200)
            $0.connections = 1
        }
        #expect(try desk.decide("ann", "k1", n: 1).status == .applied)
        let admin = try database.admin()
        let sessions = """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = 'carillon_hub'
            """
        // The other backends read snapshots.
        let writer = "SELECT answer ->> 'server' FROM toy.done WHERE key = 'k1'"
        let backend = try #require(try admin.query(writer).first?[0].flatMap { pid_t($0) })
        // Not before it has finished that action: stopped at the end of a commit, it would hold up the whole server.
        let resting = """
            SELECT 1 FROM pg_stat_activity WHERE pid = $1::int AND state = 'idle' AND wait_event = 'ClientRead'
            """
        let patience = Instant.read().advanced(by: .seconds(30))
        while try admin.query(resting, [String(backend)]).isEmpty {
            try #require(Instant.read() < patience, "the backend has not come to rest in 30 s")
        }
        #expect(kill(backend, SIGSTOP) == 0)
        desk.submit("ann", "k2", n: 2)
        desk.submit("ann", "k3", n: 3)
        for number in 2...3 {
            // On a busy machine, the new connection may not answer in 200 ms either.
            var answer = try desk.take("ann", "k\(number)")
            if answer.status == .retry { answer = try desk.decide("ann", "k\(number)", n: Int64(number)) }
            #expect(answer.status == .applied)
        }
        #expect(kill(backend, SIGCONT) == 0)
        // Earlier requests to it are in its socket, and are executed now.
        let end = Instant.read().advanced(by: .seconds(30))
        while try admin.query(sessions).contains([String(backend)]) {
            try #require(Instant.read() < end, "the backend has not ended in 30 s")
        }
        try expectOrder(database, "ann", 3)
        #expect(desk.complaints.isEmpty)
    }

    @Test func aReadOnlyServerIsARetry() throws {
        let cluster = try Cluster()
        let database = try database(cluster)
        let desk = try open(database)
        #expect(try desk.decide("ann", "k1").status == .applied)
        let admin = try database.admin()
        func setReadOnly(_ isReadOnly: Bool) throws {
            try admin.execute("ALTER SYSTEM SET default_transaction_read_only = \(isReadOnly)")
            _ = try admin.query("SELECT pg_reload_conf()")
            while try BlockingConnection(database.hub).query("SHOW default_transaction_read_only")
                != [[isReadOnly ? "on" : "off"]]
            {}
        }
        try setReadOnly(true)
        for number in 0..<30 { desk.submit("u\(number)", "k1") }
        var retries = 0
        for number in 0..<30 {
            if try desk.take("u\(number)", "k1").retry == .unavailable { retries += 1 }
        }
        #expect(retries > 0)
        try admin.execute("SET default_transaction_read_only = off")
        try setReadOnly(false)
        for number in 0..<30 { #expect(try desk.decide("u\(number)", "k1").status == .applied) }
        #expect(try admin.query("SELECT count(*), count(DISTINCT user_id) FROM toy.done") == [["31", "31"]])
        #expect(desk.complaints.isEmpty)
    }

    /// One connection reports that it is read-only: the action is sent on another one, or waits for a new one.
    @Test(arguments: [1, 4]) func aReadOnlyConnectionIsLeft(connections: Int) throws {
        let database = try database()
        let desk = try open(database) { $0.connections = connections }
        #expect(try desk.decide("bob", "k1").status == .applied)
        // It waits for the sequence, so that the others are queued before the only connection is dropped; later they would
        // be refused.
        desk.submit("ann", "k1", n: 1, "cross", "{}")
        desk.submit("ann", "k2", n: 2, "raise", "{\"code\":\"25006\",\"times\":1}")
        desk.submit("ann", "k3", n: 3)
        _ = try database.admin().query("SELECT nextval('toy.crossing')")
        #expect(try desk.take("ann", "k1").status == .applied)
        #expect(try desk.take("ann", "k2").status == .applied)
        #expect(try desk.take("ann", "k3").status == .applied)
        try expectOrder(database, "ann", 3)
    }

    @Test func aServerInTroubleIsARetry() throws {
        let database = try database()
        let desk = try open(database)
        for (index, code) in ["53100", "53200", "58030", "XX000", "42501", "57014"].enumerated() {
            try database.admin().execute("ALTER SEQUENCE toy.failures RESTART")
            let answer = try desk.decideOrRetry(
                "ann", "k\(index)", "raise", "{\"code\":\"\(code)\",\"times\":1}")
            #expect(answer.retry == .unavailable, "\(code)")
            #expect(try desk.decide("ann", "k\(index)").status == .applied)
        }
    }

    @Test func aDatabaseNotMigratedIsARetry() throws {
        let database = try Cluster.shared.get().database()
        try database.owner().execute(
            "DROP FUNCTION IF EXISTS sync.apply(text, text, text, bigint, text, text, text, text, text)")
        let desk = try open(database)
        #expect(try desk.decideOrRetry("ann", "k1").retry == .unavailable)
        try Toy.install(in: database)
        #expect(try desk.decide("ann", "k1").status == .applied)
    }

    // MARK: Parts

    private func expectOrder(
        _ database: Database, _ user: String, _ count: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let rows = try database.admin().query(
            "SELECT n FROM toy.done WHERE user_id = $1 ORDER BY serial", [user])
        #expect(rows.map { $0[0] } == (1...count).map { "\($0)" }, sourceLocation: sourceLocation)
    }
}

extension Desk {
    /// Sends actions 1 to `last` of a user's phone, some ahead of the answers. Repeats undecided ones from the first on,
    /// and every `repeating`th decided one.
    func drain(_ user: String, _ last: Int, repeating: Int? = nil) throws {
        var next = 1
        while next <= last {
            let window = next...min(next + 4, last)
            for n in window { submit(user, "\(n)", n: Int64(n)) }
            var isOpen = true
            for n in window {
                let answer = try take(user, "\(n)")
                if isOpen, answer.status == .applied { next = n + 1 } else { isOpen = false }
            }
            if !isOpen {
                // The actions behind it have no chance before it is decided.
                let answer = try decide(user, "\(next)", n: Int64(next))
                #expect(answer.status == .applied)
                next += 1
            }
            if let repeating, next % repeating == 1, next > 1 {
                let answer = try decide(user, "\(next - 1)", n: Int64(next - 1))
                #expect(answer.isReplayed && answer.status == .applied)
            }
        }
    }

    /// Submits an action and returns its answer, whatever it is; waits until the store has first tried to connect.
    func decideOrRetry(
        _ user: String, _ key: String, _ type: String = "mark", _ payload: String = "{}"
    ) throws -> ActionAnswer {
        submit(user, key, type, payload)
        return try take(user, key)
    }
}
