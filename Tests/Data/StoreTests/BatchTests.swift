import Bytes
import Clock
import Postgres
import Reactor
import Store
import Sync
import TestDatabase
import TestSupport
import Testing

/// Actions of one user that wait share a transaction, and end as they would one by one.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class BatchTests {
    private let database: Database
    private let admin: BlockingConnection
    private let blocker: BlockingConnection
    private var desks: [Desk] = []

    init() throws {
        database = try Cluster.shared.get().database()
        try Toy.install(in: database)
        admin = try database.admin()
        blocker = try database.admin()
    }

    deinit {
        for desk in desks { desk.stop() }
    }

    private func open(_ change: (inout StoreConfiguration) -> Void = { _ in }) throws -> Desk {
        let desk = try Desk(database) {
            $0.connections = 1
            $0.depth = 1
            $0.userRate = Rate(perSecond: 0, burst: 1)
            $0.deviceRate = Rate(perSecond: 0, burst: 1)
            $0.lockTimeout = .seconds(60)
            $0.statementTimeout = .seconds(60)
            $0.actionTimeout = .seconds(120)
            change(&$0)
        }
        desks.append(desk)
        return desk
    }

    /// Submits what the closure does while an action of another user holds the only connection: all of it waits then.
    private func whileBusy(_ desk: Desk, _ submit: () -> Void) throws {
        try admin.execute("INSERT INTO toy.account (user_id) VALUES ('busy') ON CONFLICT DO NOTHING")
        #expect(try desk.decide("first", "k").status == .applied)
        try blocker.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id = 'busy'")
        desk.submit("busy", "k")
        let end = Instant.read().advanced(by: .seconds(60))
        while try admin.query(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).isEmpty {
            try #require(Instant.read() < end, "nothing waits after 60 s")
        }
        submit()
        // It is posted before this one, which is answered by the store's thread and not by the database.
        desk.submit("nul", "k\0")
        _ = try desk.take("nul", "k\0")
        try blocker.execute("COMMIT")
        #expect(try desk.take("busy", "k").status == .applied)
    }

    /// The numbers of each transaction of a user, in their order.
    private func transactions(_ user: String) throws -> [String?] {
        try admin.query(
            """
            SELECT string_agg(key, ' ' ORDER BY serial) FROM toy.done WHERE user_id = $1
            GROUP BY xmin::text ORDER BY min(serial)
            """, [user]
        ).map { $0[0] }
    }

    @Test func whatWaitsSharesATransaction() throws {
        let desk = try open()
        // A batch is over after 50 ms: on a busy machine, one of several users has all.
        let users = (1...20).map { "ann\($0)" }
        let sharing = try users.first { user in
            try whileBusy(desk) {
                for n in 1...5 {
                    desk.submit(user, "k\(n)", n: Int64(n), "mark", "{\"q\":\"\\\"\\\\\u{1F48A}\"}")
                }
            }
            for n in 1...5 {
                let answer = try desk.take(user, "k\(n)")
                #expect(answer.status == .applied && answer.json.string.contains("\"k\(n)\"") && !answer.isReplayed)
            }
            #expect(desk.answered.filter { $0.hasPrefix("\(user)/") } == (1...5).map { "\(user)/k\($0)" })
            return try transactions(user) == ["k1 k2 k3 k4 k5"]
        }
        #expect(sharing != nil)
        #expect(desk.complaints.isEmpty)
    }

    /// An action that comes before its turn, among others that wait: those behind it, which may follow from it, go after it.
    /// Then a repeat beside a new one.
    @Test func eachGetsItsOwnAnswer() throws {
        let desk = try open()
        try whileBusy(desk) {
            desk.submit("ann", "k1", n: 1)
            desk.submit("ann", "k9", n: 9)
            desk.submit("ann", "k2", n: 2)
        }
        #expect(try desk.take("ann", "k1").status == .applied)
        let early = try desk.take("ann", "k9")
        #expect(early.retry == .outOfOrder && early.json.string.contains("\"expected\": 2"))
        #expect(try desk.take("ann", "k2").status == .applied)
        #expect(try transactions("ann") == ["k1", "k2"])
        #expect(desk.complaints.isEmpty)
        try whileBusy(desk) { for n in 1...3 { desk.submit("ann", "k\(n)", n: Int64(n)) } }
        for n in 1...3 { #expect(try desk.take("ann", "k\(n)").isReplayed == (n < 3)) }
    }

    /// Something fails in a transaction of several, but not for the action alone: nobody is told of it.
    @Test(arguments: ["P0001", "23505", "40P01", "55P03", "22012", "53100", "XX000", "57014"])
    func aFailureOfAllDecidesNothing(code: String) throws {
        let desk = try open()
        try whileBusy(desk) {
            for n in 1...5 {
                desk.submit("ann", "k\(n)", n: Int64(n), n == 3 ? "spoil" : "mark", "{\"code\":\"\(code)\"}")
            }
        }
        for n in 1...5 {
            let answer = try desk.take("ann", "k\(n)")
            #expect(answer.status == .applied && !answer.isReplayed, "\(n)")
        }
        // On a busy machine, those before it may have been a batch, which is over after 50 ms.
        let batches = try transactions("ann").compactMap(\.self)
        #expect(batches.contains("k3") && batches.joined(separator: " ") == "k1 k2 k3 k4 k5")
        #expect(desk.complaints.isEmpty)
    }

    /// The rows of all answers come, and then the commit fails: the one at fault is refused, and all others are applied.
    @Test func aFailureAtTheCommitIsOfOne() throws {
        let desk = try open()
        try whileBusy(desk) {
            for n in 1...5 { desk.submit("ann", "k\(n)", n: Int64(n), n == 3 ? "late" : "mark") }
        }
        for n in 1...5 { #expect(try desk.take("ann", "k\(n)").status == (n == 3 ? .rejected : .applied)) }
        #expect(try admin.query("SELECT count(*) FROM toy.item") == [["0"]])
        #expect(desk.answered.filter { $0.hasPrefix("ann") } == (1...5).map { "ann/k\($0)" })
        #expect(desk.complaints.isEmpty)
    }

    /// The connection ends at a moment of the batch. After the commit, each gets its stored answer.
    @Test(arguments: Failpoint.allCases) func aLostBatchIsAppliedOnce(failpoint: Failpoint) throws {
        // How often it is still reached before the connection ends; nil: never.
        let left = Locked<Int?>(nil)
        let desk = try open {
            $0.failpoints = Failpoints { reached in
                left.withLock { left in
                    guard reached == failpoint, let count = left else { return false }
                    left = count - 1
                    return count == 1
                }
            }
        }
        try whileBusy(desk) {
            for n in 1...5 { desk.submit("ann", "k\(n)", n: Int64(n)) }
            // The action in flight reaches the last two moments before the batch does.
            left.withLock { $0 = failpoint == .beforeSend || failpoint == .afterSend ? 1 : 2 }
        }
        for n in 1...5 {
            var answer = try desk.take("ann", "k\(n)")
            // On a busy machine, the new connection may be up too late.
            if answer.status == .retry { answer = try desk.decide("ann", "k\(n)", n: Int64(n)) }
            #expect(answer.status == .applied)
            #expect(failpoint == .afterSend || answer.isReplayed == (failpoint == .afterCommit))
        }
        // The last moment comes after the answer.
        #expect(try eventually { left.withLock { ($0 ?? 1) <= 0 } })
        let rows = try admin.query("SELECT n FROM toy.done WHERE user_id = 'ann' ORDER BY serial")
        #expect(rows.map { $0[0] } == (1...5).map { "\($0)" })
        #expect(desk.complaints.isEmpty)
    }

    /// The longer they take, the fewer share: other users wait no longer for them.
    @Test func timeBoundsABatch() throws {
        let desk = try open()
        try whileBusy(desk) {
            for n in 1...6 { desk.submit("ann", "k\(n)", n: Int64(n), "nap", "{\"ms\":30}") }
        }
        for n in 1...6 { #expect(try desk.take("ann", "k\(n)").status == .applied) }
        let batches = try transactions("ann")
        #expect(batches.compactMap { $0 }.joined(separator: " ") == "k1 k2 k3 k4 k5 k6")
        #expect(batches.count >= 3)
        #expect(desk.complaints.isEmpty)
    }

    /// Another writer has what a later action needs: the batch gives way at once, and the action waits as it would alone.
    @Test func aLockIsWaitedForByOne() throws {
        let desk = try open()
        #expect(try desk.decide("ann", "k0", n: 1).status == .applied)
        let other = try database.admin()
        try whileBusy(desk) {
            _ = try? other.execute("BEGIN; UPDATE toy.account SET last_n = last_n WHERE user_id = 'ann'")
            for n in 1...3 { desk.submit("ann", "k\(n)", n: Int64(n + 1)) }
        }
        // The second execution of the first one waits.
        let starts =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%sync.apply(%'"
            + " AND wait_event_type = 'Lock'"
        let end = Instant.read().advanced(by: .seconds(60))
        while try admin.query(starts) != [["1"]] { try #require(Instant.read() < end, "nothing waits after 60 s") }
        try other.execute("COMMIT")
        for n in 1...3 { #expect(try desk.take("ann", "k\(n)").status == .applied) }
        #expect(try transactions("ann") == ["k0", "k1", "k2", "k3"])
    }
}
