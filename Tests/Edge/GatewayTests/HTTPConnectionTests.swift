import Foundation
import Gateway
import HTTP
import HubEngine
import TestHub
import TestSupport
import Testing

@Suite(.ownThread, .timeLimit(.minutes(15))) struct HTTPConnectionTests {
    /// Answers `/later` from another thread with the request's body; otherwise a POST gets 401, and a GET 404.
    private struct SomeLater: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            guard request.path == "/later" else {
                return request.method == .post ? .problem(.unauthorized, "Who asks?") : .problem(.notFound, "Nothing.")
            }
            Thread.detachNewThread { exchange.respond(HTTPResponse(.ok, body: request.body)) }
            return nil
        }
    }

    private func post(_ path: String, _ body: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
        let fixture = try await GatewayFixture(routes: SomeLater())
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(
            post("/later", "first") + "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" + post("/", "x")
                + post("/later", "last"))
        let expected: [(Int, String?)] = [(200, "first"), (404, nil), (401, nil), (200, "last")]
        for (status, body) in expected {
            let answer = try await client.response()
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "))
            if let body { #expect(answer.body == body) }
        }
    }

    /// Each request is answered, however they are cut.
    @Test func requestsMayComeInPieces() async throws {
        let fixture = try await GatewayFixture(loops: 1, routes: SomeLater())
        var random = SeededRandom()
        var (requests, statuses): ([UInt8], [String]) = ([], [])
        for _ in 0..<60 {
            let padding = String(repeating: "x", count: .random(in: 0..<3_000, using: &random))
            let isPost = Bool.random(using: &random)
            let request =
                isPost
                ? post("/", padding) : "GET /nothing HTTP/1.1\r\nHost: h\r\nPadding: \(padding)\r\n\r\n"
            requests += Array(request.utf8)
            statuses.append(isPost ? "HTTP/1.1 401 " : "HTTP/1.1 404 ")
        }
        let client = try TestClient(port: fixture.port)
        var at = 0
        while at < requests.count {
            let end = min(requests.count, at + .random(in: 1..<4_000, using: &random))
            try await client.sendRaw(Array(requests[at..<end]))
            at = end
        }
        for status in statuses {
            #expect(try await client.response().head.hasPrefix(status), "CARILLON_SEED=\(random.seed)")
        }
    }

    @Test(arguments: [
        ("NONSENSE\r\n\r\n", 400), ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505),
        ("BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\n\r\n", 413),
        ("GET /" + String(repeating: "a", count: 8_000) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414),
        ("GET / HTTP/1.1\r\nHost: h\r\nX: " + String(repeating: "a", count: 9_000) + "\r\n\r\n", 431),
        ("GET /app/key HTTP/1.1\r\nHost: h\r\n\r\n", 426),
    ])
    func brokenRequestsGetTheirStatusAndAreCutOff(_ request: String, _ status: Int) async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(request)
        let answer = try await client.response()
        #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "))
        #expect(answer.head.contains("Connection: close\r\n"))
        #expect(try await client.next() == .end)
    }

    @Test func aSlowHeadIsCutOff() async throws {
        // Long enough for a busy machine to begin the slow request in time.
        let fixture = try await GatewayFixture { $0.timeouts.handshake = .seconds(2) }
        let silent = try TestClient(port: fixture.port)
        #expect(try await silent.next() == .end, "nothing was asked, so nothing is answered")
        let slow = try TestClient(port: fixture.port)
        try await slow.sendRaw("GET / HTTP/1.1\r\nHost:")
        #expect(try await slow.response().head.hasPrefix("HTTP/1.1 408 "))
        #expect(try await slow.next() == .end)
    }

    @Test func aKeptConnectionIsClosedWhenItIdles() async throws {
        let fixture = try await GatewayFixture { $0.timeouts.keepAlive = .milliseconds(100) }
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await client.response().head.contains("Connection: keep-alive\r\n"))
        #expect(try await client.next() == .end)
    }

    @Test func aHeadHasNoBody() async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw("HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        #expect(try await client.response().body == "")
        #expect(try await client.next() == .end)
    }

    // MARK: Long answers

    private struct LongAnswer: HTTPRoutes {
        static let byteCount = 24 << 20

        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            request.path == "/long"
                ? HTTPResponse(.ok, body: [UInt8](repeating: UInt8(ascii: "x"), count: Self.byteCount))
                : .problem(.notFound, "Nothing.")
        }
    }

    /// A slow reader gets a long answer whole, even as the connection's last one, though it takes several times the close
    /// timeout and the keep-alive timeout.
    @Test(arguments: [true, false]) func aSlowReaderGetsAllOfALongAnswer(_ isLast: Bool) async throws {
        let fixture = try await GatewayFixture(loops: 1, routes: LongAnswer()) {
            $0.timeouts.close = .milliseconds(20)
            $0.timeouts.keepAlive = .milliseconds(20)
            $0.timeouts.stalled = .seconds(600)
        }
        let reader = try TestClient(port: fixture.port, receiveBuffer: 4_096)
        try await reader.sendRaw("GET /long HTTP/1.1\r\nHost: h\r\n\(isLast ? "Connection: close\r\n" : "")\r\n")
        var left = LongAnswer.byteCount
        let head = try await reader.readHeadOnly()
        #expect(head.contains("Content-Length: \(left)\r\n"))
        for _ in 0..<5 {
            // One that was answered meanwhile is closed when its keep-alive timeout is over.
            let other = try TestClient(port: fixture.port)
            try await other.sendRaw("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            _ = try await other.response()
            #expect(eventually { fixture.connections <= 1 })
            try await reader.discard(100_000)
            left -= 100_000
        }
        try await reader.discard(left)
        #expect(fixture.connections <= 1)
    }

    /// A client that takes nothing of it cannot keep it for ever.
    @Test(arguments: [true, false]) func aClientThatReadsNothingOfAnAnswerIsCutOff(_ isLast: Bool) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics, routes: LongAnswer()) {
            $0.timeouts.close = .milliseconds(20)
            $0.timeouts.keepAlive = .milliseconds(20)
            $0.timeouts.stalled = .milliseconds(300)
        }
        let reader = try TestClient(port: fixture.port, receiveBuffer: 4_096)
        try await reader.sendRaw("GET /long HTTP/1.1\r\nHost: h\r\n\(isLast ? "Connection: close\r\n" : "")\r\n")
        _ = try await reader.readHeadOnly()
        #expect(eventually { fixture.connections == 0 })
        #expect(metrics.text.contains("carillon_overload_closings_total{reason=\"stalled\"} 1\n"))
    }
}
