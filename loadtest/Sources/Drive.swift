import Clock
import Histogram
import Postgres
import Reactor
import Synchronization

/// A run on a hub: rows in the database, devices at the hub, writers between.
final class Drive {
    struct Plan {
        var users: Int
        var devicesPerUser: Int
        var rowsPerUser: Int
        var kind: RowKind
        var topics: [String]
        var writers: Int
        var inFlight: Int
        var rowsPerTransaction: Int
        var manner = Manner.update
        var historyDays = 0
        /// Statements that each writer sends when it has connected.
        var session = ""

        var devices: Int { users * devicesPerUser }

        /// - Throws: `LoadFailure` where a number is out of its bounds.
        func check() throws(LoadFailure) {
            guard users > 0, devicesPerUser > 0, devices <= Limits.connectionsMax else {
                throw LoadFailure("users times devices must be from 1 to \(Limits.connectionsMax)")
            }
            guard rowsPerUser > 0, users * rowsPerUser <= Limits.rowsMax else {
                throw LoadFailure("users times rows must be from 1 to \(Limits.rowsMax)")
            }
            guard (1...Limits.writersMax).contains(writers) else {
                throw LoadFailure("writers: from 1 to \(Limits.writersMax)")
            }
            guard (1...Limits.inFlightMax).contains(inFlight), inFlight >= writers * rowsPerTransaction else {
                // With less, writers would wait for one another while each holds part of a transaction's slots.
                throw LoadFailure(
                    "--in-flight must be at most \(Limits.inFlightMax), and no less than writers times rows each")
            }
            guard users * rowsPerUser * inFlight <= 32 << 20 else {
                throw LoadFailure("fewer rows, or fewer in flight")
            }
        }
    }

    struct Outcome {
        var seconds = 0.0
        var changes = 0
        var deliveries = 0
        var serverCPUSeconds: Double?
        var ownCPUSeconds = 0.0
    }

    let swarm: Swarm
    let ledger: Ledger
    let script: HubScript
    let plan: Plan
    let population: Population
    let connection: BlockingConnection
    let book: CommitBook
    private let window: Window
    let writers: Writers
    private let progress: ProgressLine

    /// Creates the rows; connects nothing yet.
    init(_ plan: Plan, _ options: HubOptions, loop: EventLoop, seed: UInt64, progress: ProgressLine) throws {
        try plan.check()
        self.plan = plan
        self.progress = progress
        let url = try options.databaseURL()
        population = Population(
            names: Names(run: String(seed, radix: 36), topics: plan.topics), kind: plan.kind, users: plan.users,
            rowsPerUser: plan.rowsPerUser, manner: plan.manner, historyDays: plan.historyDays)
        connection = try BlockingConnection(url)
        script = HubScript(options.credentials, population.names)
        swarm = try Swarm(
            try options.address(), target: "/app/\(options.appKey)?protocol=7&client=loadtest", loop: loop,
            script: script, seed: seed)
        book = CommitBook(rows: population.rows, inFlight: plan.inFlight)
        window = Window(size: plan.inFlight)
        ledger = Ledger(population, devicesPerUser: plan.devicesPerUser, book: book, window: window)
        writers = Writers(plan.writers, url, session: plan.session, population, book, window)
        script.arrived = { [unowned swarm, unowned ledger] arrival, device in
            ledger.received(arrival, by: device.recipient, at: swarm.receivedAt)
        }
        try population.insert(connection)
    }

    /// Connects all devices and waits until they are subscribed.
    func open() throws {
        try swarm.open(plan.devices, perUser: plan.devicesPerUser, topics: plan.topics.count, progress: progress)
    }

    /// Runs the writers, and waits until all their commits have arrived or nothing arrives any more.
    ///
    /// `inFlight`: row changes in flight, at most the plan's.
    func measure(_ pace: Writers.Pace, inFlight: Int, server: ProcessMeter?) throws -> Outcome {
        window.resize(to: min(inFlight, plan.inFlight))
        ledger.restart()
        let committedBefore = book.committed.load(ordering: .acquiring)
        let serverBefore = server?.cpuSeconds()
        let ownBefore = ProcessMeter.ownCPUSeconds()
        let began = Instant.read()
        writers.start(pace)
        var watch = StallWatch()
        var isStalled = false
        while writers.areRunning || ledger.completed < book.committed.load(ordering: .acquiring) {
            swarm.loop.tick(waitingAtMost: .milliseconds(20))
            if !isStalled, !watch.isMoving(ledger.deliveries) {
                isStalled = true
                writers.stop()
            } else if isStalled, !writers.areRunning {
                break
            }
            if swarm.failureCount > 0 { writers.stop() }
            progress.show("\(ledger.deliveries) deliveries, \(ledger.latencies.valueAtPercentile(50) / 1000) µs")
        }
        progress.clear()
        if let failure = writers.failure { throw LoadFailure(failure) }
        var outcome = Outcome()
        outcome.seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        outcome.changes = book.committed.load(ordering: .acquiring) - committedBefore
        outcome.deliveries = ledger.deliveries
        if let serverBefore, let after = server?.cpuSeconds() { outcome.serverCPUSeconds = after - serverBefore }
        outcome.ownCPUSeconds = ProcessMeter.ownCPUSeconds() - ownBefore
        return outcome
    }

    /// Waits for what is still in flight, and compares the devices with the database.
    func close() throws -> Ledger.Faults {
        let positions = try population.positions(connection)
        var watch = StallWatch()
        while !ledger.isComplete(swarm.recipients, positions: positions), watch.isMoving(ledger.deliveries) {
            swarm.loop.tick(waitingAtMost: .milliseconds(20))
        }
        ledger.close(swarm.recipients, positions: positions, revisions: try population.revisions(connection))
        return ledger.faults
    }

    /// Removes devices and rows, also after a failure.
    func cleanUp() {
        swarm.closeAll()
        do {
            try population.remove(connection)
        } catch {
            complain("loadtest: the rows of this run could not be removed: \(error)")
        }
    }
}
