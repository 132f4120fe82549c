import Clock
import Pusher
import Reactor

/// Hubs that share Redis, each replaced in turn, their clients, and a backend.
final class RollingRun {
    private let command: RollingCommand
    private let hubs: [Deploys]
    private let addresses: [LoadAddress]
    private let script: RoomScript
    private let crowd: Crowd
    private let backend: RoomBackend
    private let progress = ProgressLine()
    private var random: SeededGenerator
    private var side = RollingSide()
    private var absences = Absences()
    private var publishedAt: Instant?
    private var due = 0.0

    init(_ command: RollingCommand, _ way: Deploys.Way, seed: UInt64) throws {
        self.command = command
        let app = (key: "rolling-key", secret: "rolling-secret")
        let settings = [
            "CARILLON_REDIS_URL": command.redis, "CARILLON_REDIS_NAME": "rolling\(seed)",
            "CARILLON_LIMITS_CONNECTIONS_PER_ADDRESS": "100000", "CARILLON_LIMITS_CONNECTS_PER_SECOND": "100000",
        ]
        let hubs = try (0..<command.hubs).map { _ in
            try Deploys(way, program: command.program, settings: settings, app: app)
        }
        self.hubs = hubs
        let addresses = try hubs.map { try LoadAddress($0.address) }
        self.addresses = addresses
        let credentials = AppCredentials(key: app.key, secret: app.secret)
        let names = Names(run: String(seed, radix: 36), topics: [])
        script = RoomScript(credentials, names, clients: command.clients, perRoom: command.perChannel)
        let swarm = try Swarm(
            addresses[0], target: "/app/\(app.key)?protocol=7&client=loadtest", loop: try EventLoop(), script: script,
            seed: seed)
        var random = SeededGenerator(seed: seed)
        swarm.addressOf = { _ in
            let open = hubs.indices.filter { hubs[$0].takesClients }
            return addresses[open.randomElement(using: &random) ?? 0]
        }
        self.random = SeededGenerator(seed: seed &+ 1)
        crowd = Crowd(swarm, script, perUser: command.perChannel, offsets: Array(repeating: [], count: command.clients))
        backend = RoomBackend(credentials)
    }

    func run() throws -> RollingSide {
        for hub in hubs { try hub.start() }
        _ = try crowd.comeBack(at: .read(), progress: progress)
        // Until all have been told of all.
        try pass(.seconds(1))
        script.isWhole = true
        crowd.isBack = { [unowned self] _, absence in isBack(absence) }
        publishedAt = .read()
        for _ in 0..<command.rounds {
            for hub in hubs {
                try pass(.seconds(command.quiet))
                try replace(hub)
            }
        }
        try pass(.seconds(command.quiet))
        publishedAt = nil
        try finish()
        progress.clear()
        return side
    }

    func end() {
        backend.end()
        _ = crowd.dropAll()
        for hub in hubs { hub.end() }
    }

    private func pass(_ time: Duration) throws {
        let end = Instant.read().advanced(by: time)
        while Instant.read() < end { turn() }
    }

    private func replace(_ hub: Deploys) throws {
        let began = Instant.read()
        hub.isLeaving = true
        // What the backend has sent there is answered.
        var patience = StallWatch()
        while !backend.isIdle, patience.isMoving(backend.answered) { crowd.turn(waitingAtMost: .milliseconds(2)) }
        try hub.begin()
        var watch = StallWatch()
        while try !hub.goOn() || !crowd.isWhole {
            turn()
            guard watch.isMoving(absences.count) else {
                throw LoadFailure("\(crowd.current) of \(command.clients) are back, and no more come: \(crowd.trouble)")
            }
        }
        side.seconds.append(Double(Instant.read().nanoseconds &- began.nanoseconds) / 1e9)
    }

    private func turn() {
        let now = Instant.read()
        if let before = publishedAt {
            due += Double(now.nanoseconds &- before.nanoseconds) / 1e9 * command.rate
            publishedAt = now
            while due >= 1 {
                due -= 1
                publish()
            }
        }
        crowd.turn(waitingAtMost: .milliseconds(2))
        progress.show(
            "\(hubs[0].way.rawValue): \(side.seconds.count) deploys, \(crowd.current) clients are there, "
                + "\(script.deliveries) deliveries")
    }

    private func publish() {
        let room = Int.random(in: 0..<script.rooms, using: &random)
        let open = hubs.indices.filter { hubs[$0].takesClients }
        let number = script.publishes(in: room)
        side.published += 1
        backend.publish(
            "\(number)", to: script.channel(room), by: addresses[open[side.published % open.count]], in: room)
    }

    private func finish() throws {
        var watch = StallWatch()
        while !backend.isIdle || !script.isComplete, watch.isMoving(script.deliveries + backend.answered) {
            crowd.turn(waitingAtMost: .milliseconds(10))
        }
        side.refused = backend.refused
        side.faults = script.faults
        if !script.isComplete { side.faults["not the last events", default: 0] += 1 }
        side.deliveries = script.deliveries
        side.trouble = crowd.trouble
        side.absences = absences.figures
    }

    private func isBack(_ absence: Duration?) {
        if let absence { absences.add(absence) }
    }
}
