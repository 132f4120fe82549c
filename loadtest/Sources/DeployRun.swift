import Clock
import Histogram
import Postgres
import Pusher
import Reactor

/// Deploys of one way: devices that stay on the line, what they and a backend do meanwhile, and what they notice.
///
/// Half of each user's doses are changed by SQL; of the other half each device has one, for its actions.
final class DeployRun {
    struct Plan {
        var users: Int
        var devicesPerUser: Int
        var deploys: Int
        /// Doses changed by SQL, a second.
        var changes: Double
        /// Actions of all devices, a second.
        var actions: Double
        /// Time without a deploy before each.
        var quiet: Duration

        var devices: Int { users * devicesPerUser }
        fileprivate var rowsPerUser: Int { 2 * devicesPerUser }
    }

    private let plan: Plan
    private let deploys: Deploys
    private let progress: ProgressLine
    private let population: Population
    private let connection: BlockingConnection
    private let ledger: Ledger
    private let book: CommitBook
    private let writers: Writers
    private let script: ReturningScript
    private let crowd: Crowd
    private var actions: PatientActions?
    private var timeline = Timeline()
    private var times: [Timeline.Kind: Histogram<UInt64>] = [:]
    private var absences = Absences()
    private var figures: DeploySide
    private let seed: UInt64
    /// Changes in flight: what comes while all are away for some seconds.
    private static let inFlight = 2_048
    private static let writersCount = 4
    /// From the end of a deploy until times count as undisturbed.
    private static let settling = Duration.seconds(1)

    /// Makes the rows; starts nothing yet.
    init(
        _ plan: Plan, _ deploys: Deploys, databaseURL url: String, _ credentials: AppCredentials, seed: UInt64,
        progress: ProgressLine
    ) throws {
        self.plan = plan
        self.deploys = deploys
        self.progress = progress
        self.seed = seed
        let names = Names(run: String(seed, radix: 36), topics: [RowKind.doses.topic])
        population = Population(names: names, kind: .doses, users: plan.users, rowsPerUser: plan.rowsPerUser)
        connection = try BlockingConnection(url)
        book = CommitBook(rows: population.rows, inFlight: Self.inFlight)
        let window = Window(size: Self.inFlight)
        ledger = Ledger(population, devicesPerUser: plan.devicesPerUser, book: book, window: window)
        let changed = (0..<population.rows).filter { $0 % plan.rowsPerUser < plan.devicesPerUser }
        writers = Writers(Self.writersCount, url, population, rows: changed, book, window)
        for kind in Timeline.Kind.allCases { times[kind] = Histogram(numberOfSignificantValueDigits: .three) }
        figures = DeploySide(plan)
        do {
            try population.insert(connection)
            let (epoch, tops) = try population.tops(connection)
            script = ReturningScript(
                credentials, names, clients: plan.devices, perUser: plan.devicesPerUser, epoch: epoch)
            let swarm = try Swarm(
                try LoadAddress(deploys.address), target: "/app/\(credentials.key)?protocol=7&client=loadtest",
                loop: try EventLoop(), script: script, seed: seed)
            swarm.stamps = true
            crowd = Crowd(
                swarm, script, perUser: plan.devicesPerUser,
                offsets: (0..<plan.devices).map { tops[$0 / plan.devicesPerUser] })
        } catch {
            try? population.remove(connection)
            throw error
        }
    }

    /// Deploys as often as planned, and judges.
    func run() throws -> DeploySide {
        try deploys.start()
        _ = try crowd.comeBack(at: .read(), progress: progress)
        let actions = PatientActions(
            of: crowd, population.names, book, rate: plan.actions, seed: seed,
            row: { [plan] in
                $0 / plan.devicesPerUser * plan.rowsPerUser + plan.devicesPerUser + $0 % plan.devicesPerUser
            })
        self.actions = actions
        script.answered = { actions.answered($0, $1.recipient.number) }
        script.arrived = { [unowned self] in arrived($0, $1) }
        crowd.isBack = { [unowned self] in isBack($0, $1) }
        writers.start(Writers.Pace(rate: plan.changes))
        for _ in 0..<plan.deploys {
            try pass(Self.settling, as: nil)
            try pass(plan.quiet, as: .quiet)
            try deploy()
        }
        try pass(Self.settling, as: nil)
        try finish(actions)
        progress.clear()
        return figures
    }

    /// Removes what it made, also after a failure.
    func cleanUp() {
        writers.stop()
        _ = crowd.dropAll()
        deploys.end()
        while writers.areRunning { crowd.turn(waitingAtMost: .milliseconds(10)) }
        do {
            try population.remove(connection)
        } catch {
            complain("loadtest: the rows of this run could not be removed: \(error)")
        }
    }

    // MARK: Steps

    private func pass(_ time: Duration, as kind: Timeline.Kind?) throws {
        let began = Instant.read()
        timeline.begins(kind, at: began)
        while Instant.read() < began.advanced(by: time) { try turn() }
    }

    private func deploy() throws {
        let began = Instant.read()
        let goal = absences.count + plan.devices
        timeline.begins(.deploying, at: began)
        try deploys.begin()
        var watch = StallWatch()
        // The old hub's last closes may still be unread when it has ended.
        while try !deploys.goOn() || !crowd.isWhole || absences.count < goal {
            try turn()
            guard watch.isMoving(absences.count) else {
                throw LoadFailure("\(crowd.current) of \(plan.devices) are current, and no more come: \(crowd.trouble)")
            }
        }
        figures.seconds.append(Double(Instant.read().nanoseconds &- began.nanoseconds) / 1e9)
    }

    private func turn() throws {
        try actions?.act(at: .read())
        crowd.turn(waitingAtMost: .milliseconds(2))
        if let failure = writers.failure { throw LoadFailure(failure) }
        progress.show(
            "\(deploys.way.rawValue): \(figures.seconds.count) of \(plan.deploys) deploys, \(crowd.current) clients are "
                + "current, \(ledger.deliveries) deliveries")
    }

    private func finish(_ actions: PatientActions) throws {
        writers.stop()
        var watch = StallWatch()
        while writers.areRunning || actions.waitingCount > 0 {
            crowd.turn(waitingAtMost: .milliseconds(10))
            guard watch.isMoving(actions.answeredCount) else {
                throw LoadFailure("\(actions.waitingCount) actions have no answer, and none comes")
            }
        }
        let positions = try population.positions(connection)
        watch = StallWatch()
        while !ledger.isComplete(crowd.recipients, positions: positions), watch.isMoving(ledger.deliveries) {
            crowd.turn(waitingAtMost: .milliseconds(10))
        }
        ledger.close(crowd.recipients, positions: positions, revisions: try population.revisions(connection))
        try population.checkActions(actions.doneCount, connection)
        figures.faults = ledger.faults
        figures.lost = script.lost
        figures.unavailable = script.unavailable
        figures.actions = actions.doneCount
        figures.repeatedActions = actions.repeatedCount
        figures.deliveries = ledger.deliveries
        figures.trouble = crowd.trouble
        figures.absences = absences.figures
        for (kind, times) in times {
            figures.events[kind.rawValue] = DeploySide.Times(times)
        }
    }

    // MARK: What comes

    private func isBack(_ number: Int, _ absence: Duration?) {
        if let absence { absences.add(absence) }
        actions?.isBack(number)
    }

    private func arrived(_ arrival: Arrival, _ device: LoadDevice) {
        let now = crowd.receivedAt
        ledger.received(arrival, by: device.recipient, at: now)
        // Those that were there when it was committed; others have it from the log.
        guard arrival.row >= 0, arrival.row % plan.rowsPerUser < plan.devicesPerUser,
            let start = book.commitTime(arrival.row, arrival.revision),
            let since = crowd.currentSince(device.recipient.number), since <= start,
            let kind = timeline.kind(at: start, since: since)
        else { return }
        _ = times[kind]?.record(max(1, now.nanoseconds &- start.nanoseconds))
    }
}
