import ArgumentParser
import Reactor

/// `loadtest notify`: the cost and benefit of waking the hub in the transaction, in batches, or not at all.
struct NotifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notify", abstract: "NOTIFY in the transaction, batched, or none: actions per second and latency.",
        discussion: """
            Actions per second: pgbench calls sync.apply as fast as it can, on the hub's database. Latency: writers \
            call it at a fixed rate, from sending COMMIT to the devices' sockets. `batched` is one session that \
            notifies every few milliseconds; with `poll only` nothing wakes the hub but its own clock.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "The program pgbench.")
    var pgbench = "pgbench"

    @Option(parsing: .upToNextOption, help: "Connections that act, one part of the table for each.")
    var connections = [1, 4, 16]

    @Option(help: "Milliseconds between the batched notifications.")
    var interval = 5

    @Option(help: "Actions a second where latency is measured.")
    var rate = 200.0

    @Option(help: "Users.")
    var users = 200

    @Option(help: "Rounds.")
    var rounds = 3

    @Option(help: "Seconds of each measurement.")
    var seconds = 3

    func run() throws {
        guard !connections.isEmpty, connections.allSatisfy({ (1...Limits.writersMax).contains($0) && $0 <= users }),
            rate > 0, rounds > 0, (1...600).contains(seconds), (1...1000).contains(interval)
        else {
            throw LoadFailure(
                "--connections: from 1 to \(Limits.writersMax), no more than users; --rate and --rounds above zero,"
                    + " --seconds up to 600, --interval up to 1000")
        }
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let bench = try PgBench(
            program: pgbench, url: try options.databaseURL(), users: users, rowsPerUser: 4, historyDays: 30, seed: seed)
        defer { bench.cleanUp() }
        _ = try bench.measure(clients: 1, seconds: 1, rate: nil)
        var figures = NotifyFigures(seed: seed, actionsPerSecondPaced: rate)
        for connections in connections {
            var rows = NotifyMode.allCases.map { NotifyFigures.Row(connections: connections, mode: $0) }
            for round in 0..<rounds {
                for index in rows.indices {
                    try measure(&rows[index], bench, seed: seed &+ UInt64(round))
                }
            }
            figures.rows += rows
        }
        try bench.close()
        figures.print()
        try write(figures, to: options.json)
    }

    private func measure(_ row: inout NotifyFigures.Row, _ bench: PgBench, seed: UInt64) throws {
        let url = try options.databaseURL()
        let announcer = row.mode == .batched ? LoadAnnouncer(url, interval: .milliseconds(Int64(interval))) : nil
        let outcome = try bench.measure(
            clients: row.connections, seconds: seconds, rate: nil, notify: row.mode == .inTransaction)
        row.perSecond.append(Double(outcome.transactions) / outcome.seconds)
        let plan = Drive.Plan(
            users: users, devicesPerUser: 2, rowsPerUser: 4, kind: .doses, topics: [RowKind.doses.topic],
            writers: row.connections, inFlight: Self.inFlight, rowsPerTransaction: 1, manner: .action,
            session: "set sync.notify = '\(row.mode == .inTransaction ? "on" : "off")'")
        let drive = try Drive(plan, options, loop: try EventLoop(), seed: seed, progress: ProgressLine())
        defer { drive.cleanUp() }
        try drive.open()
        _ = try drive.measure(
            Writers.Pace(duration: .seconds(seconds), rate: rate), inFlight: plan.inFlight, server: nil)
        row.latencies.add(drive.ledger.latencies)
        try announcer?.stop()
        let faults = try drive.close()
        guard faults.isZero, drive.swarm.failureCount == 0 else {
            throw LoadFailure("events went astray: \(faults) (seed \(seed))")
        }
    }

    /// More than the usual rates commit between two polls.
    private static let inFlight = 2048
}

enum NotifyMode: String, Codable, CaseIterable {
    case inTransaction = "in the transaction"
    case batched = "batched"
    case none = "poll only"
}

struct NotifyFigures: Codable {
    /// One number of connections with one mode.
    struct Row: Codable {
        let connections: Int
        let mode: NotifyMode
        var perSecond: [Double] = []
        var latencies = Latencies()

        init(connections: Int, mode: NotifyMode) {
            self.connections = connections
            self.mode = mode
        }
    }

    let seed: UInt64
    let actionsPerSecondPaced: Double
    var rows: [Row] = []

    func print() {
        say("Median (least–most) of \(rows.first?.perSecond.count ?? 0) rounds, seed \(seed)")
        say("| connections | NOTIFY | actions/s | p50, ms, at \(decimal(actionsPerSecondPaced))/s | p99, ms |")
        say("|---|---|---|---|---|")
        for row in rows {
            say(
                "| \(row.connections) | \(row.mode.rawValue) | \(Spread(row.perSecond).text()) | \(row.latencies.cells) |"
            )
        }
    }
}
