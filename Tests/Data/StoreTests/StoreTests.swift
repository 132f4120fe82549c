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

/// The store against a real server whose `sync.apply` goes wrong as a test wants.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class StoreTests {
    private let database: Database
    private let admin: BlockingConnection
    private var desks: [Desk] = []

    init() throws {
        database = try Cluster.shared.get().database()
        try Toy.install(in: database)
        admin = try database.admin()
    }

    deinit {
        for desk in desks { desk.stop() }
    }

    /// A store that runs until the test ends.
    private func open(_ change: (inout StoreConfiguration) -> Void = { _ in }) throws -> Desk {
        let desk = try Desk(database, change)
        desks.append(desk)
        return desk
    }

    private func count(_ user: String) throws -> Int {
        let rows = try admin.query("SELECT count(*) FROM toy.done WHERE user_id = $1", [user])
        return rows[0][0].flatMap { Int($0) } ?? -1
    }

    // MARK: Normal operation

    @Test func anActionIsAppliedOnce() throws {
        let desk = try open()
        desk.submit("ann", "k1", n: 1)
        let first = try desk.take("ann", "k1")
        #expect(first.status == .applied)
        #expect(!first.isReplayed)
        #expect(first.json.string.contains("\"k1\""))
        try desk.wait("the feed is told") { desk.unlockedCommits == 1 }
        desk.submit("ann", "k1", n: 1)
        #expect(try desk.take("ann", "k1").isReplayed)
        #expect(try count("ann") == 1)
        desk.submit("ann", "k9", n: 9)
        let early = try desk.take("ann", "k9")
        #expect(early.status == .retry)
        #expect(early.retry == .outOfOrder)
        #expect(early.json.string.contains("\"expected\": 2"))
        #expect(desk.complaints.isEmpty)
    }

    @Test(arguments: [1, 8]) func manyAreAnsweredInTheOrderOfTheirUsers(depth: Int) throws {
        let desk = try open {
            $0.depth = depth
            $0.userRate = Rate(perSecond: 0, burst: 1)
            $0.deviceRate = Rate(perSecond: 0, burst: 1)
        }
        for n in 1...60 {
            for user in 0..<10 { desk.submit("u\(user)", "\(n)", n: Int64(n)) }
        }
        try desk.wait("all answers") { desk.unlockedAnswers.count == 600 }
        for user in 0..<10 {
            let keys = try admin.query("SELECT key FROM toy.done WHERE user_id = $1 ORDER BY serial", ["u\(user)"])
            #expect(keys.map { $0[0] } == (1...60).map { "\($0)" })
        }
        #expect(desk.complaints.isEmpty)
    }

    @Test func otherHubsAreWokenInBatches() throws {
        let desk = try open {
            $0.userRate = Rate(perSecond: 0, burst: 1)
            // So long that the first wake-up comes at once, and one for all later commits when the store stops.
            $0.announceInterval = .seconds(1_000)
        }
        for number in 0..<200 { desk.submit("u\(number % 20)", "\(number)") }
        try desk.wait("all answers") { desk.unlockedAnswers.count == 200 }
        desk.stop()
        #expect(try admin.query("SELECT last_value FROM toy.announced") == [["2"]])
    }

    @Test func spellingsAndOddTextsPass() throws {
        let desk = try open()
        for user in ["é", "e\u{301}", "' or 1=1", "\u{1F48A}", "a\\b", "\"{}"] {
            desk.submit(user, user, "mark", "{\"note\":\"\(user == "\"{}" ? "x" : "ü")\"}")
            #expect(try desk.take(user, user).status == .applied)
            #expect(try count(user) == 1)
        }
    }

    // MARK: Refusals

    @Test func aNULIsRejected() throws {
        let desk = try open()
        desk.submit("ann", "k\0", "mark", "{}")
        let answer = try desk.take("ann", "k\0")
        #expect(answer.status == .rejected)
        #expect(answer.json.string.contains("\"key\":\"k\\u0000\",\"status\":\"rejected\",\"code\":\"invalid\""))
    }

    /// The application's trigger or constraint refuses: that is stored, so that the device's numbers go on.
    @Test(arguments: [("P0001", 1), ("23514", 2), ("23505", 2)])
    func aRefusalIsStored(code: String, executions: Int) throws {
        let desk = try open()
        let payload = "{\"code\":\"\(code)\",\"times\":100}"
        desk.submit("ann", "k1", n: 1, "raise", payload)
        desk.submit("ann", "k2", n: 2)
        let answer = try desk.take("ann", "k1")
        #expect(answer.status == .rejected)
        #expect(!answer.json.string.contains("aspirin"))
        #expect(try desk.take("ann", "k2").status == .applied)
        desk.submit("ann", "k1", n: 1, "raise", payload)
        #expect(try desk.take("ann", "k1").isReplayed)
        #expect(try count("ann") == 2)
        #expect(try admin.query("SELECT last_value FROM toy.failures") == [["\(executions)"]])
    }

    /// Two concurrent actions may violate a constraint where one alone would not.
    @Test func aConstraintViolatedOnceIsNoRefusal() throws {
        let desk = try open()
        desk.submit("ann", "k1", "raise", "{\"code\":\"23505\",\"times\":1}")
        #expect(try desk.take("ann", "k1").status == .applied)
    }

    /// A broken trigger or function of the application, or a value out of range: it may be repaired at any time.
    @Test(arguments: ["42703", "42P01", "22012", "22P02", "54001", "55000", "57014", "P0002", "XX000", "ZZ999"])
    func aPassingFailureDecidesNothing(code: String) throws {
        let desk = try open()
        let payload = "{\"code\":\"\(code)\",\"times\":1}"
        desk.submit("ann", "k1", n: 1, "raise", payload)
        desk.submit("ann", "k2", n: 2)
        for key in ["k1", "k2"] {
            let answer = try desk.take("ann", key)
            #expect(answer.retry == .unavailable)
            #expect(answer.retryAfter.map { $0 >= .milliseconds(500) && $0 <= .seconds(2) } == true)
            #expect(!answer.json.string.contains("aspirin"))
        }
        #expect(try count("ann") == 0)
        // After the repair, the same action is carried out.
        #expect(try desk.decide("ann", "k1", n: 1, "raise", payload).status == .applied)
        #expect(try desk.decide("ann", "k2", n: 2).status == .applied)
    }

    /// Always broken, it does not block its device: after some tries the rejection is stored under its number.
    @Test(arguments: ["42703", "22012", "XX000", "ZZ999", "0A000"])
    func whatStaysBrokenIsRefused(code: String) throws {
        let desk = try open { $0.lockTimeout = .milliseconds(20) }
        let payload = "{\"code\":\"\(code)\",\"times\":1000}"
        desk.submit("ann", "k1", n: 1, "raise", payload)
        #expect(try desk.take("ann", "k1").status == .retry)
        // Actions of others are applied: not all have this trouble.
        #expect(try desk.decide("bob", "k1").status == .applied)
        #expect(try desk.decide("ann", "k1", n: 1, "raise", payload).status == .rejected)
        #expect(
            try admin.query("SELECT last_value >= $1::int FROM toy.failures", ["\(StoreLimits.failuresMax)"]) == [["t"]]
        )
        #expect(try desk.decide("ann", "k2", n: 2).status == .applied)
        desk.submit("ann", "k1", n: 1, "raise", payload)
        let again = try desk.take("ann", "k1")
        #expect(again.isReplayed && !again.json.string.contains("aspirin"))
        #expect(try count("ann") == 2)
    }

    /// Another device of the user is served meanwhile, and that does not reset the count. Errors that blame the server are
    /// never judged.
    @Test(arguments: [("22012", true), ("53100", false), ("57014", false)])
    func whatStaysBrokenIsRefusedBesideOtherDevices(code: String, isRefused: Bool) throws {
        let desk = try open { $0.lockTimeout = .milliseconds(20) }
        let payload = "{\"code\":\"\(code)\",\"times\":100000}"
        let start = Instant.read()
        var (count, wasRefused) = (0, false)
        while !wasRefused, Instant.read().duration(since: start) < (isRefused ? .seconds(60) : .seconds(5)) {
            desk.submit("ann", "phone", "raise", payload)
            wasRefused = try desk.take("ann", "phone").status == .rejected
            #expect(try desk.decide("ann", "tablet \(count)").status == .applied)
            count += 1
        }
        #expect(wasRefused == isRefused)
        #expect(Instant.read().duration(since: start) >= .seconds(3), "a trigger may be being replaced")
        #expect(count >= StoreLimits.failuresMax)
    }

    @Test(arguments: ["P0001", "23514", "42703"]) func aRefusalThatFailsDecidesNothing(code: String) throws {
        let desk = try open()
        desk.submit("ann", "k1", n: 1, "raise", "{\"code\":\"P0001\",\"times\":100,\"refusal\":\"\(code)\"}")
        #expect(try desk.take("ann", "k1").retry == .unavailable)
        #expect(try count("ann") == 0)
    }

    /// The rows of the answer come, and then the commit fails: no success may have been reported.
    @Test(arguments: [1, 8]) func aFailureAtCommitIsNoSuccess(depth: Int) throws {
        let desk = try open { $0.depth = depth }
        for key in 1...8 { desk.submit("u\(key % 2)", "\(key)", key % 4 < 2 ? "mark" : "late") }
        for key in 1...8 {
            let answer = try desk.take("u\(key % 2)", "\(key)")
            #expect(answer.status == (key % 4 < 2 ? .applied : .rejected))
            #expect(answer.json.string.contains("\"server\"") == (key % 4 < 2))
        }
        #expect(try admin.query("SELECT count(*) FROM toy.item") == [["0"]])
    }

    // MARK: Races

    @Test(arguments: ["40001", "40P01"]) func aLostRaceIsRunAgain(code: String) throws {
        let desk = try open()
        desk.submit("ann", "k1", n: 1, "raise", "{\"code\":\"\(code)\",\"times\":2}")
        desk.submit("ann", "k2", n: 2)
        #expect(try desk.take("ann", "k1").status == .applied)
        #expect(try desk.take("ann", "k2").status == .applied)
        #expect(desk.answered == ["ann/k1", "ann/k2"])
    }

    @Test(arguments: ["40001", "40P01"]) func aRaceAlwaysLostIsARetry(code: String) throws {
        let desk = try open()
        desk.submit("ann", "k1", n: 1, "raise", "{\"code\":\"\(code)\",\"times\":3}")
        let answer = try desk.take("ann", "k1")
        #expect(answer.retry == .busy)
        #expect(answer.retryAfter.map { $0 > .zero } == true)
        #expect(try count("ann") == 0)
        desk.submit("ann", "k1", n: 1, "raise", "{\"code\":\"\(code)\",\"times\":3}")
        #expect(try desk.take("ann", "k1").status == .applied)
        #expect(try admin.query("SELECT last_value FROM toy.failures") == [["4"]])
    }

    @Test func aViolatedConstraintMayBeARace() throws {
        let desk = try open()
        desk.submit("ann", "k1", "raise", "{\"code\":\"23505\",\"times\":1}")
        #expect(try desk.take("ann", "k1").status == .applied)
    }

    @Test func aRealDeadlockEndsInBothApplied() throws {
        try admin.execute("INSERT INTO toy.item (id) VALUES ('x'), ('y')")
        // No pipeline: one could wait behind the other while the second connection is being made.
        let desk = try open {
            $0.connections = 2
            $0.depth = 1
            $0.lockTimeout = .seconds(30)
            $0.statementTimeout = .seconds(30)
            $0.actionTimeout = .seconds(60)
        }
        #expect(try desk.decide("carol", "k1").status == .applied)
        // The victim's retry may be so quick that it blocks the other again, and is told to retry.
        let bob = Thread { _ = try? desk.decide("bob", "k1", "cross", "{\"first\":\"y\",\"second\":\"x\"}") }
        #expect(
            try desk.decide("ann", "k1", "cross", "{\"first\":\"x\",\"second\":\"y\"}").status == .applied)
        bob.join()
        #expect(try admin.query("SELECT n FROM toy.item ORDER BY id") == [["2"], ["2"]])
        // More than two first halves were begun, so some were broken.
        #expect(try admin.query("SELECT last_value > 2 FROM toy.crossing") == [["t"]])
    }

    // MARK: Locks

    @Test(arguments: [1, 4]) func aLockedUserStallsNobody(connections: Int) throws {
        let desk = try open {
            $0.connections = connections
            $0.userRate = Rate(perSecond: 0, burst: 1)
        }
        #expect(try desk.decide("ann", "k0", n: 1).status == .applied)
        let other = try database.admin()
        try other.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id = 'ann'")
        for number in 1...20 { desk.submit("ann", "k\(number)", n: Int64(number + 1)) }
        for number in 1...100 { desk.submit("u\(number % 10)", "\(number)") }
        for number in 1...100 { #expect(try desk.take("u\(number % 10)", "\(number)").status == .applied) }
        for number in 1...20 {
            let answer = try desk.take("ann", "k\(number)")
            #expect(answer.retry == .busy)
            #expect(answer.retryAfter.map { $0 > .zero && $0 <= .seconds(2) } == true)
        }
        // Twenty actions met the lock once.
        try other.execute("COMMIT")
        for number in 1...20 { #expect(try desk.decide("ann", "k\(number)", n: Int64(number + 1)).status == .applied) }
        #expect(try count("ann") == 21)
        #expect(desk.complaints.isEmpty)
    }

    /// Fifty users are locked and keep sending: the others' actions cost few lock timeouts.
    @Test func manyLockedUsersStallNobody() throws {
        let desk = try open {
            $0.userRate = Rate(perSecond: 0, burst: 1)
            $0.lockTimeout = .milliseconds(200)
            $0.actionTimeout = .seconds(60)
        }
        let locked = (0..<50).map { "locked\($0)" }
        try admin.execute("INSERT INTO toy.account SELECT 'locked' || n FROM generate_series(0, 49) AS n")
        let other = try database.admin()
        try other.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id LIKE 'locked%'")
        for user in locked { desk.submit(user, "k") }
        let isOver = Locked(false)
        let busy = Locked(0)
        let senders = Thread {
            while !isOver.withLock({ $0 }) {
                for user in locked {
                    guard let answer = try? desk.take(user, "k") else { return }
                    if answer.retry == .busy { busy.withLock { $0 += 1 } }
                    desk.submit(user, "k")
                }
            }
        }
        for number in 0..<400 { desk.submit("u\(number % 20)", "\(number)") }
        for number in 0..<400 { #expect(try desk.take("u\(number % 20)", "\(number)").status == .applied) }
        let starts = try #require(
            try admin.query("SELECT last_value FROM toy.starts")[0][0].flatMap { Int($0) })
        isOver.withLock { $0 = true }
        senders.join()
        // Each locked user's first action and few more: one at a time, while the others' continued. (Served in turn, they
        // would cost fifty for each action of an innocent user.)
        #expect(starts <= 400 + 50 + 200, "\(starts - 400) lock timeouts")
        #expect(busy.withLock { $0 } >= 50)
        try other.execute("COMMIT")
        for user in locked {
            _ = try desk.take(user, "k")
            #expect(try desk.decide(user, "k").status == .applied)
        }
        #expect(desk.complaints.isEmpty)
    }

    @Test func whatWaitsTooLongIsARetry() throws {
        let desk = try open {
            $0.connections = 1
            $0.depth = 1
            $0.actionTimeout = .milliseconds(300)
            $0.statementTimeout = .seconds(60)
        }
        #expect(try desk.decide("ann", "k0").status == .applied)
        desk.submit("ann", "k1", "sleep", "{\"s\":1}")
        desk.submit("ann", "k2")
        desk.submit("bob", "k1")
        // In flight, behind it, and waiting for the connection.
        #expect(try desk.take("ann", "k1").retry == .unavailable)
        #expect(try desk.take("ann", "k2").retry == .busy)
        #expect(try desk.take("bob", "k1").retry == .busy)
        #expect(try desk.decide("ann", "k1", "sleep", "{\"s\":1}").status == .applied)
        #expect(try count("ann") == 2)
        #expect(desk.complaints.isEmpty)
    }

    // MARK: Bounds

    @Test func ratesAreHeld() throws {
        let desk = try open {
            $0.userRate = Rate(nanoseconds: 1_000_000_000_000, burst: 5)
            $0.deviceRate = Rate(nanoseconds: 1_000_000_000_000, burst: 3)
        }
        for n in 1...4 { desk.submit("ann", "d\(n)", n: Int64(n)) }
        for n in 1...3 { #expect(try desk.take("ann", "d\(n)").status == .applied) }
        let device = try desk.take("ann", "d4")
        #expect(device.retry == .rateLimited)
        #expect(device.json.string.contains("\"code\":\"busy\""))
        for number in 1...3 { desk.submit("ann", "w\(number)") }
        for number in 1...2 { #expect(try desk.take("ann", "w\(number)").status == .applied) }
        #expect(try desk.take("ann", "w3").retry == .rateLimited)
        desk.submit("bob", "w1")
        #expect(try desk.take("bob", "w1").status == .applied)
    }

    /// An action before its turn costs no tokens, since the device sends it again.
    @Test func anActionBeforeItsTurnCostsNoTokens() throws {
        let desk = try open {
            $0.userRate = Rate(nanoseconds: 1_000_000_000_000, burst: 3)
            $0.deviceRate = Rate(nanoseconds: 1_000_000_000_000, burst: 2)
        }
        for _ in 1...5 {
            desk.submit("ann", "k9", n: 9)
            #expect(try desk.take("ann", "k9").retry == .outOfOrder)
        }
        for n in 1...2 {
            desk.submit("ann", "k\(n)", n: Int64(n))
            #expect(try desk.take("ann", "k\(n)").status == .applied)
        }
        desk.submit("ann", "k3", n: 3)
        #expect(try desk.take("ann", "k3").retry == .rateLimited)
    }

    @Test func boundOnWaitingActions() throws {
        let desk = try open {
            $0.connections = 1
            $0.depth = 1
            $0.lockTimeout = .seconds(30)
            $0.waitingMax = 3
            $0.waitingPerUserMax = 2
        }
        #expect(try desk.decide("ann", "k0").status == .applied)
        let other = try database.admin()
        try other.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id = 'ann'")
        desk.submit("ann", "k1")
        try waitForBlocked(1)
        for key in ["k2", "k3", "k4"] { desk.submit("ann", key) }
        #expect(try desk.take("ann", "k4").retry == .busy)
        for key in ["k1", "k2"] { desk.submit("bob", key) }
        #expect(try desk.take("bob", "k2").retry == .busy)
        // A user with nothing queued still finds room, up to a second bound.
        for user in ["carol", "dave"] { desk.submit(user, "k1") }
        #expect(try desk.take("dave", "k1").retry == .busy)
        try other.execute("COMMIT")
        for key in ["k1", "k2", "k3"] { #expect(try desk.take("ann", key).status == .applied) }
        for user in ["bob", "carol"] { #expect(try desk.take(user, "k1").status == .applied) }
    }

    private func waitForBlocked(_ count: Int) throws {
        let end = Instant.read().advanced(by: .seconds(30))
        while try admin.query(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND usename = 'carillon_hub' AND wait_event_type = 'Lock'
            """) != [["\(count)"]]
        {
            try #require(Instant.read() < end, "\(count) blocked: not in 30 s")
        }
    }

    // MARK: The end

    @Test func stopAnswersEverything() throws {
        let desk = try open {
            $0.connections = 1
            $0.depth = 1
            $0.lockTimeout = .seconds(30)
        }
        #expect(try desk.decide("ann", "k0").status == .applied)
        let other = try database.admin()
        try other.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id = 'ann'")
        desk.submit("ann", "k1")
        try waitForBlocked(1)
        desk.submit("ann", "k2")
        desk.submit("bob", "k1")
        let stopping = Thread { desk.stop() }
        #expect(try desk.take("ann", "k2").retry == .unavailable)
        #expect(try desk.take("bob", "k1").retry == .unavailable)
        try other.execute("COMMIT")
        // The action in flight gets its answer.
        #expect(try desk.take("ann", "k1").status == .applied)
        stopping.join()
        #expect(desk.complaints.isEmpty)
    }

    @Test func stopDoesNotWaitForEver() throws {
        let desk = try open {
            $0.lockTimeout = .seconds(30)
            // Long enough to be seen waiting, even on a busy machine.
            $0.statementTimeout = .seconds(2)
        }
        #expect(try desk.decide("ann", "k0").status == .applied)
        let other = try database.admin()
        try other.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id = 'ann'")
        desk.submit("ann", "k1")
        try waitForBlocked(1)
        desk.stop()
        #expect(try desk.take("ann", "k1").retry == .unavailable)
    }

    @Test func afterTheEndComesARetry() throws {
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.connections = 1
        let answers = Locked<[ActionAnswer]>([])
        let store = try Store.start(configuration, logger: .quiet) {}
        store.stop()
        store.submit(
            ActionRequest(user: "ann", envelope: ActionEnvelope(key: "k", type: "mark", payload: [])) { answer in
                answers.withLock { $0.append(answer) }
            })
        #expect(answers.withLock { $0.map(\.retry) } == [.unavailable])
    }
}
