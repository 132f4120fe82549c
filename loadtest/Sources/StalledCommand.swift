import ArgumentParser
import Reactor

/// `loadtest stalled`: the cost of a device that does not read, for the devices that do.
struct StalledCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stalled",
        abstract: "Deliver to many devices of one user, with and without one that does not read.",
        discussion: """
            In alternating rounds. The stalled reader has to fall back before the clock starts, and after the round it \
            reads everything: it must not have been closed, and must miss nothing.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "Devices that read.")
    var devices = 100

    @Option(help: "Events a second.")
    var rate = 1000.0

    @Option(help: "Rows changed by one transaction: one user's commits come one after the other.")
    var rowsPerTransaction = 8

    @Option(help: "Rounds of each kind.")
    var rounds = 5

    @Option(help: "Seconds of a measurement.")
    var seconds = 5

    @Option(help: "Seconds before it, in which the stalled reader falls back.")
    var before = 8

    func run() throws {
        guard rate > 0, rounds > 0, rowsPerTransaction > 0, (1...600).contains(seconds), (1...600).contains(before)
        else {
            throw LoadFailure(
                "--rate, --rounds and --rows-per-transaction above zero, --seconds and --before up to 600")
        }
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let plan = Drive.Plan(
            users: 1, devicesPerUser: devices, rowsPerUser: Self.rows, kind: .reminders,
            topics: [RowKind.reminders.topic], writers: Self.writers, inFlight: Self.inFlight,
            rowsPerTransaction: rowsPerTransaction)
        let server = try options.process()
        let drive = try Drive(plan, options, loop: try EventLoop(), seed: seed, progress: ProgressLine())
        defer { drive.cleanUp() }
        try drive.open()
        var figures = StalledFigures(seed: seed, devices: devices, eventsPerSecond: rate)
        figures.noteMemory(server)
        for round in 0..<(2 * rounds) {
            // Order A B B A: neither side is always first.
            if [1, 2].contains(round % 4) {
                let reader = try StalledReader(beside: drive, options, seed: seed &+ UInt64(round))
                reader.stall()
                figures.stalled.add(try measure(drive, server), drive)
                figures.noteMemory(server)
                try reader.catchUp(with: drive.population.positions(drive.connection))
            } else {
                figures.healthy.add(try measure(drive, server), drive)
                figures.noteMemory(server)
            }
        }
        let faults = try drive.close()
        figures.print()
        try write(figures, to: options.json)
        guard faults.isZero, drive.swarm.failureCount == 0 else {
            throw LoadFailure("events went astray: \(faults) (seed \(seed))")
        }
    }

    private func measure(_ drive: Drive, _ server: ProcessMeter?) throws -> Drive.Outcome {
        func pace(_ seconds: Int) -> Writers.Pace {
            Writers.Pace(
                duration: .seconds(seconds), rate: rate / Double(rowsPerTransaction),
                rowsPerTransaction: rowsPerTransaction)
        }
        _ = try drive.measure(pace(before), inFlight: Self.inFlight, server: nil)
        return try drive.measure(pace(seconds), inFlight: Self.inFlight, server: server)
    }

    /// Each writer has as many rows as a transaction may need.
    private static let rows = 256
    private static let writers = 4
    private static let inFlight = 2048
}

struct StalledFigures: Codable {
    struct Side: Codable {
        private(set) var latencies = Latencies()
        private(set) var perSecond: [Double] = []
        private(set) var serverShare: [Double] = []

        mutating func add(_ outcome: Drive.Outcome, _ drive: Drive) {
            latencies.add(drive.ledger.latencies)
            perSecond.append(Double(outcome.changes) / outcome.seconds)
            if let seconds = outcome.serverCPUSeconds { serverShare.append(seconds / outcome.seconds) }
        }

        var cells: String {
            "\(decimal(Spread(perSecond).median)) | \(latencies.cells) | \(Spread(serverShare).text(digits: 2))"
        }
    }

    let seed: UInt64
    let devices: Int
    let eventsPerSecond: Double
    var healthy = Side()
    var stalled = Side()
    /// The hub's, before and after each round, in bytes.
    private(set) var residentBytes: [Int] = []

    mutating func noteMemory(_ server: ProcessMeter?) {
        if let bytes = server?.residentBytes() { residentBytes.append(bytes) }
    }

    func print() {
        say(
            "\(devices) devices of one user, \(decimal(eventsPerSecond)) events/s to each; \(healthy.perSecond.count) rounds"
                + " each, median (least–most), ms from COMMIT; seed \(seed)")
        say("| | events/s | p50 | p99 | CPU of the hub, cores |")
        say("|---|---|---|---|---|")
        say("| all read | \(healthy.cells) |")
        say("| one more does not | \(stalled.cells) |")
        let ratios = zip(stalled.latencies.p99, healthy.latencies.p99).map { $0 / $1 }
        say("p99 with it to p99 without, round by round: \(Spread(ratios).text(digits: 2))")
        if !residentBytes.isEmpty {
            say(
                "the hub's memory, MiB: \(residentBytes.map { decimal(Double($0) / 1_048_576, 1) }.joined(separator: ", "))"
            )
        }
    }
}
