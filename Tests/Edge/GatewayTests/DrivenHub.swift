import Bytes
import Clock
import Glibc
import HubEngine
import Identity
import Logging
import Pusher
import Reactor
import TestHub
import TestSupport
import WebSocket

@testable import Gateway

/// A hub without threads: tests drive its loops' turns, and inspect them between two turns.
final class DrivenHub {
    let loops: [EventLoop]
    let clients: [ClientLoop]
    let context: HubContext
    let metrics = GatewayMetrics()
    let credentials = AppCredentials(key: "key", secret: "secret")
    private let socket: ListeningSocket
    private let usesTLS: Bool

    var admission: AdmissionControl { context.admission }
    var app: App { context.firstApps.apps[0] }

    init(
        loops count: Int = 1, eventsPerWait: Int = EventLoop.eventsPerWait, features: AppFeatures = AppFeatures(),
        limits: AppLimits = AppLimits(), change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws {
        var configuration = GatewayConfiguration()
        configuration.loops = count
        configuration.apps = [
            App(
                id: "1", credentials: credentials, index: 0, ownsDatabase: false, features: features, limits: limits)
        ]
        configuration.admission.addressConnectsPerSecond = 0
        configuration.timeouts.handshake = .seconds(600)
        change(&configuration)
        let handles = try (0..<count).map { _ in try LoopHandle() }
        var policy = TokenPolicy()
        policy.secret = GatewayFixture.tokenSecret
        let verifier = try await TokenVerifier(
            policy: policy, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let context = HubContext(
            configuration, apps: try AppTable(configuration.apps), mailboxes: handles.map { Mailbox($0) },
            feed: nil, store: nil, verifier: verifier, routes: NoRoutes(), webhooks: nil, metrics: metrics)
        let loops = try handles.map { try EventLoop(handle: $0, eventsPerWait: eventsPerWait) }
        self.context = context
        self.loops = loops
        clients = try loops.enumerated().map { try ClientLoop($0, on: $1, context) }
        socket = try ListeningSocket(host: "127.0.0.1", port: 0)
        usesTLS = configuration.tls != nil
        try clients[0].listen(on: socket, usesTLS: usesTLS)
    }

    deinit {
        // Sources retain their loop.
        for loop in loops { loop.forEachSource { loop.remove($0) } }
    }

    /// One turn of each loop, without waiting.
    func turn() {
        for loop in loops { loop.tick(waitingAtMost: .zero) }
    }

    func turn(until condition: () throws -> Bool) throws {
        try wait {
            if try condition() { return true }
            turn()
            return false
        }
    }

    /// Repeats the closure until it reports that all is done.
    func wait(_ step: () throws -> Bool) throws {
        let patience = Instant.read().advanced(by: .seconds(60))
        while try !step() {
            guard Instant.read() < patience else { throw TestClient.Failure(reason: "it never came") }
        }
    }

    /// Open connections of the hub, on all loops.
    var connections: [ClientConnection] {
        var found: [ClientConnection] = []
        for loop in loops { loop.forEachConnection { found.append($0) } }
        return found
    }

    /// The hub's end of the peer's connection, while it is an open WebSocket.
    func connection(of peer: DrivenPeer) throws -> ClientConnection? {
        let id = try peer.socketID()
        return connections.first { $0.session?.socketID == id && id != nil }
    }

    /// Turns until all these peers' connections are marked or closed.
    func turnUntilMarked(left open: Int) throws {
        try turn { connections.count { !$0.hasEnded } == open }
    }

    var port: UInt16 { socket.port }

    /// A client that has requested a WebSocket, or is still silent. `fields`: further lines of the request.
    func newPeer(isSilent: Bool = false, fields: String = "") throws -> DrivenPeer {
        try DrivenPeer(port: port, usesTLS: usesTLS, isSilent: isSilent, fields: fields)
    }

    /// A WebSocket with its greeting read. `fields`: further lines of the request.
    func open(fields: String = "") throws -> DrivenPeer {
        let peer = try newPeer(fields: fields)
        try turn { try peer.socketID() != nil }
        return peer
    }

    /// Sends a subscribe; to a presence channel, as that user.
    func ask(_ peer: DrivenPeer, for channel: String, as user: String? = nil) throws {
        guard let name = ChannelName(channel), let id = try peer.socketID() else {
            throw TestClient.Failure(reason: "no channel, or no greeting")
        }
        let data = user.map { #"{"user_id":"\#($0)"}"# }
        let auth =
            name.kind.needsAuthentication ? credentials.sign(.channel(name, channelData: data), socketID: id) : ""
        let members = data.map { #","channel_data":"\#($0.replacing("\"", with: "\\\""))""# } ?? ""
        peer.send(#"{"event":"pusher:subscribe","data":{"channel":"\#(channel)","auth":"\#(auth)"\#(members)}}"#)
    }

    func subscribed(to channel: String, as user: String? = nil) throws -> DrivenPeer {
        let peer = try open()
        try ask(peer, for: channel, as: user)
        try turn { try peer.texts().contains { $0.contains("subscription_succeeded") } }
        return peer
    }

    func facts(_ channel: String) -> ChannelFacts {
        guard let name = ChannelName(channel) else { return ChannelFacts() }
        let key = ChannelKey(0, name)
        return if case .facts(let facts) = asked(.facts(key), key) { facts } else { ChannelFacts() }
    }

    func users(_ channel: String) -> [String] {
        guard let name = ChannelName(channel) else { return [] }
        let key = ChannelKey(0, name)
        return if case .users(let users) = asked(.users(key), key) { users.sorted() } else { [] }
    }

    /// The owner's reply. It is there at once: the state is in the hub's memory.
    private func asked(_ call: ChannelCall, _ key: ChannelKey) -> ChannelReply {
        let reply = Locked(ChannelReply.unavailable(.unknown))
        clients[key.shard(of: clients.count)].channels.ask(call) { known in reply.withLock { $0 = known } }
        return reply.withLock { $0 }
    }
}

/// A client of a `DrivenHub`. Nothing here blocks.
final class DrivenPeer {
    private var descriptor: Int32
    private let wire: TLSWire?
    private let tls: TLSSession?
    private let fields: String
    private var hasAsked = false
    private var buffer: [UInt8] = []
    private var reader = MessageReader(role: .client)
    private var isUpgraded = false
    private var heard: [String] = []
    /// The code of the hub's close frame, once it has arrived.
    private(set) var closeCode: UInt16?

    init(port: UInt16, usesTLS: Bool = false, isSilent: Bool = false, fields: String = "") throws {
        self.fields = fields
        guard let connected = Loopback.connection(to: port) else {
            throw TestClient.Failure(reason: "connect: \(errno)")
        }
        descriptor = connected
        // Sent bytes are on their way when the peer closes, even by a reset.
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
        wire = usesTLS ? try TLSWire() : nil
        tls = try wire.map { try TLSClient().session(host: "localhost", on: $0) }
        // Reading through TLS must not block.
        if usesTLS { _ = fcntl(descriptor, F_SETFL, O_NONBLOCK) }
        if !isSilent { begin() }
    }

    func begin() {
        if let tls { _ = tls.start(descriptor) } else { ask() }
    }

    private func ask() {
        hasAsked = true
        write(
            Array(
                ("GET /app/key?protocol=7 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n")
                    .utf8))
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Closes without a close frame: by a reset, or by ending the stream.
    func go(byReset: Bool = true) {
        if byReset {
            var abrupt = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &abrupt, socklen_t(MemoryLayout<linger>.size))
        }
        close(descriptor)
        descriptor = -1
    }

    func send(_ text: String) {
        var writer = ByteWriter()
        Array(text.utf8).withUnsafeBytes {
            FrameWriter.append(masked: Opcode.text, $0, mask: 0x1234_5678, to: &writer)
        }
        write(writer.array)
    }

    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    func write(_ bytes: [UInt8]) {
        if let tls {
            _ = bytes.withUnsafeBytes { tls.seal($0) }
            _ = tls.send(descriptor)
            return
        }
        _ = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    }

    func texts() throws -> [String] {
        try read()
        return heard
    }

    func socketID() throws -> SocketID? {
        guard let hello = try texts().first, let start = hello.firstRange(of: #"\"socket_id\":\""#)?.upperBound else {
            return nil
        }
        return Array(hello[start...].prefix { $0 != "\\" }.utf8).withUnsafeBytes { SocketID($0) }
    }

    private func received(_ chunk: inout [UInt8]) -> Int {
        guard let tls else { return recv(descriptor, &chunk, chunk.count, Int32(MSG_DONTWAIT)) }
        guard case .bytes(let count) = chunk.withUnsafeMutableBytes({ tls.receive(descriptor, into: $0) }) else {
            return 0
        }
        return count
    }

    private func read() throws {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while descriptor >= 0 {
            let count = received(&chunk)
            guard count > 0 else { break }
            buffer += chunk[..<count]
        }
        if let tls, tls.isEstablished, !hasAsked { ask() }
        if !isUpgraded {
            let end = Array("\r\n\r\n".utf8)
            guard let head = buffer.firstRange(of: end) else { return }
            buffer.removeFirst(head.upperBound)
            isUpgraded = true
        }
        var consumed = 0
        try buffer.withUnsafeMutableBytes { bytes in
            while let event = try reader.read(bytes, consumed: &consumed, limits: MessageLimits()) {
                switch event {
                case .text(let payload):
                    heard.append(payload.withUnsafeBytes(in: bytes) { String(decoding: $0, as: UTF8.self) })
                case .close(let code): closeCode = code?.rawValue ?? 1005
                case .binary, .ping, .pong: break
                }
            }
        }
        buffer.removeFirst(consumed)
    }
}
