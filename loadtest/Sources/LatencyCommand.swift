import ArgumentParser
import Postgres
import Reactor

/// `loadtest latency`: time from the commit to the devices, compared with a client that listens to PostgreSQL itself.
struct LatencyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency", abstract: "From the commit to the devices' sockets, beside a bare LISTEN client.",
        discussion: """
            Writers change doses at a fixed rate: each commit makes two events, the dose's and the day's summary. \
            Measured from sending COMMIT to the read that brings the dose's event, all in one process. The bare client \
            gets a NOTIFY of each transaction and reads the row; its database should be another one of the same \
            cluster, with no hub.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "Connection string of the bare client's database; without it only the hub is measured.")
    var bareDatabase: String?

    @Option(parsing: .upToNextOption, help: "Events a second, one row of the table for each.")
    var rates = [100.0, 1000, 2000]

    @Option(help: "Users.")
    var users = 200

    @Option(help: "Devices of each user.")
    var devicesPerUser = 2

    @Option(help: "Doses of each user.")
    var rowsPerUser = 4

    @Option(help: "Writers, each with a connection to PostgreSQL.")
    var writers = 4

    @Option(help: "Rounds.")
    var rounds = 3

    @Option(help: "Seconds of each measurement.")
    var seconds = 5

    func run() throws {
        guard !rates.isEmpty, rates.allSatisfy({ $0 > 0 }), rounds > 0, (1...600).contains(seconds) else {
            throw LoadFailure("--rates and --rounds above zero, --seconds up to 600")
        }
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let progress = ProgressLine()
        var plan = Drive.Plan(
            users: users, devicesPerUser: devicesPerUser, rowsPerUser: rowsPerUser, kind: .doses,
            topics: [RowKind.doses.topic], writers: writers, inFlight: Self.inFlight, rowsPerTransaction: 1)
        let server = try options.process()
        let drive = try Drive(plan, options, loop: try EventLoop(), seed: seed, progress: progress)
        defer { drive.cleanUp() }
        try drive.open()
        plan.manner = .notifyingUpdate
        let bare = try bareDatabase.map { try BareDrive(plan, url: $0, seed: seed) }
        defer { bare?.cleanUp() }

        var figures = LatencyFigures(seed: seed, devices: plan.devices, rounds: rounds)
        for rate in rates {
            var row = LatencyFigures.Row(eventsPerSecond: rate)
            let pace = Writers.Pace(duration: .seconds(seconds), rate: rate / Self.eventsPerChange)
            for round in 0..<rounds {
                if round % 2 == 0 { try row.addHub(drive, pace, server) }
                if let bare { try row.addBare(bare, pace) }
                if round % 2 == 1 { try row.addHub(drive, pace, server) }
            }
            figures.rows.append(row)
        }
        let faults = try drive.close()
        figures.print()
        try write(figures, to: options.json)
        guard faults.isZero, drive.swarm.failureCount == 0 else {
            throw LoadFailure("events went astray: \(faults) (seed \(seed))")
        }
    }

    /// More than the usual rates produce in a second.
    private static let inFlight = 1024
    /// The dose and the day's summary.
    private static let eventsPerChange = 2.0
}

struct LatencyFigures: Codable {
    struct Row: Codable {
        let eventsPerSecond: Double
        /// Achieved events per second of both.
        private(set) var hubPerSecond: [Double] = []
        private(set) var barePerSecond: [Double] = []
        private(set) var hub = Latencies()
        private(set) var bare = Latencies()
        /// To the database's answer to COMMIT.
        private(set) var commits = Latencies()

        init(eventsPerSecond: Double) {
            self.eventsPerSecond = eventsPerSecond
        }

        mutating func addHub(_ drive: Drive, _ pace: Writers.Pace, _ server: ProcessMeter?) throws {
            let outcome = try drive.measure(pace, inFlight: drive.plan.inFlight, server: server)
            hubPerSecond.append(Double(outcome.changes) * 2 / outcome.seconds)
            hub.add(drive.ledger.latencies)
            commits.add(drive.writers.commitTimes)
        }

        mutating func addBare(_ bare: BareDrive, _ pace: Writers.Pace) throws {
            barePerSecond.append(try bare.measure(pace) * 2)
            self.bare.add(bare.listener.latencies)
        }
    }

    let seed: UInt64
    let devices: Int
    let rounds: Int
    var rows: [Row] = []

    func print() {
        say("\(devices) devices, two of each user; \(rounds) rounds, median (least–most), ms; seed \(seed)")
        say(
            "| events/s | came about | hub p50 | hub p99 | bare p50 | bare p99"
                + " | PostgreSQL's own answer p50 | p99 |")
        say("|---|---|---|---|---|---|---|---|")
        for row in rows {
            let bare = row.barePerSecond.isEmpty ? "– | –" : row.bare.cells
            say(
                "| \(decimal(row.eventsPerSecond)) | \(decimal(Spread(row.hubPerSecond).median)) | \(row.hub.cells)"
                    + " | \(bare) | \(row.commits.medians) |")
        }
    }
}
