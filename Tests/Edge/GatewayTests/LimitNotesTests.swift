import Reactor
import TestHub
import Testing

@testable import Gateway

@Suite(.timeLimit(.minutes(15))) struct LimitNotesTests {
    private func address(_ text: String) throws -> PeerAddress { try #require(PeerAddress(text)) }

    @Test func aFloodIsOneNote() throws {
        let metrics = GatewayMetrics()
        for number in 1...200 { metrics.refused(.addressFull, try address("192.0.2.\(number)")) }
        metrics.reached(.pongTimeout, try address("2001:db8::1"))
        metrics.reached(.pipelining, try address("2001:db8::1"))
        metrics.overloaded(.stalled, .unix)
        let notes = metrics.takeLimitNotes()
        #expect(notes.map(\.limit) == ["limits.connectionsPerAddress", "limits.stalledTimeout", "pongTimeout"])
        #expect(notes.map(\.count) == [200, 1, 1])
        #expect(notes.map(\.kind) == [.refused, .overload, .stopped])
        #expect(notes.map(\.address.description) == ["192.0.2.200", "unix", "2001:db8::1"])
        #expect(notes.map(\.isRoutine) == [false, false, true])
        #expect(metrics.takeLimitNotes().isEmpty)
    }

    /// These names are settings, whatever else is renamed.
    @Test func everyLimitHasAName() {
        let refusals = AdmissionControl.Refusal.allCases.map(\.limit)
        let overloads = Overload.allCases.map(\.limit)
        let names = refusals + overloads + ReachedLimit.allCases.map(\.rawValue)
        #expect(Set(names).count == names.count)
    }

    @Test func theClientBehindAProxyIsNamed() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) {
            $0.trustedPeers = TrustedPeers([AddressRange("127.0.0.1")].compactMap { $0 })
            $0.admission.connectionsPerAddressMax = 0
            $0.admission.refusalsPerAddressMax = 1
        }
        var clients: [TestClient] = []
        for _ in 0..<2 {
            let client = try TestClient(port: fixture.port)
            await #expect(throws: TestClient.Failure.self) {
                try await client.upgrade(fields: "X-Forwarded-For: 192.0.2.7\r\n")
            }
            clients.append(client)
            #expect(metrics.takeLimitNotes().map(\.address) == [try address("192.0.2.7")])
        }
        withExtendedLifetime(clients) {}
    }
}
