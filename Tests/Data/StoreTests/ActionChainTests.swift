import Postgres
import Reactor
import Store
import Sync
import TestDatabase
import Testing

/// Actions that are sent together, and the real `sync.apply_all`.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) final class ActionChainTests {
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
            SELECT 'd' || n, 'ann', now() - interval '1 hour', 'UTC', '2025-11-01', '08:00',
                now() - interval '1 hour', now() + interval '3 hours'
            FROM generate_series(1, 40) AS n
            """)
    }

    deinit {
        for desk in desks { desk.stop() }
    }

    private func open(_ change: (inout StoreConfiguration) -> Void = { _ in }) throws -> Desk {
        let desk = try Desk(database) {
            ($0.lockTimeout, $0.statementTimeout, $0.chainTimeout) = (.seconds(60), .seconds(60), .seconds(60))
            change(&$0)
        }
        desks.append(desk)
        return desk
    }

    private func one(_ sql: String) throws -> String? {
        try admin.query(sql).first?.first ?? nil
    }

    private func take(_ dose: Int, n: Int64? = nil) -> ActionEnvelope {
        ActionEnvelope(
            key: "k\(dose)", deviceID: n.map { _ in "phone" }, number: n, type: "markTaken",
            payload: Array("{\"occurrenceId\":\"d\(dose)\"}".utf8))
    }

    @Test func aChainIsCarriedOutInItsOrderAndSharesTransactions() throws {
        let desk = try open()
        let answers = try desk.answers("ann", (1...40).map { take($0, n: Int64($0)) })
        #expect(answers.map(\.status) == Array(repeating: .applied, count: 40))
        #expect(try one("SELECT count(DISTINCT xmin::text) < 40 FROM sync.action WHERE user_id = 'ann'") == "t")
        let again = try desk.answers("ann", (1...40).map { take($0, n: Int64($0)) })
        #expect(again.allSatisfy(\.isReplayed) && again.count == 40)
        #expect(try desk.answers("ann", []).isEmpty && desk.complaints.isEmpty)
    }

    /// The third could follow from the second, although it could be applied.
    @Test func behindOneThatIsToBeSentAgainNoneIsBegun() throws {
        let desk = try open()
        let answers = try desk.answers("ann", [take(1, n: 1), take(2, n: 3), take(3), take(4)])
        #expect(answers.map(\.status) == [.applied, .retry, .retry, .retry])
        #expect(answers[1].retry == .outOfOrder && answers[3].retry == .busy)
        #expect(try one("SELECT string_agg(id, ' ') FROM care.dose_occurrence WHERE status = 'taken'") == "d1")
        #expect(try desk.answers("ann", [take(2, n: 2), take(3), take(4)]).allSatisfy { $0.status == .applied })
    }

    /// Another writer holds the user's account for ever.
    @Test func oneThatCannotGoOnIsToldInTime() throws {
        let desk = try open { $0.chainTimeout = .seconds(1) }
        #expect(try desk.answers("ann", [take(1)]).map(\.status) == [.applied])
        let blocker = try database.admin()
        try blocker.execute("BEGIN; SELECT FROM sync.account WHERE user_id = 'ann' FOR UPDATE")
        let answers = try desk.answers("ann", (2...40).map { take($0) })
        #expect(answers.count == 39 && answers.allSatisfy { $0.status == .retry })
        try blocker.execute("ROLLBACK")
        let all = (2...40).map { take($0) }
        var last: [ActionAnswer] = []
        repeat { last = try desk.answers("ann", all) } while last.contains { $0.status == .retry }
        #expect(last.allSatisfy { $0.status == .applied || $0.isReplayed })
        #expect(try one("SELECT count(*) FROM care.dose_occurrence WHERE status = 'taken'") == "40")
    }

    /// More than a user may have waiting: the rest is told so at once, and not begun.
    @Test func oneThatIsTooLongIsCutShort() throws {
        let desk = try open { $0.waitingPerUserMax = 10 }
        let answers = try desk.answers("ann", (1...40).map { take($0) })
        let applied = answers.prefix { $0.status == .applied }.count
        #expect(answers.count == 40 && answers[applied...].allSatisfy { $0.status == .retry } && applied < 40)
        #expect(try one("SELECT count(*) FROM care.dose_occurrence WHERE status = 'taken'") == "\(applied)")
    }
}
