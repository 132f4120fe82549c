import Clock
import Reactor

/// What a crowd's clients do.
protocol CrowdScript: DeviceScript {
    /// Called when a client is current, once for each connection.
    var isCurrent: (LoadDevice) -> Void { get set }
    /// Takes a client and a topic whose log could not be read: it is to `ask` again after a pause.
    var isUnavailable: (LoadDevice, Int) -> Void { get set }
    /// Names the position in that topic once more.
    func ask(_ topic: Int, _ device: LoadDevice)
}

/// Clients that come, go and come back, by pusher-js's rules (`Comeback`).
final class Crowd {
    private struct Client {
        let recipient: Recipient
        var device: LoadDevice?
        var begunAt = Instant(nanoseconds: 0)
        /// Since when it has what there is; nil while it has not.
        var currentSince: Instant?
        /// Since when it is away; nil for one that never was current, or that we dropped.
        var lostAt: Instant?
    }

    /// What became of the connections since the last `comeBack` began.
    struct Trouble: Codable {
        /// Attempts that did not become a WebSocket.
        var refused = 0
        /// WebSockets that ended before their client was current.
        var closed = 0
        /// WebSockets of current clients that the hub ended, by the code that it gave.
        var ended: [String: Int] = [:]
        /// The first of all.
        var first: String?
        /// Clients that pusher-js keeps away for good.
        var gone = 0

        /// What must never be, where hubs end connections with these codes.
        func fault(expecting codes: Set<String>) -> String? {
            if refused + gone > 0 { return "clients were turned away: \(self)" }
            if !codes.isSuperset(of: ended.keys) { return "clients were cut off: \(self)" }
            return nil
        }

        var isNone: Bool { refused + closed + gone == 0 && ended.isEmpty }
    }

    private let swarm: Swarm
    private let script: any CrowdScript
    private var clients: ContiguousArray<Client>
    private(set) var current = 0
    private var lastCurrentAt = Instant(nanoseconds: 0)
    private(set) var trouble = Trouble()
    /// Called when a client is current, and how long it was away; nil where it was not.
    var isBack: (Int, Duration?) -> Void = { _, _ in }
    /// Clients that come again, and when: few, unless the hub refuses.
    private var again: [(at: Instant, number: Int)] = []
    /// Clients that ask again for what the hub could not read, and when.
    private var questions: [(at: Instant, device: LoadDevice, topic: Int)] = []
    /// How long such a client waits, by a random number from 0 to 1.
    private let pause: (Double) -> Duration
    /// How long a client waits whose attempt was refused; nil: as pusher-js does, without a balancer that finds another hub.
    var pauseIfRefused: Duration?

    /// - Parameters:
    ///   - perUser: clients of each user.
    ///   - offsets: of each topic, for each client in turn.
    convenience init(
        _ swarm: Swarm, _ script: any CrowdScript, perUser: Int = 1, offsets: [[Int64]],
        pause: @escaping (Double) -> Duration = Comeback.pause
    ) {
        self.init(swarm, script, userOf: { $0 / perUser }, offsets: offsets, pause: pause)
    }

    /// - Parameters:
    ///   - userOf: the user of each client.
    ///   - offsets: of each topic, for each client in turn.
    init(
        _ swarm: Swarm, _ script: any CrowdScript, userOf: (Int) -> Int, offsets: [[Int64]],
        pause: @escaping (Double) -> Duration = Comeback.pause
    ) {
        self.swarm = swarm
        self.script = script
        self.pause = pause
        clients = ContiguousArray(
            offsets.enumerated().map { number, offsets in
                let recipient = Recipient(number, user: userOf(number), topics: offsets.count)
                recipient.offsets = ContiguousArray(offsets)
                return Client(recipient: recipient)
            })
        script.isCurrent = { [unowned self] in isCurrent($0.recipient.number) }
        script.isUnavailable = { [unowned self] in isUnavailable($0, $1) }
        swarm.lost = { [unowned self] in lost($0, $1) }
    }

    /// What all have, by client and topic.
    var offsets: [ContiguousArray<Int64>] { clients.map(\.recipient.offsets) }
    var recipients: [Recipient] { clients.map(\.recipient) }
    /// When the bytes being handled were read, or came (`Swarm.stamps`).
    var receivedAt: Instant { swarm.receivedAt }
    var isWhole: Bool { current == clients.count }

    /// Since when that client has what there is; nil while it has not.
    func currentSince(_ number: Int) -> Instant? { clients[number].currentSince }

    /// Where that client is, in words.
    func whereabouts(of number: Int) -> String {
        let client = clients[number]
        if again.contains(where: { $0.number == number }) { return "about to come again" }
        guard let device = client.device else { return "away" }
        let seconds = decimal(Double(Instant.read().nanoseconds &- client.begunAt.nanoseconds) / 1e9, 1)
        return "\(device.phase) since \(seconds) s at \(device.address.text)"
    }

    /// Has those try again whose attempt is no WebSocket after the time that pusher-js gives it. How many they were.
    func giveUp() -> Int {
        let now = Instant.read()
        var count = 0
        for number in clients.indices {
            guard let device = clients[number].device, [.connecting, .securing, .upgrading].contains(device.phase),
                now.duration(since: clients[number].begunAt) > Comeback.attempt
            else { continue }
            device.drop()
            connect(number)
            count += 1
        }
        return count
    }

    /// Its connection; nil while it is not current.
    func connection(of number: Int) -> LoadDevice? {
        clients[number].currentSince == nil ? nil : clients[number].device
    }

    /// Ends all connections at once, without a word. Returns when that was done.
    func dropAll() -> Instant {
        for index in clients.indices {
            if let device = clients[index].device, device.phase != .gone { device.drop() }
            clients[index].device = nil
            (clients[index].currentSince, clients[index].lostAt) = (nil, nil)
        }
        (again, questions, current) = ([], [], 0)
        // Dropped connections end with the tick.
        swarm.loop.tick(waitingAtMost: .zero)
        return Instant.read()
    }

    /// All come at that time. Returns the seconds from then until the last was current.
    func comeBack(at time: Instant, progress: ProgressLine) throws -> Double {
        trouble = Trouble()
        while Instant.read() < time { swarm.loop.tick(waitingAtMost: time.duration(since: Instant.read())) }
        for number in clients.indices { connect(number) }
        var watch = StallWatch()
        while current + trouble.gone < clients.count {
            turn(waitingAtMost: .milliseconds(5))
            guard watch.isMoving(current) else {
                throw LoadFailure("\(current) of \(clients.count) are current, and no more come: \(trouble)")
            }
            progress.show("\(current) of \(clients.count) clients are current")
        }
        progress.clear()
        return Double(lastCurrentAt.nanoseconds &- time.nanoseconds) / 1e9
    }

    /// That client comes, unless it is there or on its way.
    func enter(_ number: Int) {
        guard clients[number].device == nil || clients[number].device?.phase == .gone,
            !again.contains(where: { $0.number == number })
        else { return }
        clients[number].lostAt = nil
        connect(number)
    }

    /// That client ends its connection, and does not come back by itself.
    func leave(_ number: Int) {
        again.removeAll { $0.number == number }
        if let device = clients[number].device, device.phase != .gone { device.drop() }
        if clients[number].currentSince != nil { current -= 1 }
        (clients[number].device, clients[number].currentSince, clients[number].lostAt) = (nil, nil, nil)
    }

    /// Takes what has come, and has those come back whose time it is.
    func turn(waitingAtMost wait: Duration) {
        swarm.loop.tick(waitingAtMost: wait)
        guard !again.isEmpty || !questions.isEmpty else { return }
        let now = Instant.read()
        let due = again.filter { $0.at <= now }
        again.removeAll { $0.at <= now }
        for (_, number) in due { connect(number) }
        let asked = questions.filter { $0.at <= now }
        questions.removeAll { $0.at <= now }
        // One that has a new connection names its positions there.
        for question in asked where question.device.phase != .gone { script.ask(question.topic, question.device) }
    }

    private func isUnavailable(_ device: LoadDevice, _ topic: Int) {
        let random = Double.random(in: 0...1, using: &swarm.random)
        questions.append((.read().advanced(by: pause(random)), device, topic))
    }

    private func connect(_ number: Int) {
        clients[number].begunAt = Instant.read()
        do {
            clients[number].device = try LoadDevice(clients[number].recipient, in: swarm)
        } catch {
            // The kernel may say at once that nobody listens.
            ended(number, wasOpen: false, code: nil, "\(error)")
        }
    }

    private func isCurrent(_ number: Int) {
        let now = swarm.receivedAt
        current += 1
        lastCurrentAt = now
        clients[number].currentSince = now
        isBack(number, clients[number].lostAt.map { now.duration(since: $0) })
        clients[number].lostAt = nil
    }

    private func lost(_ device: LoadDevice, _ reason: String) {
        ended(device.recipient.number, wasOpen: device.end.wasOpen, code: device.end.code, reason)
    }

    private func ended(_ number: Int, wasOpen: Bool, code: UInt16?, _ reason: String) {
        let now = Instant.read()
        if clients[number].currentSince != nil {
            trouble.ended["\(code ?? 1006)", default: 0] += 1
            current -= 1
            (clients[number].currentSince, clients[number].lostAt) = (nil, now)
        } else if wasOpen {
            trouble.closed += 1
        } else {
            trouble.refused += 1
        }
        trouble.first = trouble.first ?? reason
        if !wasOpen, let pauseIfRefused { return again.append((now.advanced(by: pauseIfRefused), number)) }
        switch Comeback(wasOpen: wasOpen, code: code, elapsed: now.duration(since: clients[number].begunAt)) {
        case .after(let pause): again.append((now.advanced(by: pause), number))
        case .never: trouble.gone += 1
        }
    }
}
