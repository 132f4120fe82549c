import HTTP
import Reactor
import TestHub
import TestSupport
import Testing

@testable import Gateway

@Suite(.ownThread, .timeLimit(.minutes(15))) struct MemoryBudgetTests {
    @Test func theLargestGoUntilAnEighthIsFree() {
        var held = HeldBytes(bytesMax: 800)
        for bytes in [100, 300, 200, 200] as [UInt32] { held.moved(from: 0, to: bytes) }
        #expect(held.bytes == 800)
        #expect(!held.isExceeded, "at the bound")
        held.moved(from: 100, to: 101)
        #expect(held.isExceeded, "one past it")
        let holders = [(bytes: 101 as UInt32, holder: "a"), (300, "b"), (200, "c"), (200, "d")]
        #expect(held.excess(of: holders).map(\.holder) == ["b"])
        held.moved(from: 200, to: 500)
        // 1,101 bytes are held, 700 may stay.
        let larger = [(bytes: 101 as UInt32, holder: "a"), (300, "b"), (500, "c"), (200, "d")]
        #expect(held.excess(of: larger).map(\.holder) == ["c"])
        held.moved(from: 200, to: 600)
        let largest = [(bytes: 101 as UInt32, holder: "a"), (300, "b"), (500, "c"), (600, "d")]
        #expect(held.excess(of: largest).map(\.holder) == ["d", "c"])
        #expect(held.excess(of: [(bytes: 101 as UInt32, holder: "a")]).map(\.holder) == ["a"], "and no more")
    }

    /// As for the engine's share (`IdleSizeTests`).
    @Test func aConnectionStaysSmall() { #expect(instanceBytes(of: ClientConnection.self) <= 168) }

    /// When many connect at once, its freed block is reused by the session and two stream records: 144, 64 and 64 bytes
    /// including the allocator's overhead. A larger block would leave unusable memory.
    @Test func aConversationLeavesNoHole() { #expect(instanceBytes(of: HTTPConversation.self) <= 264) }

    /// With many loops, each has room for one connection's send queue, and at least its share.
    @Test(arguments: [(1, 256), (8, 32), (32, 8), (33, 8), (64, 8)])
    func aLoopHasRoomForOneQueue(_ loops: Int, _ megabytes: Int) throws {
        var configuration = GatewayConfiguration()
        configuration.loops = loops
        let budget = MemoryBudget(on: try EventLoop(), configuration, GatewayMetrics())
        #expect(budget.queued.bytesMax == megabytes << 20)
    }

    private struct Answer: HTTPRoutes {
        let byteCount: Int

        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            HTTPResponse(.ok, body: [UInt8](repeating: UInt8(ascii: "x"), count: byteCount))
        }
    }

    /// An answer longer than its loop's bound is refused, not begun: a long list of channels would otherwise never arrive,
    /// without an explanation.
    @Test(arguments: [false, true]) func anAnswerBeyondTheBoundIsRefused(_ isBeyond: Bool) async throws {
        let bound = 4 << 20
        let byteCount = bound - HTTPResponse.headBytesMax + (isBeyond ? 1 : 0)
        let fixture = try await GatewayFixture(loops: 2, routes: Answer(byteCount: byteCount)) {
            $0.limits.sendQueuesBytesMax = 2 * bound
            $0.limits.sendQueueBytesMax = 1_000
        }
        let client = try TestClient(port: fixture.port, receiveBuffer: 65_536)
        for _ in 0..<2 {
            try await client.sendRaw("GET /long HTTP/1.1\r\nHost: h\r\n\r\n")
            let (head, body) = try await client.response()
            #expect(head.hasPrefix(isBeyond ? "HTTP/1.1 503 " : "HTTP/1.1 200 "))
            #expect(isBeyond ? body.contains("limits.sendQueuesBytes") : body.utf8.count == byteCount)
        }
    }

    /// The start of a client's text frame that announces more than is sent.
    private func beginning(_ count: Int) -> [UInt8] {
        [0x81, 0xFE, 0x7F, 0xFF, 0, 0, 0, 0] + [UInt8](repeating: 0x20, count: count)
    }

    private func ping(_ client: TestClient) async throws {
        try await client.send(#"{"event":"pusher:ping"}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    /// Waits until that many bytes are held: with two cores, bytes sent before a ping may be read after it.
    private func reach(_ bytes: Int, _ metrics: GatewayMetrics, _ client: TestClient) async throws {
        while metrics.held.unfinishedBytes.level != bytes { try await ping(client) }
    }

    @Test func unfinishedMessagesAreBoundedInAll() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.limits.messageBytesMax = 32_767
            $0.limits.unfinishedBytesMax = 300_000
            $0.httpLimits.bodyBytes = 65_536
        }
        let (healthy, _) = try await TestClient.opened(port: fixture.port)
        var clients: [TestClient] = []
        for _ in 0..<10 {
            let (client, _) = try await TestClient.opened(port: fixture.port)
            try await client.sendRaw(beginning(30_000))
            clients.append(client)
        }
        try await reach(300_000, metrics, healthy)
        #expect(metrics.overloads["unfinished_full"].count == 0, "at the bound")
        try await clients[3].sendRaw([0x20])
        #expect(try await clients[3].next() == .close(4100), "one past it")
        var others = clients
        others.remove(at: 3)
        try await ping(healthy)
        // Down to an eighth below the bound: the largest, and one other.
        #expect(metrics.overloads["unfinished_full"].count == 2)
        #expect(metrics.held.unfinishedBytes.level == 240_000)
        var finished = 0
        for client in others {
            // A closed client's socket may close during the write.
            try? await client.sendRaw([UInt8](repeating: 0x20, count: 2_767))
            switch try await client.next() {
            case .text(let answer):
                #expect(answer.contains("Invalid JSON"))
                finished += 1
            case let other: #expect(other == .close(4100))
            }
        }
        #expect(finished == 8)
        try await ping(healthy)
        #expect(metrics.held.unfinishedBytes.level == 0)
    }

    @Test func unfinishedRequestsAreToldToComeLater() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.limits.messageBytesMax = 100
            $0.limits.unfinishedBytesMax = 1
            $0.httpLimits.bodyBytes = 4_096
        }
        // A loop has room for one request, however small its share: these are one too many.
        let head = "POST /users/u1/adherence/actions HTTP/1.1\r\nHost: h\r\nContent-Length: 4096\r\n\r\n"
        var limits = HTTPLimits()
        limits.bodyBytes = 4_096
        let room = limits.messageBytes
        var clients: [TestClient] = []
        for _ in 0...room / 4_096 {
            let client = try TestClient(port: fixture.port)
            try await client.sendRaw(head + String(repeating: "x", count: 4_095))
            clients.append(client)
        }
        let (healthy, _) = try await TestClient.opened(port: fixture.port)
        try await ping(healthy)
        #expect(metrics.overloads["unfinished_full"].count > 0)
        let refused = metrics.overloads["unfinished_full"].count
        var answers = 0
        for client in clients {
            try? await client.sendRaw("x")
            let (head, _) = try await client.response()
            if head.hasPrefix("HTTP/1.1 503 "), head.contains("Retry-After: ") { answers += 1 }
        }
        #expect(answers == Int(refused))
        #expect(metrics.held.unfinishedBytes.level == 0)
    }

    @Test func whatIsGoneHoldsNothing() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics)
        let (healthy, _) = try await TestClient.opened(port: fixture.port)
        var client: TestClient? = try await TestClient.opened(port: fixture.port).0
        try await client?.sendRaw(beginning(1_000))
        try await reach(1_000, metrics, healthy)
        client = nil
        while fixture.gateway.connectionCount > 1 { try await ping(healthy) }
        #expect(metrics.held.unfinishedBytes.level == 0)
        #expect(metrics.held.queuedBytes.level == 0)
    }
}
