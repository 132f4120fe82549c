import HTTP
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Unread HTTP answers: only a few are made per connection. None is lost when they are read later, even if the client has
/// ended its sending side.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct UnreadAnswersTests {
    /// Gives the same long answer to every request, at once or later.
    private struct LongAnswers: HTTPRoutes {
        static let byteCount = 100_000
        let isLater: Bool

        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            let response = HTTPResponse(.ok, body: [UInt8](repeating: UInt8(ascii: "x"), count: Self.byteCount))
            guard isLater else { return response }
            exchange.respond(response)
            return nil
        }
    }

    enum Shape: CaseIterable {
        case inOneWrite, eachInItsOwn, answeredLater
    }

    private static let request = "GET /long HTTP/1.1\r\nHost: h\r\n\r\n"
    /// Together far more than the kernel buffers for a connection, at both ends.
    private static let requestCount = 300

    private func answersPing(_ client: TestClient) async throws {
        try await client.send(#"{"event":"pusher:ping","data":{}}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    /// The most that is queued while the client reads nothing: the bound under which a request is begun, plus its answer.
    @Test(arguments: Shape.allCases) func requestsWaitForTheirAnswersToBeRead(_ shape: Shape) async throws {
        let metrics = GatewayMetrics()
        let answerBytesMax = 150_000
        let fixture = try await GatewayFixture(
            loops: 1, metrics: metrics, routes: LongAnswers(isLater: shape == .answeredLater)
        ) {
            $0.limits.answerBytesMax = answerBytesMax
            $0.limits.requestsPerTurnMax = 1_000
        }
        // Not smaller: with a window below a segment, the test would measure the kernel's own pauses.
        let client = try TestClient(port: fixture.port, receiveBuffer: 65_536)
        let (other, _) = try await TestClient.opened(port: fixture.port)
        var largest = 0
        if shape == .eachInItsOwn {
            for _ in 0..<Self.requestCount {
                try await client.sendRaw(Self.request)
                // The loop has read everything sent before.
                try await answersPing(other)
                largest = max(largest, metrics.held.queuedBytes.level)
            }
        } else {
            try await client.sendRaw(String(repeating: Self.request, count: Self.requestCount))
            while metrics.held.queuedBytes.level <= answerBytesMax { try await answersPing(other) }
            for _ in 0..<2 * Self.requestCount {
                try await answersPing(other)
                largest = max(largest, metrics.held.queuedBytes.level)
            }
        }
        #expect(largest > answerBytesMax)
        #expect(largest <= answerBytesMax + LongAnswers.byteCount + 1_000)
        for _ in 0..<Self.requestCount {
            #expect(try await client.response().body.utf8.count == LongAnswers.byteCount)
        }
        try await answersPing(other)
        #expect(metrics.held.queuedBytes.level == 0)
    }

    /// `nc -N`: a client that ends its sending side still reads.
    @Test(arguments: [false, true]) func aClientThatAsksNoMoreGetsAllAnswers(_ isLater: Bool) async throws {
        let fixture = try await GatewayFixture(loops: 1, routes: LongAnswers(isLater: isLater)) {
            $0.limits.answerBytesMax = 64 << 20
            $0.limits.requestsPerTurnMax = 1_000
        }
        let client = try TestClient(port: fixture.port, receiveBuffer: 65_536)
        try await client.sendRaw(String(repeating: Self.request, count: Self.requestCount))
        client.endSending()
        let (other, _) = try await TestClient.opened(port: fixture.port)
        for _ in 0..<20 { try await answersPing(other) }
        for _ in 0..<Self.requestCount {
            #expect(try await client.response().body.utf8.count == LongAnswers.byteCount)
        }
        #expect(try await client.next() == .end)
    }
}
