import Foundation
import Gateway
import Glibc
import Reactor
import TestHub
import TestSupport
import Testing
import WebSocket

@Suite(.ownThread, .timeLimit(.minutes(15))) struct ListenerTests {
    private static let ping = #"{"event":"pusher:ping","data":{}}"#
    private static let pong = TestClient.Received.text(#"{"event":"pusher:pong","data":"{}"}"#)

    private func port(_ endpoint: ListenEndpoint) -> UInt16 {
        guard case .tcp(_, let port, _) = endpoint else { return 0 }
        return port
    }

    @Test(.enabled(if: Loopback.hasIPv6, "this machine has no IPv6")) func everyListenerServes() async throws {
        let path = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).sock"
        let fixture = try await GatewayFixture {
            $0.listeners = [
                ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0)),
                ListenerConfiguration(.tcp(host: "::1", port: 0)),
                ListenerConfiguration(.tcp(host: "::", port: 0)),
                ListenerConfiguration(.unix(path: path, mode: 0o600)),
            ]
        }
        let endpoints = fixture.gateway.endpoints
        #expect(endpoints.count == 4)
        let clients = [
            try TestClient(port: port(endpoints[0])), try TestClient(portOfIPv6: port(endpoints[1])),
            try TestClient(portOfIPv6: port(endpoints[2])), try TestClient(port: port(endpoints[2])),
            try TestClient(path: path),
        ]
        for client in clients {
            try await client.upgrade()
            _ = try await client.next()
            try await client.send(Self.ping)
            #expect(try await client.next() == Self.pong)
        }
        #expect(fixture.gateway.connectionCount == clients.count)
        await fixture.end().value
        #expect(!FileManager.default.fileExists(atPath: path), "the socket's file goes with the hub")
        for client in clients { #expect(try await client.next() == .close(1001)) }
    }

    /// Closed as soon as clients are told to come back, while their answers are still awaited: by then a successor listens,
    /// and keeps its clients.
    @Test func aHubThatEndsListensNoMore() async throws {
        let path = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).sock"
        let fixture = try await GatewayFixture {
            $0.listeners = [
                ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0)),
                ListenerConfiguration(.unix(path: path, mode: 0o600)),
            ]
            $0.timeouts.farewell = .seconds(60)
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        let end = fixture.end()
        #expect(try await client.next() == .close(1001))
        #expect(Loopback.connection(to: fixture.port) == nil, "nobody listens")
        #expect(errno == ECONNREFUSED)
        #expect(!FileManager.default.fileExists(atPath: path))
        let endpoints = fixture.gateway.endpoints
        let successor = try await GatewayFixture { $0.listeners = endpoints.map { ListenerConfiguration($0) } }
        #expect(fixture.gateway.connectionCount == 1, "the old one has still to end")
        try await client.send(Opcode.close, [0x03, 0xE9])
        await end.value
        for other in [try TestClient(port: successor.port), try TestClient(path: path)] {
            try await other.upgrade()
            _ = try await other.next()
        }
    }

    private func forwarded(_ address: String) -> String { "X-Forwarded-For: \(address)\r\n" }

    @Test func whatATrustedProxySaysIsTheClient() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.trustedPeers = TrustedPeers([AddressRange("127.0.0.0/8")].compactMap { $0 })
            $0.admission.connectionsPerAddressMax = 1
        }
        let first = try TestClient(port: fixture.port)
        try await first.upgrade(fields: forwarded("198.51.100.1, 192.0.2.1"))
        let second = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) {
            try await second.upgrade(fields: forwarded("198.51.100.2") + forwarded("192.0.2.1:4711"))
        }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 429 ") == true)
        // Another client's connection, and two for which the proxy names no client.
        let others = [forwarded("192.0.2.2"), forwarded("nobody"), ""]
        var clients: [TestClient] = []
        for fields in others {
            let client = try TestClient(port: fixture.port)
            try await client.upgrade(fields: fields)
            clients.append(client)
        }
        #expect(metrics.text.contains("carillon_connections_refused_total{reason=\"address_full\"} 1\n"))
        withExtendedLifetime((first, clients)) {}
    }

    @Test func anUntrustedPeersForwardingIsIgnored() async throws {
        let fixture = try await GatewayFixture { $0.admission.connectionsPerAddressMax = 1 }
        let first = try TestClient(port: fixture.port)
        try await first.upgrade(fields: forwarded("192.0.2.1"))
        let second = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) {
            try await second.upgrade(fields: forwarded("192.0.2.2"))
        }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 429 ") == true)
    }

    /// A proxy sends many clients' requests over one connection.
    @Test func aKeptConnectionCountsForTheClientOfItsLastRequest() async throws {
        let fixture = try await GatewayFixture {
            $0.trustedPeers = TrustedPeers([AddressRange("127.0.0.1")].compactMap { $0 })
            $0.admission.connectionsPerAddressMax = 1
        }
        let kept = try TestClient(port: fixture.port)
        func ask(_ address: String) async throws -> String {
            try await kept.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\(forwarded(address))\r\n")
            return String(try await kept.response().head.prefix(12))
        }
        #expect(try await ask("192.0.2.1") == "HTTP/1.1 404")
        #expect(try await ask("192.0.2.2") == "HTTP/1.1 404")
        let first = try TestClient(port: fixture.port)
        try await first.upgrade(fields: forwarded("192.0.2.1"))
        #expect(try await ask("192.0.2.1") == "HTTP/1.1 429")
        #expect(try await kept.next() == .end)
    }

    /// However long the proxy keeps them open: beyond the bound they are told, and closed.
    @Test func theRefusedBehindAProxyAreHeldInNumber() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.trustedPeers = TrustedPeers([AddressRange("127.0.0.1")].compactMap { $0 })
            $0.admission.connectionsPerAddressMax = 1
            $0.admission.refusalsPerAddressMax = 2
            $0.timeouts.close = .seconds(600)
        }
        let first = try TestClient(port: fixture.port)
        try await first.upgrade(fields: forwarded("192.0.2.1"))
        var refused: [TestClient] = []
        for _ in 0..<5 {
            let client = try TestClient(port: fixture.port)
            let failure = await #expect(throws: TestClient.Failure.self) {
                try await client.upgrade(fields: forwarded("192.0.2.1"))
            }
            #expect(failure?.reason.hasPrefix("HTTP/1.1 429 ") == true)
            refused.append(client)
        }
        #expect(eventually { fixture.gateway.connectionCount == 3 }, "one, and two who are told why not")
        #expect(metrics.text.contains("carillon_connections_refused_total{reason=\"address_full\"} 5\n"))
        let other = try TestClient(port: fixture.port)
        try await other.upgrade(fields: forwarded("192.0.2.2"))
        withExtendedLifetime((first, refused)) {}
    }

    @Test func oneThatCannotBeHadEndsTheStart() async throws {
        let taken = try ListeningSocket(host: "127.0.0.1", port: 0)
        let path = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).sock"
        let error = await #expect(throws: ListenError.self) {
            try await GatewayFixture {
                $0.listeners = [
                    ListenerConfiguration(.unix(path: path, mode: 0o600)), ListenerConfiguration(taken.endpoint),
                ]
            }
        }
        #expect(error?.endpoint == taken.endpoint)
        #expect(!FileManager.default.fileExists(atPath: path))
    }
}
