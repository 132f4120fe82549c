import Bytes
import COpenSSL
import Glibc
import Reactor
import TestHub
import TestSupport
import Testing

@testable import Gateway
@testable import Reactor

/// Limits that apply to TLS clients only.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct TLSLimitsTests {
    private let server: TLSServer
    private let metrics = GatewayMetrics()
    private let wire: TLSWire

    init() throws {
        let folder = try CertificateFolder()
        defer { withExtendedLifetime(folder) {} }
        let pair = try folder.make("one", hosts: ["localhost"])
        server = try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
        wire = try TLSWire()
    }

    private func hub(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws -> GatewayFixture {
        try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.tls = server
            $0.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0), usesTLS: true)]
            $0.timeouts.tlsHandshake = .seconds(60)
            $0.timeouts.tlsTurn = .seconds(60)
            change(&$0)
        }
    }

    private func opened(_ hub: GatewayFixture) throws -> SecureClient {
        let client = try SecureClient(port: hub.port, TLSClient(), on: wire)
        #expect(try client.handshake())
        try client.upgrade()
        return client
    }

    private let ping = #"{"event":"pusher:ping","data":{}}"#
    private let pong = #"{"event":"pusher:pong","data":"{}"}"#

    /// Requests `count` key updates at once, then sends a ping.
    private func updateKeys(_ client: SecureClient, _ count: Int) throws {
        client.tls.withOpenSSL { ssl in
            for _ in 0..<count {
                _ = SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
                _ = SSL_do_handshake(ssl)
            }
        }
        try client.send(text: ping)
    }

    private var limitReached: Bool { metrics.text.contains(#"limits_reached_total{limit="keyUpdates"} 1"#) }

    @Test(arguments: [0, 1]) func soManyKeyUpdatesAtOnce(past: Int) async throws {
        let hub = try await hub()
        let client = try opened(hub)
        try updateKeys(client, TLSSession.keyUpdatesMax + past)
        #expect(try client.text() == (past == 0 ? pong : nil))
        #expect(limitReached == (past == 1))
        if past == 1 { #expect(eventually { hub.gateway.connectionCount == 0 }) }
    }

    /// A few at a time count like pings.
    @Test(arguments: [0, 1]) func soManyKeyUpdatesInAll(past: Int) async throws {
        let hub = try await hub {
            $0.limits.controlFramesPerSecond = 1
            $0.limits.controlFramesBurst = 1_000
        }
        let client = try opened(hub)
        for _ in 0..<100 {
            try updateKeys(client, 10)
            #expect(try client.text() == pong)
        }
        // The rate has allowed some more meanwhile.
        var more = 0
        while past == 1, try client.text(after: { try updateKeys(client, 10) }) != nil, more < 1_000 { more += 1 }
        #expect(limitReached == (past == 1))
    }

    @Test func aLongHelloIsCounted() async throws {
        let hub = try await hub()
        let client = try TestClient(port: hub.port)
        let length = ClientHelloLimit.helloBytesMax + 1
        try await client.sendRaw([0x16, 3, 1, 0, 4, 1, 0, UInt8(length >> 8), UInt8(length & 0xff)])
        #expect(try await client.next() == .end)
        #expect(metrics.text.contains(#"tls_handshakes_failed_total{reason="long_hello"} 1"#))
        #expect(metrics.tls.underWay.level == 0)
    }

    /// A client that leaves while it waits frees its slot in the queue.
    @Test func theLineIsNotFullOfTheGone() async throws {
        let hub = try await hub {
            $0.admission.tlsHandshakesMax = 1
            $0.admission.tlsHandshakesWaitingMax = 2
        }
        let first = try TestClient(port: hub.port)
        try await first.sendRaw([0x16, 3, 1])
        #expect(eventually { metrics.tls.underWay.level == 1 })
        for round in 1...3 {
            let waiting = try (0..<2).map { _ in try TestClient(port: hub.port) }
            for client in waiting { try await client.sendRaw([0x16]) }
            #expect(eventually { metrics.tls.delayed.count == UInt64(2 * round) })
            for client in waiting { client.abort() }
            #expect(eventually { hub.gateway.connectionCount == 1 })
        }
        #expect(metrics.tls.failures["shed"].count == 0)
        let late = try SecureClient(port: hub.port, TLSClient(), on: wire)
        #expect(eventually { metrics.tls.delayed.count == 7 })
        first.abort()
        #expect(try late.handshake())
    }
}

extension SecureClient {
    fileprivate func text(after step: () throws -> Void) throws -> String? {
        do {
            try step()
        } catch {
            // Already closed.
            return nil
        }
        return try text()
    }
}
