import ArgumentParser
import Reactor

/// `loadtest cpu`: deliveries per CPU-second of the hub and of bare senders, in alternating rounds of one run.
struct CPUCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cpu", abstract: "Deliveries per CPU-second on one channel of many devices.",
        discussion: """
            One user with many devices; each row change is one event (reminders). A sender is loadtest/Limit's, \
            started with the hub's frame size: it sends one prebuilt frame to each receiver, at the pace of the hub's \
            round before. With several events in flight, half of them are one commit, and one burst of the sender's.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "Devices of the one user.")
    var devices = 1000

    @Option(help: "Events in each round.")
    var events = 200

    @Option(help: "Rounds.")
    var rounds = 7

    @Option(parsing: .upToNextOption, help: "Events on their way at a time, one series for each.")
    var inFlight = [1, 16]

    @Option(help: "A bare sender to compare with, as NAME=PORT:PID; may be given again.")
    var sender: [String] = []

    @Flag(help: "Only print the size of the event's frame, header included, which the senders need.")
    var frameSize = false

    func run() throws {
        guard devices > 0, events > 0, rounds > 0, !inFlight.isEmpty, inFlight.allSatisfy({ $0 > 0 }) else {
            throw LoadFailure("--devices, --events, --rounds and --in-flight must be above zero")
        }
        let loop = try EventLoop()
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let progress = ProgressLine()
        let plan = Drive.Plan(
            users: 1, devicesPerUser: frameSize ? 1 : devices, rowsPerUser: Self.rows, kind: .reminders,
            topics: [RowKind.reminders.topic], writers: 1, inFlight: inFlight.max() ?? 1, rowsPerTransaction: 1)
        let server = try options.process()
        let drive = try Drive(plan, options, loop: loop, seed: seed, progress: progress)
        defer { drive.cleanUp() }
        try drive.open()
        // Also warms the hub up.
        _ = try drive.measure(Writers.Pace(transactions: 100), inFlight: 1, server: nil)
        let payload = drive.script.lastEventBytes
        let frameBytes = payload + (payload < 126 ? 2 : payload < 65_536 ? 4 : 10)
        if frameSize { return say("\(frameBytes)") }
        let senders = try sender.map { try BareSender($0, loop: loop, seed: seed) }
        for sender in senders { try sender.open(devices, progress: progress) }

        var figures = CPUFigures(devices: devices, eventsPerRound: events, frameBytes: frameBytes)
        for inFlight in inFlight {
            var series = ["hub": Series()]
            for _ in 0..<rounds {
                let pace = pace(inFlight: inFlight)
                let outcome = try drive.measure(pace, inFlight: inFlight, server: server)
                series["hub", default: Series()].add(outcome)
                for sender in senders {
                    series[sender.name, default: Series()].add(
                        try sender.measure(
                            frames: outcome.changes, burst: pace.rowsPerTransaction, seconds: outcome.seconds))
                }
            }
            figures.series["\(inFlight)"] = series
        }
        figures.print(order: ["hub"] + senders.map(\.name), inFlight: inFlight)
        try write(figures, to: options.json)
        let faults = try drive.close()
        guard faults.isZero, drive.swarm.failureCount == 0 else {
            throw LoadFailure("events went astray (seed \(seed))")
        }
    }
}

extension CPUCommand {
    /// One commit uses half of the window, so that the slower database still fills it.
    private func pace(inFlight: Int) -> Writers.Pace {
        let rows = min(max(1, inFlight / 2), Self.rows)
        return Writers.Pace(transactions: max(1, events / rows), rowsPerTransaction: rows)
    }

    private static let rows = 64
}

struct Series: Codable {
    var deliveriesPerCPUSecond: [Double] = []
    var deliveriesPerSecond: [Double] = []
    /// CPU time per elapsed time of the server and of the load tester, in cores. The server should be the busier.
    var serverShare: [Double] = []
    var ownShare: [Double] = []

    mutating func add(_ outcome: Drive.Outcome) {
        deliveriesPerSecond.append(Double(outcome.deliveries) / outcome.seconds)
        ownShare.append(outcome.ownCPUSeconds / outcome.seconds)
        guard let cpu = outcome.serverCPUSeconds, cpu > 0 else { return }
        deliveriesPerCPUSecond.append(Double(outcome.deliveries) / cpu)
        serverShare.append(cpu / outcome.seconds)
    }
}

struct CPUFigures: Codable {
    let devices: Int
    let eventsPerRound: Int
    let frameBytes: Int
    /// By events in flight, then by server.
    var series: [String: [String: Series]] = [:]

    func print(order: [String], inFlight: [Int]) {
        say(
            "1 channel × \(devices) devices, \(eventsPerRound) events a round, \(frameBytes) bytes a frame;"
                + " thousands, median (least–most)")
        say("| in flight | server | deliveries per CPU-second | deliveries/s | server CPU | client CPU | rounds |")
        say("|---|---|---|---|---|---|---|")
        for inFlight in inFlight {
            for name in order {
                guard let series = series["\(inFlight)"]?[name] else { continue }
                let perCPU = Spread(series.deliveriesPerCPUSecond)
                say(
                    "| \(inFlight) | \(name) | \(perCPU.rounds > 0 ? perCPU.text(unit: 1000) : "unknown (--pid)")"
                        + " | \(Spread(series.deliveriesPerSecond).text(unit: 1000))"
                        + " | \(decimal(Spread(series.serverShare).median, 2))"
                        + " | \(decimal(Spread(series.ownShare).median, 2)) | \(series.ownShare.count) |")
            }
        }
        for inFlight in inFlight {
            for name in order.dropFirst() {
                guard let ratio = ratio(to: name, inFlight) else { continue }
                say("\(inFlight) in flight, hub to \(name), round by round: \(ratio.text(digits: 2))")
            }
        }
    }

    /// Deliveries per CPU-second of the hub relative to a sender in the same round; nil without `--pid`.
    private func ratio(to sender: String, _ inFlight: Int) -> Spread? {
        guard let hub = series["\(inFlight)"]?["hub"]?.deliveriesPerCPUSecond,
            let other = series["\(inFlight)"]?[sender]?.deliveriesPerCPUSecond, hub.count == other.count, !hub.isEmpty
        else { return nil }
        return Spread(zip(hub, other).map { $0 / $1 })
    }
}
