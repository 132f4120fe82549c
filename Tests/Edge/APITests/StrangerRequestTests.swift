import API
import Gateway
import HTTP
import Metrics
import TestHub
import TestSupport
import Testing

/// Requests that do not say who sends them, or have no good token or signature: an address has a rate of them.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct StrangerRequestTests {
    private let metrics = GatewayMetrics()

    /// The rate is so low that no machine is that slow.
    private func hub(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws -> GatewayFixture {
        try await GatewayFixture(ownsDatabase: true, metrics: metrics) {
            $0.admission.strangerRequestsPerSecond = 1
            $0.admission.strangerRequestsBurst = 3
            $0.admission.strangerPause = .milliseconds(1)
            change(&$0)
        }
    }

    private func get(_ path: String, _ fields: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: h\r\n\(fields)\r\n"
    }

    /// The head of the answer, on a connection of its own.
    private func answer(_ request: String, _ hub: GatewayFixture) async throws -> String {
        let client = try TestClient(port: hub.port)
        try await client.sendRaw(request)
        return try await client.readHeadOnly()
    }

    private func bearer(_ token: String) -> String { "Authorization: Bearer \(token)\r\n" }

    /// Each kind uses the address's rate up.
    @Test(arguments: [
        "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", "GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /openapi.json HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n",
        "GET /nothing HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n",
        "GET /client/carillon.js HTTP/1.1\r\nHost: h\r\n\r\n",
        "OPTIONS /pusher/auth HTTP/1.1\r\nHost: h\r\nOrigin: o\r\n\r\n",
        "GET /users/ann/adherence/today HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b.c\r\n\r\n",
        "GET /users/ann/adherence/today HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /users/ann/events?topics=reminders HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b.c\r\n\r\n",
        "GET /app/key/events?channels=news HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /app/key/events?channels=news HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n",
        "GET /apps/1/channels HTTP/1.1\r\nHost: h\r\n\r\n", "GET /apps/9/channels HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /apps/1/nothing HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /apps/1/nothing?auth_signature=1 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /apps/1/channels?auth_signature=1 HTTP/1.1\r\nHost: h\r\n\r\n",
    ])
    func theyHaveARate(_ request: String) async throws {
        let hub = try await hub()
        for _ in 0..<3 { #expect(try await !answer(request, hub).hasPrefix("HTTP/1.1 429 ")) }
        // At once: one after the other, a busy machine may be slower than the rate.
        let clients = try (0..<50).map { _ in try TestClient(port: hub.port) }
        for client in clients { try await client.sendRaw(request) }
        var refused = ""
        for client in clients where refused.isEmpty {
            let head = try await client.readHeadOnly()
            if head.hasPrefix("HTTP/1.1 429 ") { refused = head }
        }
        #expect(refused.contains("\r\nRetry-After: 1\r\n"))
        #expect(metrics.text.contains(#"limit="limits.requestsPerSecond""#))
    }

    /// A user beside a flood of the same address is not told 429, and the connection of a flood goes on.
    @Test func oneWithAGoodTokenIsNotCounted() async throws {
        let hub = try await hub()
        let client = try TestClient(port: hub.port)
        var last = ""
        for _ in 0..<100 where !last.hasPrefix("HTTP/1.1 429 ") {
            try await client.sendRaw(get("/nothing"))
            last = try await client.response().head
        }
        #expect(last.hasPrefix("HTTP/1.1 429 "))
        let token = bearer(try await GatewayFixture.token("ann"))
        for _ in 0..<20 {
            let form = "socket_id=1.2"
            try await client.sendRaw(
                "POST /pusher/user-auth HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                    + "Content-Length: \(form.count)\r\n\(token)\r\n\(form)")
            #expect(try await client.response().head.hasPrefix("HTTP/1.1 200 "))
        }
        // WebSockets have a rate of their own.
        #expect(try await TestClient(port: hub.port).upgrade().hasPrefix("HTTP/1.1 101 "))
    }

    /// While it is held back, nothing of the connection is read.
    @Test func oneThatAsksTooOftenWaitsForItsAnswer() async throws {
        let hub = try await hub { $0.admission.strangerPause = .seconds(3_600) }
        let clients = try (0..<10).map { _ in try TestClient(port: hub.port) }
        for client in clients { try await client.sendRaw(get("/nothing") + get("/nothing")) }
        #expect(eventually { served(hub) >= 3 })
        // A user's request goes past all of them.
        let token = bearer(try await GatewayFixture.token("ann"))
        #expect(try await answer(get("/users/bob/adherence/today", token), hub).hasPrefix("HTTP/1.1 403 "))
        #expect(served(hub) < 20)
    }

    /// A user's event streams have a rate of the user's.
    @Test func oneUserBeginsSoManyStreams() async throws {
        let hub = try await hub {
            ($0.admission.userStreamsPerSecond, $0.admission.userStreamsBurst) = (1, 3)
        }
        let (ann, bob) = (try await GatewayFixture.token("ann"), try await GatewayFixture.token("bob"))
        var last = ""
        var count = 0
        while count < 100, !last.hasPrefix("HTTP/1.1 429 ") {
            last = try await answer(get("/users/ann/events?topics=reminders", bearer(ann)), hub)
            count += 1
        }
        #expect(count > 3 && last.hasPrefix("HTTP/1.1 429 "))
        let other = try await answer(get("/users/bob/events?topics=reminders", bearer(bob)), hub)
        #expect(other.hasPrefix("HTTP/1.1 200 "))
    }

    @Test func withoutABoundAllAreAnswered() async throws {
        let hub = try await hub { $0.admission.strangerRequestsPerSecond = 0 }
        let client = try TestClient(port: hub.port)
        for _ in 0..<20 {
            try await client.sendRaw(get("/nothing"))
            #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 "))
        }
    }

    private func served(_ hub: GatewayFixture) -> Int {
        let lines = hub.metrics.text.split(separator: "\n").filter { $0.hasPrefix("carillon_http_responses_total") }
        return lines.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
    }
}
