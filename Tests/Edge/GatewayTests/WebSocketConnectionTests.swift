import Bytes
import Gateway
import Glibc
import HubEngine
import TestHub
import TestSupport
import Testing
import WebSocket

@Suite(.ownThread, .timeLimit(.minutes(15))) struct WebSocketConnectionTests {
    @Test func greetsAndAnswersPings() async throws {
        let fixture = try await GatewayFixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(#"{"event":"pusher:ping","data":{}}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
        try await client.send(Opcode.ping, Array("hey".utf8))
        #expect(try await client.next() == .pong("hey"))
    }

    @Test func controlFramesBetweenFragments() async throws {
        let fixture = try await GatewayFixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(Opcode.text, Array(#"{"event":"pusher"#.utf8), isFinal: false)
        try await client.send(Opcode.ping, Array("x".utf8))
        try await client.send(Opcode.continuation, Array(#":ping","data":{}}"#.utf8))
        #expect(try await client.next() == .pong("x"))
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    @Test func everyByteMayComeAlone() async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        let request =
            "GET /app/key HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        try await client.sendByteByByte(Array(request.utf8))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 101 "))
        var frame = ByteWriter()
        Array(#"{"event":"pusher:ping"}"#.utf8).withUnsafeBytes {
            FrameWriter.append(masked: Opcode.text, $0, mask: 77, to: &frame)
        }
        _ = try await client.next()
        try await client.sendByteByByte(frame.array)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    @Test func closeIsAnsweredInKind() async throws {
        let fixture = try await GatewayFixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(Opcode.close, [0x0B, 0xB8])
        #expect(try await client.next() == .close(3000))
        #expect(try await client.next() == .end)
    }

    private static let violations: [([UInt8], UInt16)] = [
        ([0x81, 0x01, 0x41], 1002),  // not masked
        ([0xC1, 0x80, 0, 0, 0, 0], 1002),  // reserved bit
        ([0x83, 0x80, 0, 0, 0, 0], 1002),  // unknown opcode
        ([0x81, 0x81, 0, 0, 0, 0, 0xFF], 1007),  // not UTF-8
        ([0x81, 0xFF, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0], 1009),  // a length of 1 GB
        ([0x82, 0x80, 0, 0, 0, 0], 1003),  // binary
        ([0x88, 0x81, 0, 0, 0, 0, 0x03], 1002),  // half a close code
    ]

    @Test(arguments: violations)
    func whatBreaksTheProtocolClosesWithTheRightCode(_ bytes: [UInt8], _ code: UInt16) async throws {
        let fixture = try await GatewayFixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.sendRaw(bytes)
        #expect(try await client.next() == .close(code))
        let (other, _) = try await TestClient.opened(port: fixture.port)
        try await other.send(#"{"event":"pusher:ping"}"#)
        #expect(try await other.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#), "the hub lives on")
    }

    @Test(arguments: ["nonsense", "[]", "{}", #"{"event":7}"#, #"{"event":"pusher:subscribe"}"#, "\u{0}"])
    func garbageIsToldAndTheConnectionStays(_ text: String) async throws {
        let fixture = try await GatewayFixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(text)
        guard case .text(let answer) = try await client.next() else {
            Issue.record("no answer")
            return
        }
        #expect(answer.hasPrefix(#"{"event":"pusher:error","data":{"code":null,"message":"#))
        try await client.send(#"{"event":"pusher:ping"}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    @Test(arguments: [
        ("/app/nobody?protocol=7", 4001 as UInt16), ("/app/key?protocol=99", 4007), ("/app/key?protocol=x", 4006),
    ])
    func refusalsCloseWithPushersCodes(_ path: String, _ code: UInt16) async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        try await client.upgrade(path)
        guard case .text(let first) = try await client.next() else {
            Issue.record("no pusher:error")
            return
        }
        #expect(first.contains("\"code\":\(code)"))
        #expect(try await client.next() == .close(code))
    }

    /// Bytes that the hub sends prove nothing: a half-open peer is detected only by its silence.
    @Test func aSilentPeerIsPingedAndThenClosed() async throws {
        let fixture = try await GatewayFixture {
            $0.timeouts.activity = .milliseconds(50)
            $0.timeouts.pong = .milliseconds(50)
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        #expect(try await client.next() == .ping)
        #expect(try await client.next() == .close(4201))
        #expect(try await client.next() == .end, "though our close frame is never answered")
    }

    @Test func anyByteIsASignOfLife() async throws {
        let fixture = try await GatewayFixture {
            $0.timeouts.activity = .milliseconds(30)
            $0.timeouts.pong = .seconds(60)
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        for _ in 0..<5 {
            #expect(try await client.next() == .ping)
            try await client.send(Opcode.pong, [])
        }
    }

    /// Its signin has failed, and pusher-js retries only on a new connection.
    @Test func aClientWhoseTokenIsNotVerifiedInTimeIsSentToTryAgain() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true) { $0.timeouts.activity = .milliseconds(100) }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.adherence"}}"#)
        var last = try await client.next()
        // On a busy machine the subscribe may come after the first check.
        while last == .ping {
            try await client.send(Opcode.pong, [])
            last = try await client.next()
        }
        #expect(last == .close(4200))
    }

    @Test func aPeerThatDoesNotReadIsLetGo() async throws {
        let fixture = try await GatewayFixture(loops: 1) {
            $0.limits.sendQueueBytesMax = 100_000
            $0.limits.controlFramesPerSecond = 0
            $0.timeouts.close = .milliseconds(200)
        }
        let client = try TestClient(port: fixture.port, receiveBuffer: 4_096)
        try await client.upgrade()
        var pings = ByteWriter()
        for _ in 0..<50 {
            Array(repeating: UInt8(ascii: "a"), count: 125).withUnsafeBytes {
                FrameWriter.append(masked: Opcode.ping, $0, mask: 0x1234_5678, to: &pings)
            }
        }
        // Each ping is answered; the answers are never read.
        await client.sendUntilRefused(pings.array)
        let (other, _) = try await TestClient.opened(port: fixture.port)
        try await other.send(#"{"event":"pusher:ping"}"#)
        #expect(try await other.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    /// An empty pong has two bytes on the wire, but needs many times that in memory.
    @Test func smallFramesAreBoundedByTheirNumber() async throws {
        let fixture = try await GatewayFixture(loops: 1) {
            $0.limits.sendQueueFramesMax = 1_000
            $0.limits.controlFramesPerSecond = 0
        }
        let client = try TestClient(port: fixture.port, receiveBuffer: 4_096)
        try await client.upgrade()
        var pings = ByteWriter()
        for _ in 0..<1_000 {
            FrameWriter.append(masked: Opcode.ping, UnsafeRawBufferPointer(start: nil, count: 0), mask: 7, to: &pings)
        }
        await client.sendUntilRefused(pings.array)
        let (other, _) = try await TestClient.opened(port: fixture.port)
        try await other.send(#"{"event":"pusher:ping"}"#)
        #expect(try await other.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    /// A tick's output is offered to the socket before the bound is checked.
    @Test func aBurstInOneTickReachesAReader() async throws {
        let fixture = try await GatewayFixture(loops: 1) { $0.limits.sendQueueBytesMax = 1_000 }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        var pings = ByteWriter()
        for _ in 0..<100 {
            Array(repeating: UInt8(ascii: "a"), count: 125).withUnsafeBytes {
                FrameWriter.append(masked: Opcode.ping, $0, mask: 0x1234_5678, to: &pings)
            }
        }
        try await client.sendRaw(pings.array)
        for _ in 0..<100 { #expect(try await client.next() == .pong(String(repeating: "a", count: 125))) }
    }

    @Test func messagesAreBoundedAtTheLimit() async throws {
        let fixture = try await GatewayFixture { $0.limits.messageBytesMax = 1_024 }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(Opcode.text, [UInt8](repeating: 0x20, count: 1_024))
        guard case .text = try await client.next() else {
            Issue.record("a message at the limit is read")
            return
        }
        try await client.send(Opcode.text, [UInt8](repeating: 0x20, count: 1_025))
        #expect(try await client.next() == .close(1009))
    }

    /// pusher-js reconnects a second after it, when a successor may listen.
    @Test func whatIsOpenIsClosedWith1001AtTheEnd() async throws {
        var fixture: GatewayFixture? = try await GatewayFixture()
        let (client, _) = try await TestClient.opened(port: try #require(fixture).port)
        fixture = nil
        #expect(try await client.next() == .close(1001))
    }

    /// Otherwise all others would be refused a second later and wait fifteen. Clients that answer no close frame, or stay
    /// silent, delay the end only by the farewell timeout.
    @Test func theSilentDoNotHoldUpTheEnd() async throws {
        let fixture = try await GatewayFixture { $0.timeouts.close = .seconds(600) }
        let (silent, _) = try await TestClient.opened(port: fixture.port)
        let (closed, _) = try await TestClient.opened(port: fixture.port)
        try await closed.send(Opcode.binary, [0])
        #expect(try await closed.next() == .close(1003))
        let asked = try TestClient(port: fixture.port)
        try await asked.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        #expect(try await asked.response().head.hasPrefix("HTTP/1.1 404 "))
        let start = ContinuousClock.now
        await fixture.end().value
        #expect(ContinuousClock.now - start < .seconds(300))
        #expect(try await silent.next() == .close(1001))
    }

    // MARK: Identity

    private func subscribe(_ channel: String) -> String {
        #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)"}}"#
    }

    /// The ping after a token is answered after the token's answer: nothing overtakes the identity.
    @Test func inputWaitsForTheToken() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let token = try await GatewayFixture.token("u1")
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(#"{"event":"sync:auth","data":{"token":"\#(token)"}}"#)
        try await client.send(subscribe("user.u2.adherence"))
        try await client.send(#"{"event":"pusher:ping"}"#)
        guard case .text(let first) = try await client.next(), case .text(let second) = try await client.next() else {
            Issue.record("too few answers")
            return
        }
        #expect(first.hasPrefix(#"{"event":"sync:auth_ok""#))
        #expect(second.hasPrefix(#"{"event":"pusher:subscription_error","channel":"user.u2.adherence""#))
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    @Test func aBadTokenIsToldAndTheConnectionStays() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let (client, _) = try await TestClient.opened(port: fixture.port)
        let expired = try await GatewayFixture.token("u1", expiresAt: 1_000)
        let forged = try await GatewayFixture.token("u1", secret: "another secret of thirty-two bytes or so")
        for (token, message) in [
            (expired, "has expired"), (forged, "signature is wrong"), ("x.y.z", "not a JSON Web Token"),
        ] {
            try await client.send(#"{"event":"sync:auth","data":{"token":"\#(token)"}}"#)
            guard case .text(let answer) = try await client.next() else {
                Issue.record("no answer")
                return
            }
            #expect(answer.contains(message))
            #expect(!answer.contains(token))
        }
        try await client.send(#"{"event":"pusher:ping"}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    @Test func theUpgradeMayCarryTheToken() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let token = try await GatewayFixture.token("u1")
        let client = try TestClient(port: fixture.port)
        try await client.upgrade(fields: "Authorization: Bearer \(token)\r\n")
        _ = try await client.next()
        guard case .text(let second) = try await client.next() else {
            Issue.record("no answer")
            return
        }
        #expect(second.hasPrefix(#"{"event":"sync:auth_ok""#))
        let expired = try await GatewayFixture.token("u1", expiresAt: 1_000)
        let other = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) {
            try await other.upgrade(fields: "Authorization: Bearer \(expired)\r\n")
        }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 401 ") == true)
    }

    // MARK: Bounds on connections

    @Test func connectionsAreBounded() async throws {
        let fixture = try await GatewayFixture(loops: 1) { $0.admission.connectionsMax = 2 }
        let (one, _) = try await TestClient.opened(port: fixture.port)
        let (two, _) = try await TestClient.opened(port: fixture.port)
        let third = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) { try await third.upgrade() }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 503 ") == true)
        #expect(failure?.reason.contains("Retry-After: ") == true)
        withExtendedLifetime((one, two)) {}
    }

    @Test func connectionsOfOneAddressAreBounded() async throws {
        let fixture = try await GatewayFixture(loops: 1) { $0.admission.connectionsPerAddressMax = 1 }
        let (one, _) = try await TestClient.opened(port: fixture.port)
        let second = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) { try await second.upgrade() }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 429 ") == true)
        let exempt = try await GatewayFixture {
            $0.admission.connectionsPerAddressMax = 1
            $0.admission.exemptsLoopback = true
        }
        let (three, _) = try await TestClient.opened(port: exempt.port)
        let (four, _) = try await TestClient.opened(port: exempt.port)
        withExtendedLifetime((one, three, four)) {}
    }

    @Test func foreignOriginsAreRefused() async throws {
        let fixture = try await GatewayFixture { $0.origins = .only(["https://app.example"]) }
        let client = try TestClient(port: fixture.port)
        try await client.upgrade(fields: "Origin: https://app.example\r\n")
        let other = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) {
            try await other.upgrade(fields: "Origin: https://evil.example\r\n")
        }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 403 ") == true)
    }
}
