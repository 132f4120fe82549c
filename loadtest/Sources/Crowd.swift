import Clock
import Reactor

/// Clients that come at once, each its own user, by pusher-js's rules (`Comeback`).
final class Crowd {
    private struct Client {
        let recipient: Recipient
        var device: LoadDevice?
        var begunAt = Instant(nanoseconds: 0)
    }

    /// What became of the connections since the last `comeBack` began.
    struct Trouble: Codable {
        /// Attempts that did not become a WebSocket.
        var refused = 0
        /// WebSockets that ended before their client was current.
        var closed = 0
        /// The first of both.
        var first: String?
        /// Clients that pusher-js keeps away for good.
        var gone = 0
    }

    private let swarm: Swarm
    private let script: ReturningScript
    private var clients: ContiguousArray<Client>
    private var current = 0
    private var lastCurrentAt = Instant(nanoseconds: 0)
    private(set) var trouble = Trouble()
    /// Clients that come again, and when: few, unless the hub refuses.
    private var again: [(at: Instant, number: Int)] = []

    /// - Parameter offsets: of each topic, for each client in turn.
    init(_ swarm: Swarm, _ script: ReturningScript, offsets: [[Int64]]) {
        self.swarm = swarm
        self.script = script
        clients = ContiguousArray(
            offsets.enumerated().map { number, offsets in
                let recipient = Recipient(number, user: number, topics: offsets.count)
                recipient.offsets = ContiguousArray(offsets)
                return Client(recipient: recipient)
            })
        script.isCurrent = { [unowned self] _ in
            current += 1
            lastCurrentAt = self.swarm.receivedAt
        }
        swarm.lost = { [unowned self] in lost($0, $1) }
    }

    /// What all have, by client and topic.
    var offsets: [ContiguousArray<Int64>] { clients.map(\.recipient.offsets) }

    /// Ends all connections at once, without a word. Returns when that was done.
    func dropAll() -> Instant {
        for index in clients.indices {
            if let device = clients[index].device, device.phase != .gone { device.drop() }
            clients[index].device = nil
        }
        again = []
        // Dropped connections end with the tick.
        swarm.loop.tick(waitingAtMost: .zero)
        return Instant.read()
    }

    /// All come at that time. Returns the seconds from then until the last was current.
    func comeBack(at time: Instant, progress: ProgressLine) throws -> Double {
        (current, trouble) = (0, Trouble())
        while Instant.read() < time { swarm.loop.tick(waitingAtMost: time.duration(since: Instant.read())) }
        for number in clients.indices { try connect(number) }
        var watch = StallWatch()
        while current + trouble.gone < clients.count {
            swarm.loop.tick(waitingAtMost: .milliseconds(5))
            try connectAgain()
            guard watch.isMoving(current) else {
                throw LoadFailure("\(current) of \(clients.count) are current, and no more come: \(trouble)")
            }
            progress.show("\(current) of \(clients.count) clients are current")
        }
        progress.clear()
        return Double(lastCurrentAt.nanoseconds &- time.nanoseconds) / 1e9
    }

    private func connectAgain() throws {
        guard !again.isEmpty else { return }
        let now = Instant.read()
        let due = again.filter { $0.at <= now }
        again.removeAll { $0.at <= now }
        for (_, number) in due { try connect(number) }
    }

    private func connect(_ number: Int) throws {
        clients[number].begunAt = Instant.read()
        clients[number].device = try LoadDevice(clients[number].recipient, in: swarm)
    }

    private func lost(_ device: LoadDevice, _ reason: String) {
        let number = device.recipient.number
        if device.end.wasOpen { trouble.closed += 1 } else { trouble.refused += 1 }
        trouble.first = trouble.first ?? reason
        let now = Instant.read()
        switch Comeback(
            wasOpen: device.end.wasOpen, code: device.end.code,
            elapsed: now.duration(since: clients[number].begunAt))
        {
        case .after(let pause): again.append((now.advanced(by: pause), number))
        case .never: trouble.gone += 1
        }
    }
}
