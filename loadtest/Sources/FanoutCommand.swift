import ArgumentParser
import Histogram
import Reactor

/// `loadtest fanout`: correctness under load, throughput and latency.
struct FanoutCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanout", abstract: "Change rows and check that every device gets every event once and in order.",
        discussion: "Ends with status 1 where an event is lost, repeated, out of order, altered, or another user's.")

    @OptionGroup var options: HubOptions

    @Option(help: "Users, each with channels of its own.")
    var users = 500

    @Option(help: "Devices of each user.")
    var devicesPerUser = 2

    @Option(help: "Rows of each user.")
    var rowsPerUser = 4

    @Option(help: "What is changed: doses (two events a change) or reminders (one).")
    var rows = RowKind.doses

    @Option(help: "Writers, each with a connection to PostgreSQL.")
    var writers = 4

    @Option(help: "Rows changed by one transaction.")
    var rowsPerTransaction = 1

    @Option(help: "Row changes on their way at a time.")
    var inFlight = 64

    @Option(help: "Transactions a second; without it as many as fit in flight.")
    var rate: Double?

    @Option(help: "End after so many transactions.")
    var transactions: Int?

    @Option(help: "End after so many seconds; 10 where no number of transactions is given.")
    var seconds: Double?

    @Option(help: "Seed of keys, masks and names; drawn and printed where not given.")
    var seed: UInt64?

    func run() throws {
        let seed = seed ?? UInt64.random(in: 1...UInt64(UInt32.max))
        let plan = Drive.Plan(
            users: users, devicesPerUser: devicesPerUser, rowsPerUser: rowsPerUser, kind: rows,
            topics: RowKind.allCases.map(\.topic), writers: writers, inFlight: inFlight,
            rowsPerTransaction: rowsPerTransaction)
        var pace = Writers.Pace(transactions: transactions, rate: rate, rowsPerTransaction: rowsPerTransaction)
        if let seconds = seconds ?? (transactions == nil ? 10 : nil) {
            guard seconds > 0, seconds <= 3600 else { throw LoadFailure("--seconds: up to 3600") }
            pace.duration = .milliseconds(Int64(seconds * 1000))
        }
        guard rate.map({ $0 > 0 }) ?? true, transactions.map({ $0 > 0 }) ?? true, rowsPerTransaction > 0 else {
            throw LoadFailure("--rate, --transactions and --rows-per-transaction must be above zero")
        }
        let server = try options.process()
        let drive = try Drive(plan, options, loop: try EventLoop(), seed: seed, progress: ProgressLine())
        defer { drive.cleanUp() }
        try drive.open()
        try options.run(options.onceOpen)
        let outcome = try drive.measure(pace, inFlight: inFlight, server: server)
        let faults = try drive.close()
        try options.run(options.onceDone)
        let figures = FanoutFigures(plan, outcome, faults, drive, seed)
        figures.print()
        try write(figures, to: options.json)
        if let failure = drive.swarm.firstFailure {
            throw LoadFailure("a connection failed: \(failure) (seed \(seed))")
        }
        guard faults.isZero else { throw LoadFailure("events went astray (seed \(seed))") }
    }
}

extension RowKind: ExpressibleByArgument {}

struct FanoutFigures: Codable {
    let seed: UInt64
    let users: Int
    let devices: Int
    let rowChanges: Int
    let deliveries: Int
    let seconds: Double
    let rowChangesPerSecond: Double
    let deliveriesPerSecond: Double
    /// From sending COMMIT to the device's read, in microseconds by percentile.
    let microseconds: [String: Double]
    /// Median from sending COMMIT to the database's answer, in microseconds: the part that is not the hub's.
    let commitMicroseconds: Double
    let bytesPerEvent: Int
    let deliveriesPerServerCPUSecond: Double?
    let serverCPUShare: Double?
    let ownCPUShare: Double
    let faults: Ledger.Faults

    init(_ plan: Drive.Plan, _ outcome: Drive.Outcome, _ faults: Ledger.Faults, _ drive: Drive, _ seed: UInt64) {
        self.seed = seed
        self.faults = faults
        users = plan.users
        devices = plan.devices
        rowChanges = outcome.changes
        deliveries = outcome.deliveries
        seconds = outcome.seconds
        rowChangesPerSecond = Double(outcome.changes) / outcome.seconds
        deliveriesPerSecond = Double(outcome.deliveries) / outcome.seconds
        var microseconds: [String: Double] = [:]
        for percentile in Self.percentiles {
            microseconds["\(percentile)"] = Double(drive.ledger.latencies.valueAtPercentile(percentile)) / 1000
        }
        self.microseconds = microseconds
        commitMicroseconds = Double(drive.writers.commitTimes.valueAtPercentile(50)) / 1000
        bytesPerEvent = drive.script.lastEventBytes
        deliveriesPerServerCPUSecond = outcome.serverCPUSeconds.map { Double(outcome.deliveries) / $0 }
        serverCPUShare = outcome.serverCPUSeconds.map { $0 / outcome.seconds }
        ownCPUShare = outcome.ownCPUSeconds / outcome.seconds
    }

    private static let percentiles = [50.0, 90, 99, 99.9, 100]

    func print() {
        say("\(users) users, \(devices) devices, seed \(seed)")
        say(
            "\(rowChanges) row changes, \(deliveries) deliveries in \(decimal(seconds, 1)) s:"
                + " \(decimal(rowChangesPerSecond)) changes/s, \(decimal(deliveriesPerSecond)) deliveries/s")
        let times = Self.percentiles.map {
            "p\(decimal($0, $0 == 99.9 ? 1 : 0)) \(decimal(microseconds["\($0)"] ?? 0))"
        }
        say(
            "from COMMIT to the device, µs: \(times.joined(separator: ", "));"
                + " to the database's own answer: p50 \(decimal(commitMicroseconds))")
        let server = deliveriesPerServerCPUSecond.map { "\(decimal($0)) deliveries per CPU-second of the hub, " } ?? ""
        let share = serverCPUShare.map { "CPU: hub \(decimal($0 * 100)) %, " } ?? "CPU: "
        say("\(server)\(share)load tester \(decimal(ownCPUShare * 100)) % of one core")
        say(
            "lost \(faults.lost), repeated \(faults.duplicate), out of order \(faults.outOfOrder),"
                + " another user's \(faults.foreign), different \(faults.different), wrong revision \(faults.revision)")
    }
}
