import Clock
import Reactor
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Connections of an address that connects often wait for their turn, on real sockets.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct TurnTests {
    private let metrics = GatewayMetrics()

    private func hub(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws -> GatewayFixture {
        try await GatewayFixture(loops: 2, metrics: metrics) {
            $0.admission.addressConnectsPerSecond = 20
            $0.admission.addressConnectsBurst = 1
            $0.admission.addressConnectsWaitingMax = 1_000
            change(&$0)
        }
    }

    private var delayed: UInt64 { metrics.arrivals.delayed.count }

    private func refused() -> Bool { metrics.text.contains(#"refused_total{reason="address_fast"} 0"#) == false }

    @Test func theyWaitAndAreServed() async throws {
        let hub = try await hub()
        // All of them connect before the first is served.
        let clients = try (0..<12).map { _ in try TestClient(port: hub.port) }
        for client in clients {
            try await client.upgrade()
            guard case .text = try await client.next() else {
                Issue.record("no greeting")
                return
            }
        }
        #expect(delayed >= 1)
        #expect(!refused())
    }

    /// The time for the request begins with the turn.
    @Test func theirTimeBeginsWithTheirTurn() async throws {
        let hub = try await hub {
            $0.admission.addressConnectsPerSecond = 2
            $0.timeouts.handshake = .milliseconds(400)
        }
        // The last turn is more than twice the time for a request away.
        let clients = try (0..<3).map { _ in try TestClient(port: hub.port) }
        for client in clients.reversed() { try await client.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n") }
        for client in clients { #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 ")) }
    }

    /// A client that leaves while it waits counts no more, and those behind it are served.
    @Test func aClientThatLeavesIsForgotten() async throws {
        let hub = try await hub { $0.admission.addressConnectsPerSecond = 1 }
        let first = try TestClient(port: hub.port)
        try await first.upgrade()
        let leaver = try TestClient(port: hub.port)
        #expect(eventually { delayed >= 1 && hub.gateway.connectionCount == 2 })
        leaver.abort()
        #expect(eventually { hub.gateway.connectionCount == 1 })
        let next = try TestClient(port: hub.port)
        try await next.upgrade()
        #expect(hub.gateway.connectionCount == 2)
    }

    @Test func behindAProxyTheyWaitToo() async throws {
        let hub = try await hub {
            $0.trustedPeers = TrustedPeers([AddressRange("127.0.0.0/8")].compactMap { $0 })
        }
        let clients = try (0..<8).map { _ in try TestClient(port: hub.port) }
        for client in clients {
            try await client.sendRaw(
                "GET /app/key?protocol=7 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                    + "X-Forwarded-For: 192.0.2.7\r\n\r\n")
        }
        for client in clients { #expect(try await client.readHeadOnly().hasPrefix("HTTP/1.1 101 ")) }
        #expect(delayed >= 1)
        #expect(!refused())
        // What it sends before its turn is handled after it.
        let ping = try TestClient(port: hub.port)
        try await ping.upgrade(fields: "X-Forwarded-For: 192.0.2.7\r\n")
        _ = try await ping.next()
        try await ping.send(#"{"event":"pusher:ping","data":{}}"#)
        guard case .text(let pong) = try await ping.next() else {
            Issue.record("no pong")
            return
        }
        #expect(pong.contains("pusher:pong"))
    }

    /// The hub ends while they wait: so do they.
    @Test func theHubEndsMeanwhile() async throws {
        let hub = try await hub { $0.admission.addressConnectsPerSecond = 1 }
        let clients = try (0..<3).map { _ in try TestClient(port: hub.port) }
        #expect(eventually { hub.gateway.connectionCount == 3 })
        await hub.end().value
        for client in clients { #expect(try await client.next() == .end) }
    }
}

@Suite struct BackoffRangeTests {
    @Test(
        arguments: [
            (0, 1, false, 2_000), (5_000, 1, false, 2_000), (5_001, 1, false, 2_000), (15_000, 1, false, 4_000),
            (15_000, 2, false, 2_500), (45_000, 1, false, 10_000), (1_000_000, 1, false, 10_000),
            (5_000, 1, true, 10_000), (2_000, 1, true, 5_000), (2_000, 0, true, 5_000), (-1, 1, true, 2_000),
        ])
    func allComeAtThePaceOfTheHub(_ connections: Int, _ loops: Int, _ usesTLS: Bool, _ maxMs: Int) {
        let backoff = BackoffRange(connections: connections, loops: loops, usesTLS: usesTLS)
        #expect(backoff.maxMs == maxMs)
        #expect(backoff.minMs == 1_000)
    }
}
