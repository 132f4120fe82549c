import Clock
import Jobs
import Logging
import Metrics
import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

/// The jobs of two hubs and the real `sync.job`.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) final class RealJobTests {
    private let database: Database
    private let admin: BlockingConnection
    private let lines = KeptLines()
    private var running: [Jobs] = []

    init() throws {
        database = try Cluster.shared.get().database()
        admin = try database.admin()
    }

    deinit {
        for jobs in running { jobs.stop() }
    }

    private func start(
        _ metrics: JobsMetrics = JobsMetrics(), _ change: (inout JobsConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = JobsConfiguration(connectionString: database.hub)
        configuration.missInterval = .milliseconds(50)
        change(&configuration)
        let lines = lines
        running.append(try Jobs.start(configuration, logger: Logger(label: "test") { _ in lines }, metrics: metrics))
    }

    /// Of this test's database: other suites' hubs are on the server too.
    private static let isOfHub = "usename = 'carillon_hub' AND datname = current_database()"

    private func one(_ sql: String) throws -> String? {
        try admin.query(sql).first?.first ?? nil
    }

    private func wait(until sql: String) throws {
        let end = Instant.read().advanced(by: .seconds(60))
        while try one(sql) != "t" {
            try #require(Instant.read() < end, "not in 60 s: \(sql)")
        }
    }

    private func addDoses(_ count: Int, ended: String) throws {
        try admin.execute(
            """
            INSERT INTO care.dose_occurrence (user_id, scheduled_at, window_end)
            SELECT 'u' || n % 40, now() - interval '6 hours', now() - interval '\(ended)'
            FROM generate_series(1, \(count)) AS n
            """)
    }

    private func text(_ metrics: JobsMetrics) -> String {
        var exposition = Exposition()
        metrics.append(to: &exposition)
        return String(decoding: exposition.bytes, as: UTF8.self)
    }

    @Test func twoHubsMissEachDoseOnce() throws {
        try addDoses(2_000, ended: "31 minutes")
        try addDoses(10, ended: "29 minutes")
        let metrics = JobsMetrics()
        try start(metrics)
        try start(metrics)
        try wait(until: "SELECT count(*) = 10 FROM care.dose_occurrence WHERE status = 'scheduled'")
        #expect(try one("SELECT count(*) FROM care.dose_occurrence WHERE status = 'missed' AND rev = 2") == "2000")
        let events = "SELECT count(*) FROM sync.event WHERE name = 'occurrence.updated'"
        #expect(try one(events) == "2000")
        #expect(try one("SELECT count(*) FROM care.dose_audit WHERE actor = 'system'") == "2000")
        // An undo or a backend opens one again.
        try admin.execute(
            "UPDATE care.dose_occurrence SET status = 'scheduled' WHERE id = (SELECT min(id) FROM care.dose_occurrence WHERE status = 'missed')"
        )
        try wait(until: "SELECT count(*) = 10 FROM care.dose_occurrence WHERE status = 'scheduled'")
        // The hub counts after the commit.
        #expect(eventually { self.text(metrics).contains("carillon_job_changes_total{type=\"miss_doses\"} 2001") })
        #expect(eventually { self.text(metrics).contains("carillon_job_lag_seconds{type=\"miss_doses\"} 0\n") })
        #expect(lines.all.filter { $0.contains("failed") } == [])
    }

    /// Batch by batch, until none is left.
    @Test func oldEventsGo() throws {
        let young = try #require(try one("SELECT count(*) FROM sync.event"))
        try admin.execute(
            """
            INSERT INTO sync.event (user_id, topic, o, xid, name, data, created_at)
            SELECT 'old', 'weight', n, '1', 'weight.created', '{}', now() - interval '8 days'
            FROM generate_series(1, 250) AS n
            """)
        try start { $0.retainDelay = .zero }
        try wait(until: "SELECT count(*) = 0 FROM sync.event WHERE user_id = 'old'")
        #expect(try one("SELECT count(*) FROM sync.event") == young)
    }

    @Test func aLostConnectionIsMadeAgain() throws {
        try start()
        try wait(until: "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%sync.job(%' AND \(Self.isOfHub)")
        let cut = "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE \(Self.isOfHub)"
        try wait(until: cut)
        try addDoses(5, ended: "1 hour")
        try wait(until: "SELECT count(*) = 5 FROM care.dose_occurrence WHERE status = 'missed'")
    }

    @Test func aJobThatFailsIsToldOnceAndDoesNotStopOthers() throws {
        try admin.execute(
            """
            INSERT INTO sync.event (user_id, topic, o, xid, name, data, created_at)
            VALUES ('old', 'weight', 1, '1', 'weight.created', '{}', now() - interval '8 days');
            DROP FUNCTION care.job_miss_doses(int, timestamptz)
            """)
        try start { $0.retainDelay = .zero }
        try wait(until: "SELECT count(*) = 0 FROM sync.event WHERE user_id = 'old'")
        #expect(eventually { self.lines.all.contains { $0.contains("miss_doses failed") && $0.contains("42883") } })
    }

    @Test func aDatabaseThatIsNotMigratedIsToldInOneLine() throws {
        try admin.execute("DROP FUNCTION sync.job(text, int, timestamptz)")
        let metrics = JobsMetrics()
        try start(metrics) { $0.retainDelay = .zero }
        let failed = Job.allCases.map { "carillon_job_batches_total{type=\"\($0.name)\",result=\"failed\"} 0\n" }
        #expect(eventually { !failed.contains { self.text(metrics).contains($0) } })
        let told = lines.all.filter { $0.contains("42883") }
        let line = "none runs: a function is missing: run carillon migrate"
        #expect(told.count == 1 && told.allSatisfy { $0.contains(line) })
    }
}
