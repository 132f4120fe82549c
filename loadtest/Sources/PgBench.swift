import Foundation
import Histogram
import Postgres

/// PostgreSQL's `pgbench` calling the function that the hub calls for an action: the practical limit of a hub with as many
/// connections.
///
/// Its users, rows and turns match `ActionDrive` with one device per user; its session settings match the hub's.
final class PgBench {
    struct Outcome {
        var transactions = 0
        var seconds = 0.0
        /// Nanoseconds from a transaction's due time to its answer.
        var answers = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
    }

    private let program: String
    private let url: String
    private let population: Population
    private let connection: BlockingConnection
    private let folder: URL
    private var run = 0
    private var processed = 0

    /// Makes rows in the database at `url` for `users` users.
    init(program: String, url: String, users: Int, rowsPerUser: Int, historyDays: Int, seed: UInt64) throws {
        self.program = program
        self.url = url
        population = Population(
            names: Names(run: "b" + String(seed, radix: 36), topics: []), kind: .doses, users: users,
            rowsPerUser: rowsPerUser, historyDays: historyDays)
        connection = try BlockingConnection(url)
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("loadtest-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try population.insert(connection)
    }

    /// Runs `clients` connections for `seconds`, at `rate` transactions per second if given.
    func measure(clients: Int, seconds: Int, rate: Double?, notify: Bool = false) throws -> Outcome {
        run += 1
        // Doses that the last run left taken would be no-ops.
        try connection.execute(
            """
            set sync.notify = 'off';
            update care.dose_occurrence set status = 'scheduled', taken_at = null
            where id in (select '\(population.names.prefix)' || n from generate_series(0, \(population.rows - 1)) as n)
                and status <> 'scheduled'
            """)
        let script = folder.appendingPathComponent("act.sql")
        try Self.script.write(to: script, atomically: true, encoding: .utf8)
        let log = folder.appendingPathComponent("run\(run)")
        var arguments = [
            "-n", "-M", "prepared", "-c", "\(clients)", "-T", "\(seconds)", "-f", script.path, "-l",
            "--log-prefix=\(log.path)", "-D", "prefix=\(population.names.prefix)", "-D", "run=\(run)", "-D", "made=-1",
            "-D", "clients=\(clients)", "-D", "each=\(population.users / clients)",
            "-D", "rows=\(population.rowsPerUser)",
        ]
        if let rate { arguments += ["--rate=\(decimal(rate, 1))"] }
        let report = try call(arguments + [url], notify: notify)
        var outcome = Outcome()
        outcome.transactions = try number("number of transactions actually processed: ", in: report)
        outcome.seconds = Double(seconds)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where name.hasPrefix("run\(run).")
        {
            let text = try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
            for nanoseconds in Self.latencies(log: text) { outcome.answers.record(max(1, nanoseconds)) }
        }
        processed += outcome.transactions
        return outcome
    }

    /// Compares what was stored with what pgbench reports, then removes everything.
    func close() throws {
        let rows = try connection.query(
            "select status, count(*) from sync.action where starts_with(user_id, '\(population.names.prefix)') group by status"
        )
        guard rows == [["applied", "\(processed)"]] else {
            throw LoadFailure("pgbench made \(processed) calls, and stored are \(rows.map { $0.map { $0 ?? "" } })")
        }
    }

    func cleanUp() {
        try? FileManager.default.removeItem(at: folder)
        do {
            try population.remove(connection)
        } catch {
            complain("loadtest: the rows of pgbench could not be removed: \(error)")
        }
    }

    /// Nanoseconds of the transactions in a log of `pgbench -l`: its third column, in microseconds from the due time.
    static func latencies(log: String) -> [UInt64] {
        log.split(separator: "\n").compactMap { line in
            let columns = line.split(separator: " ")
            return columns.count >= 6 ? UInt64(columns[2]).map { $0 * 1000 } : nil
        }
    }

    // MARK: Steps

    private func call(_ arguments: [String], notify: Bool) throws -> String {
        let output = folder.appendingPathComponent("output")
        guard FileManager.default.createFile(atPath: output.path, contents: nil) else {
            throw LoadFailure("\(output.path): cannot be written")
        }
        let handle = try FileHandle(forWritingTo: output)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        var environment = ProcessInfo.processInfo.environment
        environment["PGOPTIONS"] = """
            -c sync.notify=\(notify ? "on" : "off") -c lock_timeout=300ms -c statement_timeout=5s \
            -c idle_in_transaction_session_timeout=10s
            """
        process.environment = environment
        process.standardOutput = handle
        process.standardError = handle
        try process.run()
        process.waitUntilExit()
        let report = try String(contentsOf: output, encoding: .utf8)
        guard process.terminationStatus == 0 else { throw LoadFailure("pgbench: \(report)") }
        return report
    }

    private func number(_ label: String, in report: String) throws(LoadFailure) -> Int {
        for line in report.split(separator: "\n") where line.hasPrefix(label) {
            if let number = Int(line.dropFirst(label.count).prefix { $0.isNumber }) { return number }
        }
        throw LoadFailure("pgbench said nothing of: \(label)")
    }

    /// Each client takes its own users in turn. A user's number is the one that `MannerStep` starts with.
    private static let script = """
        \\set made :made + 1
        \\set n :made / :each + 1
        \\set before :n - 1
        \\set user :client_id + :clients * (:made % :each)
        \\set row :user * :rows + (:n - 1) / 2 % :rows
        \\if :n % 2 = 1
        select status, answer from sync.apply(:prefix::text || :user::text,
            :run::text || '-' || :user::text || '-' || :n::text, :run::text || '-' || :user::text, :n::bigint,
            'markTaken', '{"occurrenceId":"' || :prefix::text || :row::text || '"}', null, null, null);
        \\else
        select status, answer from sync.apply(:prefix::text || :user::text,
            :run::text || '-' || :user::text || '-' || :n::text, :run::text || '-' || :user::text, :n::bigint,
            'undo', '{"targetKey":"' || :run::text || '-' || :user::text || '-' || :before::text || '"}',
            null, null, null);
        \\endif

        """
}
