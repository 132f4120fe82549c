import Bytes
import Clock
import Histogram
import Reactor

/// Actions of all devices of a run, sent over their WebSockets, with the answers and the events that follow.
///
/// Each device works on its own rows, so every action must be applied: another answer ends the run. The run's ledger judges
/// the events, as if writers had changed the rows.
final class ActionDrive {
    struct Pace {
        var seconds: Double
        /// Actions in flight; sets the pace if no rate is given.
        var inFlight: Int
        /// Actions per second, at random times.
        var rate: Double?
    }

    struct Outcome {
        /// Actions answered within the time.
        var answered = 0
        var seconds = 0.0
        /// Nanoseconds from an action's due time to its answer.
        var answers = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
        /// Nanoseconds from an action's due time to its event, at each of the user's devices.
        var deliveries = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
        var serverCPUSeconds: Double?
        var ownCPUSeconds = 0.0
    }

    private let drive: Drive
    private var actors: ContiguousArray<Actor> = []
    /// Device numbers in order of turns; neighbours belong to different users.
    private let turns: [Int]
    private var turn = 0
    private var waiting = 0
    private var answeredCount = 0
    private var answers = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
    private var complaint: String?
    private var schedules: UInt64 = 0

    /// Actions of the devices of `drive`, which must be open with idle writers.
    init(_ drive: Drive) {
        self.drive = drive
        let perUser = drive.plan.devicesPerUser
        let rows = drive.plan.rowsPerUser
        turns = (0..<perUser).flatMap { index in (0..<drive.plan.users).map { $0 * perUser + index } }
        for device in 0..<drive.plan.devices {
            let first = device / perUser * rows
            actors.append(Actor(rows: stride(from: device % perUser, to: rows, by: perUser).map { first + $0 }))
        }
        drive.script.answered = { [unowned self] result, device in answered(result, device) }
    }

    /// Sends actions at that pace, then waits until all are answered and all devices have the events.
    func measure(_ pace: Pace, server: ProcessMeter?, progress: ProgressLine) throws -> Outcome {
        drive.ledger.restart()
        answers.reset()
        answeredCount = 0
        let serverBefore = server?.cpuSeconds()
        let ownBefore = ProcessMeter.ownCPUSeconds()
        let began = Instant.read()
        let end = began.advanced(by: .nanoseconds(Int64(pace.seconds * 1e9)))
        schedules += 1
        var schedule = pace.rate.map { Schedule(rate: $0, start: began, seed: schedules) }
        let metronome = try schedule.map { try Metronome($0, until: end, loop: drive.swarm.loop) }
        defer { metronome?.stop() }
        var outcome = Outcome()
        var isOver = false
        var watch = StallWatch()
        while !isOver || waiting > 0 || drive.ledger.completed < drive.book.committed.load(ordering: .relaxed) {
            let now = Instant.read()
            if !isOver, now >= end {
                isOver = true
                outcome.answered = answeredCount
                outcome.seconds = Double(now.nanoseconds - began.nanoseconds) / 1e9
                outcome.serverCPUSeconds = serverBefore.flatMap { before in server?.cpuSeconds().map { $0 - before } }
                outcome.ownCPUSeconds = ProcessMeter.ownCPUSeconds() - ownBefore
            }
            if !isOver { try send(pace, &schedule, now) }
            drive.swarm.loop.tick(waitingAtMost: .milliseconds(20))
            if let failure = complaint ?? drive.swarm.firstFailure { throw LoadFailure(failure) }
            guard watch.isMoving(answeredCount &+ drive.ledger.deliveries) else {
                throw LoadFailure("\(waiting) actions have no answer, and none comes")
            }
            progress.show("\(answeredCount) actions answered")
        }
        progress.clear()
        outcome.answers = answers
        outcome.deliveries = drive.ledger.latencies
        return outcome
    }

    /// Compares what the database stored with what was sent.
    func close() throws -> Ledger.Faults {
        try drive.population.checkActions(actors.reduce(0) { $0 + $1.sent }, drive.connection)
        return try drive.close()
    }

    // MARK: Steps

    /// Sends the actions that are due, or that the window allows.
    private func send(_ pace: Pace, _ schedule: inout Schedule?, _ now: Instant) throws {
        guard schedule != nil else {
            while waiting < pace.inFlight { try send(dueAt: now) }
            return
        }
        while let due = schedule?.next, due <= now {
            try send(dueAt: due)
            schedule?.advance()
        }
    }

    private func send(dueAt due: Instant) throws {
        // Skips a device with too many actions in flight; not all devices can have that.
        for _ in turns {
            let device = turns[turn]
            turn = (turn + 1) % turns.count
            guard actors[device].sent - actors[device].answered < Limits.actionsPerDevice else { continue }
            return act(device, dueAt: due)
        }
        throw LoadFailure("\(waiting) actions have no answer: the rate is more than the hub takes")
    }

    private func act(_ device: Int, dueAt due: Instant) {
        actors[device].sent += 1
        waiting += 1
        let step = MannerStep(actors[device].sent, rows: actors[device].rows.count)
        actors[device].dueTimes[step.number % Limits.actionsPerDevice] = due
        let row = actors[device].rows[step.row]
        drive.book.committing(row, at: due)
        drive.book.committed.add(1, ordering: .relaxed)
        let action = drive.population.names.action(step, of: device, onRow: row)
        drive.swarm.devices[device].send(action)
    }

    private func answered(_ result: ActionResult, _ device: LoadDevice) {
        let number = device.recipient.number
        guard let action = result.action, action.device == number, action.number == actors[number].answered + 1 else {
            complaint = complaint ?? "an answer came to the wrong device, again, or out of order"
            return
        }
        guard result.status == "applied" else {
            complaint = complaint ?? "an action was answered \(result.status) \(result.code ?? "")"
            return
        }
        let due = actors[number].dueTimes[action.number % Limits.actionsPerDevice]
        answers.record(max(1, drive.swarm.receivedAt.nanoseconds &- due.nanoseconds))
        actors[number].answered += 1
        answeredCount += 1
        waiting -= 1
    }
}

private struct Actor {
    let rows: [Int]
    var sent = 0
    var answered = 0
    /// Due times of its actions in flight, by number modulo the bound.
    var dueTimes = ContiguousArray(repeating: Instant(nanoseconds: 0), count: Limits.actionsPerDevice)
}
