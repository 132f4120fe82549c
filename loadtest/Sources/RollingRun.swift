import Bytes
import Clock
import Foundation
import Glibc
import Histogram
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
    private var absences = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
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
            guard watch.isMoving(side.returns) else {
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
        side.absenceP50 = Double(absences.valueAtPercentile(50)) / 1e9
        side.absenceP99 = Double(absences.valueAtPercentile(99)) / 1e9
    }

    private func isBack(_ absence: Duration?) {
        guard let absence else { return }
        side.returns += 1
        let nanoseconds = absence.wholeNanoseconds
        _ = absences.record(max(1, nanoseconds))
        side.absenceMost = max(side.absenceMost, Double(nanoseconds) / 1e9)
    }
}

/// A backend that publishes on one thread for each few rooms: what goes to one room goes in its order, each once the one
/// before is answered.
final class RoomBackend: Sendable {
    private struct Order: Sendable {
        let number: String
        let channel: String
        let address: LoadAddress
    }

    private struct State: Sendable {
        var waiting: [[Order]] = Array(repeating: [], count: RoomBackend.threads)
        var underWay = 0
        var answered = 0
        var refused: [String: Int] = [:]
        var isEnding = false
    }

    private static let threads = 8
    private let state = Locked(State())
    private let credentials: AppCredentials

    init(_ credentials: AppCredentials) {
        self.credentials = credentials
        for lane in 0..<Self.threads {
            let thread = Thread { [weak self] in
                while let self, work(lane) {}
            }
            thread.start()
        }
    }

    var isIdle: Bool { state.withLock { $0.underWay == 0 } }
    var answered: Int { state.withLock { $0.answered } }
    var refused: [String: Int] { state.withLock { $0.refused } }

    func end() { state.withLock { $0.isEnding = true } }

    func publish(_ number: String, to channel: String, by address: LoadAddress, in room: Int) {
        state.withLock {
            $0.underWay += 1
            $0.waiting[room % Self.threads].append(Order(number: number, channel: channel, address: address))
        }
    }

    /// Returns whether there may be more.
    private func work(_ lane: Int) -> Bool {
        let (order, isEnding) = state.withLock { state in
            (state.waiting[lane].isEmpty ? nil : state.waiting[lane].removeFirst(), state.isEnding)
        }
        guard let order else {
            usleep(500)
            return !isEnding
        }
        let problem = ask(order)
        state.withLock {
            $0.underWay -= 1
            $0.answered += 1
            if let problem { $0.refused[problem, default: 0] += 1 }
        }
        return true
    }

    /// Nil once it is published; else why not.
    private func ask(_ order: Order) -> String? {
        guard let socket = try? order.address.connect(source: 0) else { return "no connection" }
        defer { close(socket) }
        var request = ByteWriter()
        let body = #"{"name":"e","channel":"\#(order.channel)","data":"\#(order.number)"}"#
        let publish = SignedPublish(app: "1", credentials, frameBytes: 0) { _ in order.channel }
        publish.append(Array(body.utf8), at: time(nil), host: order.address.text, to: &request)
        guard Self.wait(socket, POLLOUT),
            request.withUnsafeBytes({ Glibc.send(socket, $0.baseAddress, $0.count, 0) }) > 0
        else { return "no connection" }
        var answer = [UInt8](repeating: 0, count: 4_096)
        guard Self.wait(socket, POLLIN) else { return "no answer" }
        let count = recv(socket, &answer, answer.count, 0)
        guard count > 12 else { return "no answer" }
        let status = String(decoding: answer[9..<12], as: UTF8.self)
        return status == "200" ? nil : status
    }

    private static func wait(_ socket: Int32, _ event: Int32) -> Bool {
        var one = pollfd(fd: socket, events: Int16(event), revents: 0)
        return poll(&one, 1, 30_000) == 1 && Int32(one.revents) & event != 0
    }
}
