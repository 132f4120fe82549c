import JSON

/// The client's connection in Pusher's protocol 7: opened, kept, lost, and opened again.
struct ConnectionMachine: Sendable {
    enum State: Sendable, Equatable { case offline, connecting, open, refused }

    private(set) var state = State.offline
    /// What the machine is subscribed to, now or with the next connection.
    private(set) var channels: [String] = []
    private(set) var isStarted = false
    /// Private and presence channels are joined with what the app has signed.
    private let isAuthorizing: Bool
    /// Channels whose signature for this socket is asked for, each with the number of the request that counts.
    private var awaited: [String: Int] = [:]
    private var serial = 0
    private(set) var socketID = ""
    private var backoff: JitteredWait
    /// How long the hub asked to stay away: for one absence.
    private var wait: (min: Double, max: Double)?
    private var activityMs = pongMs
    private var isAsked = false

    private static let pongMs = 30_000

    init(_ backoff: JitteredWait = JitteredWait(), isAuthorizing: Bool = false) {
        self.backoff = backoff
        self.isAuthorizing = isAuthorizing
    }

    mutating func start(_ out: inout [ClientEffect]) {
        guard !isStarted else { return }
        isStarted = true
        connect(&out)
    }

    mutating func stop(_ out: inout [ClientEffect]) {
        isStarted = false
        state = .offline
        out += [.cancel(.reconnect), .cancel(.quiet), .disconnect]
    }

    /// The network is back, or the app is.
    mutating func wake(_ out: inout [ClientEffect]) {
        guard isStarted, state == .offline else { return }
        backoff.reset()
        connect(&out)
    }

    mutating func connect(_ out: inout [ClientEffect]) {
        guard isStarted, state == .offline else { return }
        state = .connecting
        isAsked = false
        out += [.cancel(.reconnect), .connect, .timer(.quiet, milliseconds: Self.pongMs)]
    }

    /// The connection has ended, or is of no use. When another one is tried, its close code tells.
    mutating func lost(code: Int, random: Double, _ out: inout [ClientEffect]) {
        guard isStarted, state == .open || state == .connecting else { return }
        out += [.cancel(.quiet), .disconnect]
        if (4000..<4100).contains(code) {
            state = .refused
            return
        }
        state = .offline
        var pause = 0
        if let wait {
            pause = Int(wait.min + random * max(0, wait.max - wait.min))
            self.wait = nil
        } else if !((4200..<4300).contains(code) && backoff.attempt == 0) {
            pause = backoff.next(random)
        } else {
            // At once, the first time.
            _ = backoff.next(0)
        }
        out.append(.timer(.reconnect, milliseconds: pause))
    }

    /// The hub has said nothing for long: it is asked, and given up when it does not answer. Returns whether it is lost.
    mutating func quiet(_ out: inout [ClientEffect]) -> Bool {
        guard state == .open, !isAsked else { return state != .offline }
        isAsked = true
        send("pusher:ping", .object([]), &out)
        out.append(.timer(.quiet, milliseconds: Self.pongMs))
        return false
    }

    /// Any message shows that the hub is there. Returns whether the line has opened.
    mutating func hear(_ event: String, _ data: JSONTree, _ out: inout [ClientEffect]) -> Bool {
        isAsked = false
        out.append(.timer(.quiet, milliseconds: activityMs))
        switch event {
        case "pusher:connection_established":
            activityMs = Int(max(1, min(data["activity_timeout"]?.integer ?? 120, 3600))) * 1000
            out.append(.timer(.quiet, milliseconds: activityMs))
            state = .open
            socketID = data["socket_id"]?.string ?? ""
            awaited = [:]
            for channel in channels { join(channel, &out) }
            return true
        case "pusher:ping": send("pusher:pong", .object([]), &out)
        case "sync:backoff":
            let low = max(0, Double(data["minMs"]?.integer ?? 0))
            wait = (low, max(low, Double(data["maxMs"]?.integer ?? 0)))
        default: break
        }
        return false
    }

    /// A session has worked: the next pause begins small again.
    mutating func worked() { backoff.reset() }

    /// Returns whether it was sent.
    @discardableResult
    func send(_ event: String, _ data: JSONTree, _ out: inout [ClientEffect]) -> Bool {
        guard state == .open else { return false }
        out.append(.send(JSONTree.object([.init("event", .string(event)), .init("data", data)]).canonicalText))
        return true
    }

    mutating func subscribe(_ channel: String, _ out: inout [ClientEffect]) {
        guard !channels.contains(channel) else { return }
        channels.append(channel)
        join(channel, &out)
    }

    private mutating func join(_ channel: String, _ out: inout [ClientEffect]) {
        guard isAuthorizing, channel.hasPrefix("private-") || channel.hasPrefix("presence-") else {
            tell("pusher:subscribe", channel, &out)
            return
        }
        guard state == .open else { return }
        serial += 1
        awaited[channel] = serial
        out.append(.authorize(channel: channel, socketID: socketID, serial: serial))
    }

    /// The app has had a channel signed, or could not. Returns whether the channel still waits for it: meanwhile the
    /// connection may be another one, and the channel may be left, or left and joined again.
    mutating func authorized(
        _ channel: String, serial: Int, _ auth: CarillonChannelAuth?, _ out: inout [ClientEffect]
    ) -> Bool {
        guard state == .open, awaited[channel] == serial else { return false }
        awaited[channel] = nil
        guard let auth else { return true }
        var members: [JSONTree.Member] = [.init("channel", .string(channel)), .init("auth", .string(auth.auth))]
        if let data = auth.channelData { members.append(.init("channel_data", .string(data))) }
        send("pusher:subscribe", .object(members), &out)
        return true
    }

    mutating func unsubscribe(_ channel: String, _ out: inout [ClientEffect]) {
        guard let index = channels.firstIndex(of: channel) else { return }
        channels.remove(at: index)
        awaited[channel] = nil
        tell("pusher:unsubscribe", channel, &out)
    }

    private func tell(_ event: String, _ channel: String, _ out: inout [ClientEffect]) {
        send(event, .object([.init("channel", .string(channel))]), &out)
    }
}
