import ArgumentParser
import Histogram
import Postgres
import Reactor

/// `loadtest actions`: actions through the hub, compared with pgbench calling the same function, in alternating rounds.
struct ActionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "actions", abstract: "Actions per second through the hub, and their latency, beside pgbench.",
        discussion: """
            Devices take doses and undo it in turn, over their WebSockets, each subscribed to its user's channel. \
            pgbench calls sync.apply with prepared statements, as the hub does, on as many connections as the hub was \
            started with (--store-connections). It should have a database of its own in the same cluster, or the hub \
            spends time on pgbench's events. Then both at half the hub's rate, at random times, each action's time \
            counted from when it was due.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "Users.")
    var users = 200

    @Option(help: "Devices of each user.")
    var devicesPerUser = 2

    @Option(help: "Doses of each user on this day.")
    var rowsPerUser = 4

    @Option(help: "Days before this one on which each user took as many.")
    var historyDays = 30

    @Option(help: "Actions without an answer at a time.")
    var inFlight = 64

    @Option(help: "Connections to PostgreSQL that the hub has for actions, and pgbench's.")
    var connections = 4

    @Option(help: "The program pgbench; without it only the hub is measured.")
    var pgbench: String?

    @Option(help: "Connection string of the database for pgbench; else the hub's.")
    var pgbenchDatabase: String?

    @Option(help: "Rounds.")
    var rounds = 5

    @Option(help: "Seconds of each measurement.")
    var seconds = 5

    @Option(help: "Actions a second of the second part; half of what the first part gave, where not given.")
    var rate: Double?

    func run() throws {
        try check()
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let progress = ProgressLine()
        let plan = Drive.Plan(
            users: users, devicesPerUser: devicesPerUser, rowsPerUser: rowsPerUser, kind: .doses,
            topics: [RowKind.doses.topic], writers: 1, inFlight: Limits.inFlightMax, rowsPerTransaction: 1,
            historyDays: historyDays)
        let server = try options.process()
        let drive = try Drive(plan, options, loop: try EventLoop(), seed: seed, progress: progress)
        defer { drive.cleanUp() }
        let bench = try pgbench.map {
            try PgBench(
                program: $0, url: try pgbenchDatabase ?? options.databaseURL(), users: users, rowsPerUser: rowsPerUser,
                historyDays: historyDays, seed: seed)
        }
        defer { bench?.cleanUp() }
        try drive.open()
        let actions = ActionDrive(drive)
        let comparing = Comparing(
            actions: actions, bench: bench, connections: connections, server: server, progress: progress)
        // Warms up plans, caches and files.
        _ = try comparing.rounds(1, seconds: 1, inFlight: inFlight, rate: nil)

        var figures = ActionFigures(
            seed: seed, users: users, devices: plan.devices, connections: connections, inFlight: inFlight)
        figures.saturated = try comparing.rounds(rounds, seconds: seconds, inFlight: inFlight, rate: nil)
        let half = rate ?? Spread(figures.saturated.hub.perSecond).median / 2
        figures.rate = half
        figures.paced = try comparing.rounds(rounds, seconds: seconds, inFlight: inFlight, rate: half)
        figures.print()
        try write(figures, to: options.json)
        try bench?.close()
        let faults = try actions.close()
        guard faults.isZero else { throw LoadFailure("events went astray: \(faults) (seed \(seed))") }
    }

    private func check() throws(LoadFailure) {
        guard (1...Limits.writersMax).contains(connections), users >= connections else {
            throw LoadFailure("--connections: from 1 to \(Limits.writersMax), and no more than users")
        }
        guard (1...Limits.inFlightMax).contains(inFlight), inFlight <= users * devicesPerUser else {
            throw LoadFailure("--in-flight: from 1 to \(Limits.inFlightMax), and no more than devices")
        }
        guard rowsPerUser >= devicesPerUser else { throw LoadFailure("--rows-per-user: no fewer than devices") }
        guard rounds > 0, (1...600).contains(seconds), (0...366).contains(historyDays), rate.map({ $0 > 0 }) ?? true
        else { throw LoadFailure("--rounds and --rate above zero, --seconds up to 600, --history-days up to 366") }
    }
}

/// The two sides, measured in rounds of alternating order.
private struct Comparing {
    let actions: ActionDrive
    let bench: PgBench?
    let connections: Int
    let server: ProcessMeter?
    let progress: ProgressLine

    func rounds(_ count: Int, seconds: Int, inFlight: Int, rate: Double?) throws -> ActionFigures.Comparison {
        var comparison = ActionFigures.Comparison()
        for round in 0..<count {
            // The first side of a round also pays for what the other left to be written.
            if round % 2 == 0 { try hub(&comparison, seconds, inFlight, rate) }
            if let bench {
                let outcome = try bench.measure(clients: connections, seconds: seconds, rate: rate)
                comparison.pgbench.add(count: outcome.transactions, seconds: outcome.seconds, answers: outcome.answers)
            }
            if round % 2 == 1 { try hub(&comparison, seconds, inFlight, rate) }
        }
        return comparison
    }

    private func hub(
        _ comparison: inout ActionFigures.Comparison, _ seconds: Int, _ inFlight: Int, _ rate: Double?
    ) throws {
        let pace = ActionDrive.Pace(seconds: Double(seconds), inFlight: inFlight, rate: rate)
        let outcome = try actions.measure(pace, server: server, progress: progress)
        comparison.hub.add(count: outcome.answered, seconds: outcome.seconds, answers: outcome.answers)
        comparison.deliveries.add(outcome.deliveries)
        comparison.ownShare.append(outcome.ownCPUSeconds / outcome.seconds)
        if let cpu = outcome.serverCPUSeconds { comparison.hubShare.append(cpu / outcome.seconds) }
    }
}
