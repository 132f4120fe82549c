import ArgumentParser
import Clock
import Postgres
import Reactor

/// `loadtest storm`: how long it takes until all are current again after all connections were dropped at once.
struct StormCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storm",
        abstract: "Drop all clients at once: time until all are current again, and what it costs.",
        discussion: """
            Clients keep pusher-js's rules: all are back after exactly a second, and one that is refused waits until its \
            attempt's 15 seconds are over. Each is its own user on two channels. When it is back, it subscribes, names its \
            positions and signs in; it is current when it has what it missed. The yardstick, in the same run: clients that \
            are there once they are greeted. First the crowd comes to a hub that knows none of its channels, as after a \
            restart. In the last round each has missed events. Meanwhile an untouched client's events are timed.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "Clients in the clear.")
    var clients = 15_000

    @Option(help: "Clients by TLS, in a storm of their own.")
    var tlsClients = 5_000

    @Option(help: "Rounds of each kind.")
    var rounds = 3

    @Option(help: "Events of the untouched client, a second.")
    var rate = 50.0

    func run() throws {
        guard clients >= 0, tlsClients >= 0, max(clients, tlsClients) > 0,
            max(clients, tlsClients) <= Limits.connectionsMax, rounds > 0, rate > 0
        else {
            throw LoadFailure(
                "--clients and --tls-clients: up to \(Limits.connectionsMax), one above zero; --rounds and --rate too")
        }
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let progress = ProgressLine()
        let meter = try options.process()
        let drive = try Drive(Witness.plan, options, loop: try EventLoop(), seed: seed, progress: progress)
        defer { drive.cleanUp() }
        let witness = try Witness(drive, rate: rate)
        var figures = StormFigures(seed: seed)
        figures.memoryBefore = meter?.residentBytes()
        let result = Result { () throws -> Void in
            // Quiet, for comparison.
            progress.show("the untouched client, undisturbed")
            sleep(until: Instant.read().advanced(by: .seconds(2)))
            figures.quiet.add(witness.take())
            if clients > 0 {
                figures.clear = try storm(clients, options.address(), witness, seed &+ 1, progress)
            }
            if tlsClients > 0 {
                figures.tls = try storm(tlsClients, options.secureAddress(), witness, seed &+ 2, progress)
            }
        }
        try witness.end()
        try result.get()
        figures.memoryPeak = meter?.peakBytes()
        figures.print()
        try write(figures, to: options.json)
        if let fault = figures.fault { throw LoadFailure("\(fault) (seed \(seed))") }
    }

    // MARK: One storm

    private func storm(
        _ count: Int, _ address: LoadAddress, _ witness: Witness, _ seed: UInt64, _ progress: ProgressLine
    ) throws -> StormSide {
        let names = Names(run: String(seed, radix: 36), topics: RowKind.allCases.map(\.topic))
        let populations = RowKind.allCases.map { Population(names: names, kind: $0, users: count, rowsPerUser: 1) }
        let connection = try BlockingConnection(try options.databaseURL())
        defer { for population in populations { try? population.remove(connection) } }
        for population in populations {
            progress.show("\(count) users get their rows")
            try population.insert(connection)
        }
        let loop = try EventLoop()
        let operations = try options.operationsAddress()
        let meter = try options.process()
        var side = StormSide(clients: count, channels: names.topics.count)

        func crowd(epoch: String?, _ offsets: [[Int64]]) throws -> (Crowd, ReturningScript) {
            let script = ReturningScript(options.credentials, names, clients: count, epoch: epoch)
            let swarm = try Swarm(
                address, target: "/app/\(options.appKey)?protocol=7&client=loadtest", loop: loop, script: script,
                seed: seed)
            return (Crowd(swarm, script, offsets: offsets), script)
        }
        /// Drops the crowd and has it come back after exactly a second, or come at once where it was not there.
        func round(_ crowd: Crowd, isFirst: Bool = false, missing: (() throws -> Void)? = nil) throws -> StormRound {
            var round = StormRound()
            Self.settle()
            let overflows = ProcessMeter.overflows()
            let before = try HubCounters(of: operations)
            _ = witness.take()
            let (cpu, ownCPU) = (meter?.cpuSeconds(), ProcessMeter.ownCPUSeconds())
            let due = (isFirst ? Instant.read() : crowd.dropAll()).advanced(by: .seconds(1))
            try missing?()
            let now = Instant.read()
            round.seconds = try crowd.comeBack(at: now > due ? now : due, progress: progress)
            round.hubCPU = cpu.flatMap { before in meter?.cpuSeconds().map { $0 - before } }
            round.ownCPU = ProcessMeter.ownCPUSeconds() - ownCPU
            round.witness.add(witness.take())
            round.queries = try HubCounters(of: operations).queries - before.queries
            round.overflows = ProcessMeter.overflows() - overflows
            round.trouble = crowd.trouble
            return round
        }

        let nothing = [[Int64]](repeating: [0, 0], count: count)
        let (bare, _) = try crowd(epoch: nil, nothing)
        // The first ones cost more, since the hub's tables grow.
        _ = try round(bare, isFirst: true)
        for _ in 0..<rounds { side.bare.append(try round(bare)) }
        _ = bare.dropAll()

        let (epoch, offsets) = try populations[0].tops(connection)
        let (whole, script) = try crowd(epoch: epoch, offsets)
        side.first = try round(whole, isFirst: true)
        for _ in 0..<rounds { side.back.append(try round(whole)) }
        side.missed = try round(whole) {
            for population in populations { try population.changeAll(connection) }
        }
        side.recovered = script.recovered
        side.lost = script.lost
        side.unavailable = script.unavailable
        let tops = try populations[0].tops(connection).offsets
        side.astray = script.astray + zip(tops, whole.offsets).count { $0 != Array($1) }
        _ = whole.dropAll()
        Self.settle()
        return side
    }

    /// The hub is never idle, since the untouched client's events go on: what a crowd left to do is done by then.
    private static func settle() { sleep(until: Instant.read().advanced(by: .seconds(1))) }
}
