import Bytes
import Glibc
import TestHub
import TestSupport
import Testing
import WebSocket

@testable import Gateway

/// Abuse by clients: each kind has a limit, and a client that exceeds it is stopped and counted. At the bound nothing
/// happens.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct AbuseTests {
    private static let ping = #"{"event":"pusher:ping","data":{}}"#
    private static let pong = TestClient.Received.text(#"{"event":"pusher:pong","data":"{}"}"#)

    private func frames(_ opcode: UInt8, _ payload: String, _ count: Int) -> [UInt8] {
        var writer = ByteWriter()
        for _ in 0..<count {
            Array(payload.utf8).withUnsafeBytes {
                FrameWriter.append(masked: opcode, $0, mask: 0x1234_5678, to: &writer)
            }
        }
        return writer.array
    }

    private func reached(_ limit: String, _ metrics: GatewayMetrics) -> Int? {
        let line = "carillon_limits_reached_total{limit=\"\(limit)\"} "
        guard let start = metrics.text.range(of: line)?.upperBound else { return nil }
        return Int(metrics.text[start...].prefix { $0.isNumber })
    }

    private func lives(_ client: TestClient) async throws {
        try await client.send(Self.ping)
        #expect(try await client.next() == Self.pong)
    }

    // MARK: Floods

    @Test func messagesAreBoundedInTime() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.limits.messagesPerSecond = 1
            $0.limits.messagesBurst = 5
        }
        let (other, _) = try await TestClient.opened(port: fixture.port)
        let (client, _) = try await TestClient.opened(port: fixture.port)
        // Sent in one write, so one turn of the loop handles it, with a constant clock.
        try await client.sendRaw(frames(Opcode.text, Self.ping, 5))
        for _ in 0..<5 { #expect(try await client.next() == Self.pong) }
        #expect(reached("limits.messagesPerSecond", metrics) == 0)
        try await client.sendRaw(frames(Opcode.text, Self.ping, 6))
        var last = try await client.next()
        while last == Self.pong { last = try await client.next() }
        #expect(last == .close(4100))
        #expect(reached("limits.messagesPerSecond", metrics) == 1)
        try await lives(other)
    }

    private static func blanks(before text: String, _ bytes: Int) -> String {
        String(repeating: " ", count: bytes - text.utf8.count) + text
    }

    /// One token, plus one per 4 KiB; a compressed message counts by its decompressed size.
    @Test(arguments: [(4_095, 1), (4_096, 2), (61_439, 15), (61_440, 16)])
    func aLargeMessageIsSeveral(_ bytes: Int, _ cost: Int) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.limits.messagesPerSecond = 1
            $0.limits.messagesBurst = cost
        }
        let long = frames(Opcode.text, Self.blanks(before: Self.ping, bytes), 1)
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.sendRaw(long)
        #expect(try await client.next() == Self.pong)
        let (other, _) = try await TestClient.opened(port: fixture.port)
        try await other.sendRaw(frames(Opcode.text, Self.ping, 1) + long)
        #expect(try await other.next() == Self.pong)
        #expect(try await other.next() == .close(4100))
        #expect(reached("limits.messagesPerSecond", metrics) == 1)
    }

    /// A client that was silent long enough may send the largest message, however small the burst is.
    @Test func theLargestMessageIsNoFlood() async throws {
        let fixture = try await GatewayFixture(loops: 1) {
            $0.limits.messagesPerSecond = 1
            $0.limits.messagesBurst = 1
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(Self.blanks(before: Self.ping, 65_536))
        #expect(try await client.next() == Self.pong)
    }

    @Test(arguments: [Opcode.ping, Opcode.pong]) func controlFramesAreBoundedInTime(_ opcode: UInt8) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.limits.controlFramesPerSecond = 1
            $0.limits.controlFramesBurst = 5
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.sendRaw(frames(opcode, "x", 5))
        if opcode == Opcode.ping { for _ in 0..<5 { #expect(try await client.next() == .pong("x")) } }
        try await lives(client)
        #expect(reached("limits.controlFramesPerSecond", metrics) == 0)
        try await client.sendRaw(frames(opcode, "x", 6))
        var last = try await client.next()
        while last == .pong("x") { last = try await client.next() }
        #expect(last == .close(4100))
        #expect(reached("limits.controlFramesPerSecond", metrics) == 1)
        let (other, _) = try await TestClient.opened(port: fixture.port)
        try await lives(other)
    }

    /// Also empty ones: they need no memory, but would never end.
    @Test(arguments: ["", "a"]) func fragmentsAreCounted(_ fragment: String) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) { $0.limits.messageFragmentsMax = 3 }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        let piece = Array(fragment.utf8)
        for isOver in [false, true] {
            try await client.send(Opcode.text, piece, isFinal: false)
            try await client.send(Opcode.continuation, piece, isFinal: false)
            if isOver { try await client.send(Opcode.continuation, piece, isFinal: false) }
            try await client.send(Opcode.continuation, piece, isFinal: true)
            if isOver {
                #expect(try await client.next() == .close(1008))
            } else if case .text = try await client.next() {
                #expect(reached("limits.messageFragments", metrics) == 0)
            } else {
                Issue.record("a message at the limit is read")
            }
        }
        #expect(reached("limits.messageFragments", metrics) == 1)
    }

    @Test func connectsAreBoundedInTime() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            // One connect per quarter of an hour: no machine is that slow.
            $0.admission.addressConnectsPerSecond = 1
            $0.admission.addressConnectsBurst = 3
            $0.admission.addressConnectsWaitingMax = 0
            $0.admission.refusalsPerAddressMax = 1
        }
        var clients: [TestClient] = []
        var refusal: TestClient.Failure?
        for _ in 0..<100 where refusal == nil {
            let client = try TestClient(port: fixture.port)
            do { try await client.upgrade() } catch let failure as TestClient.Failure { refusal = failure }
            clients.append(client)
        }
        #expect(clients.count > 3)
        #expect(refusal?.reason.hasPrefix("HTTP/1.1 429 ") == true)
        #expect(refusal?.reason.contains("Retry-After: ") == true)
        #expect(metrics.text.contains("carillon_connections_refused_total{reason=\"address_fast\"} 1\n"))
    }

    // MARK: Endless input

    @Test(
        arguments: [
            [0x81], [0x81, 0xFE, 0x10], [0x81, 0x85, 1, 2, 3, 4, 0x61], [0x01, 0x81, 0, 0, 0, 0, 0x61],
            [0x01, 0x80, 0, 0, 0, 0, 0x00, 0x80, 0, 0, 0, 0], [0x89, 0x85, 1, 2, 3, 4],
        ] as [[UInt8]])
    func aMessageHasItsTime(_ beginning: [UInt8]) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) { $0.timeouts.message = .milliseconds(100) }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await lives(client)
        try await client.sendRaw(beginning)
        #expect(try await client.next() == .close(1008))
        #expect(try await client.next() == .end)
        #expect(reached("messageTimeout", metrics) == 1)
    }

    /// Whatever else the peer sends, and however small the missing part is.
    @Test func pingsDoNotProlongAMessage() async throws {
        let fixture = try await GatewayFixture {
            $0.timeouts.message = .milliseconds(100)
            $0.limits.controlFramesPerSecond = 0
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(Opcode.text, [0x7B], isFinal: false)
        var last = TestClient.Received.pong("x")
        while last == .pong("x") {
            try? await client.send(Opcode.ping, Array("x".utf8))
            last = try await client.next()
        }
        #expect(last == .close(1008))
    }

    /// The message timeout does not apply to the silence after it.
    @Test func aMessageThatWasFinishedIsForgotten() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.timeouts.message = .seconds(5)
            $0.timeouts.activity = .seconds(6)
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.sendByteByByte(frames(Opcode.text, Self.ping, 1))
        #expect(try await client.next() == Self.pong)
        #expect(try await client.next() == .ping, "a silent client is pinged, and no more")
        #expect(reached("messageTimeout", metrics) == 0)
    }

    /// Half of the time, when the rate is checked, leaves room for a busy machine.
    @Test(arguments: [(500, 12, "limits.requestBytesPerSecond"), (0, 1, "handshakeTimeout")])
    func aSlowRequestIsCutOff(_ least: Int, _ seconds: Int, _ limit: String) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.timeouts.handshake = .seconds(seconds)
            $0.limits.requestBytesPerSecondMin = least
        }
        var clients: [TestClient] = []
        for beginning in ["GET / HTTP/1.1\r\nHost:", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc"] {
            let client = try TestClient(port: fixture.port)
            try await client.sendRaw(beginning)
            clients.append(client)
        }
        for client in clients {
            #expect(try await client.response().head.hasPrefix("HTTP/1.1 408 "))
            #expect(try await client.next() == .end)
        }
        #expect(reached(limit, metrics) == 2)
    }

    @Test func aLostClientIsCounted() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.timeouts.activity = .milliseconds(50)
            $0.timeouts.pong = .milliseconds(50)
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        #expect(try await client.next() == .ping)
        #expect(try await client.next() == .close(4201))
        #expect(reached("pongTimeout", metrics) == 1)
    }

    @Test func largeMessagesAreCounted() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) { $0.limits.messageBytesMax = 100 }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(Self.blanks(before: Self.ping, 100))
        #expect(try await client.next() == Self.pong)
        #expect(reached("limits.messageBytes", metrics) == 0)
        try await client.send(Self.blanks(before: Self.ping, 101))
        #expect(try await client.next() == .close(1009))
        #expect(reached("limits.messageBytes", metrics) == 1)
    }

    @Test func aClientOfAFullHubIsCounted() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.admission.connectionsMax = 1
            $0.admission.refusalsMax = 1
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        #expect(metrics.text.contains("carillon_connections_refused_total{reason=\"hub_full\"} 0\n"))
        let told = try TestClient(port: fixture.port)
        while fixture.gateway.connectionCount < 2 { await Task.yield() }
        let unheard = try TestClient(port: fixture.port)
        #expect(try await unheard.next() == .end)
        #expect(metrics.text.contains("carillon_connections_refused_total{reason=\"hub_full\"} 2\n"))
        #expect(metrics.text.contains("carillon_connections_shut_total 1\n"))
        try await told.sendRaw(Self.request)
        #expect(try await told.response().head.hasPrefix("HTTP/1.1 503 "))
        try await lives(client)
    }

    /// One frame beyond the bound may wait for a client that does not read.
    @Test func aClientThatDoesNotReadIsCounted() async throws {
        let hub = try await DrivenHub { $0.limits.sendQueueBytesMax = 1_000_000 }
        let peer = try hub.open()
        let connection = try #require(try hub.connection(of: peer))
        // Far more than the kernel buffers for a client that does not read.
        for _ in 0..<64 { connection.queue(SharedBytes.copy(String(repeating: " ", count: 256 << 10))) }
        hub.turn()
        #expect(connection.phase != .open)
        #expect(hub.metrics.overloads["send_queue_full"].count == 1)
        let other = try hub.open()
        let small = try #require(try hub.connection(of: other))
        small.queue(SharedBytes.copy(String(repeating: " ", count: 1_000_000)))
        hub.turn()
        #expect(small.phase == .open, "at the bound")
        #expect(hub.metrics.overloads["send_queue_full"].count == 1)
    }

    @Test func aSilentClientIsCounted() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) { $0.timeouts.handshake = .milliseconds(50) }
        let silent = try TestClient(port: fixture.port)
        #expect(try await silent.next() == .end)
        #expect(reached("handshakeTimeout", metrics) == 1)
    }

    /// The client reads nothing, though its machine acknowledges: the kernel ends the connection.
    @Test func whatIsNotTakenIsGivenUp() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) { $0.timeouts.unacked = .milliseconds(300) }
        let client = try TestClient(port: fixture.port, receiveBuffer: 2_048)
        try await client.upgrade()
        try await client.sendRaw(frames(Opcode.text, Self.ping, 1_500))
        while reached("unackedTimeout", metrics) != 1 { await Task.yield() }
        while fixture.gateway.connectionCount > 0 { await Task.yield() }
    }

    // MARK: Pipelining

    private static let request = "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"

    @Test func requestsSentAheadTakeTurns() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) { $0.limits.requestsPerTurnMax = 4 }
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(String(repeating: Self.request, count: 4))
        for _ in 0..<4 { #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 ")) }
        #expect(reached("pipelining", metrics) == 0)
        try await client.sendRaw(String(repeating: Self.request, count: 400))
        for _ in 0..<400 { #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 ")) }
        #expect(try #require(reached("pipelining", metrics)) > 50)
        let (other, _) = try await TestClient.opened(port: fixture.port)
        try await lives(other)
    }

    @Test(arguments: [
        (String(repeating: "A: b\r\n", count: 65), 431, "limits.headBytes"),
        ("Content-Length: 99999999\r\n", 413, "limits.bodyBytes"),
        // Refused by the total size with its chunks, before the last chunk arrives.
        (
            "Transfer-Encoding: chunked\r\n\r\n"
                + String(repeating: "1;\(String(repeating: "x", count: 250))\r\na\r\n", count: 5_100) + "9EC00\r\n",
            413, "limits.bodyBytes"
        ),
    ])
    func largeRequestsAreCounted(_ fields: String, _ status: Int, _ limit: String) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n")
        let (head, body) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 \(status) "))
        #expect(status == 431 || body.contains("larger than this hub allows"))
        #expect(reached(limit, metrics) == 1)
        #expect(metrics.text.contains("carillon_http_responses_total{status=\"\(status)\"} 1\n"))
    }
}
