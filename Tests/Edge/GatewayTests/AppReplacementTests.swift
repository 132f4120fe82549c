import HubEngine
import Pusher
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Apps that are added, changed, disabled and removed while the hub runs.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct AppReplacementTests {
    /// The error that a refused connection gets first, and its close code.
    private func refusal(_ fixture: GatewayFixture, _ path: String) async throws -> UInt16? {
        let client = try TestClient(port: fixture.port)
        try await client.upgrade(path)
        let first = try await client.text()
        guard case .close(let code) = try await client.next() else { return nil }
        #expect(first.contains(#""code":\#(code ?? 0)"#))
        return code
    }

    @Test(arguments: [1, 2]) func connectionsStayWithTheirAppAndNoOthers(loops: Int) async throws {
        let (first, second) = (TestApp(0), TestApp(1))
        let fixture = try await GatewayFixture(loops: loops) { $0.apps = [first.app, second.app] }
        let (stays, id) = try await TestClient.opened(fixture, first)
        let (goes, _) = try await TestClient.opened(fixture, second)
        let third = TestApp(2)
        #expect(try await refusal(fixture, third.path) == 4001)

        // Another key, another secret, and one app replaced by another.
        let changed = TestApp(0) {
            $0.key = "another"
            $0.secret = "newer"
            $0.previousSecret = first.secret
        }
        #expect(fixture.gateway.apps.indices(of: ["3"]) == [2])
        try fixture.gateway.replaceApps([changed.app, third.app])
        #expect(try await goes.next() == .close(4001))
        #expect(try await refusal(fixture, second.path) == 4001)
        #expect(try await refusal(fixture, first.path) == 4001)
        _ = try await TestClient.opened(fixture, third)
        _ = try await TestClient.opened(fixture, changed)
        // The connection still belongs to the app: by its new key, and with either secret.
        try await stays.subscribe("private-a", TestApp(0) { $0.key = "another" }, id)
        try await stays.subscribe("private-b", changed, id)
        #expect(throws: AppTableError.repeatedKey("another")) {
            try fixture.gateway.replaceApps([changed.app, TestApp(1) { $0.key = "another" }.app])
        }
        #expect(fixture.gateway.apps.app(id: "3") != nil)
        #expect(try await stays.answersPing())
    }

    /// Its clients know only the key, and would never come back after 4001.
    @Test func aClientWhoseKeyIsNowAnotherAppsComesBack() async throws {
        let fixture = try await GatewayFixture { $0.apps = [TestApp(0).app, TestApp(1).app] }
        let (moves, _) = try await TestClient.opened(fixture, TestApp(0))
        let (goes, _) = try await TestClient.opened(fixture, TestApp(1))
        let heir = TestApp(2) { $0.key = "key0" }
        try fixture.gateway.replaceApps([heir.app])
        #expect(try await moves.next() == .close(4200))
        #expect(try await goes.next() == .close(4001))
        _ = try await TestClient.opened(fixture, heir)
    }

    @Test func anAppThatIsSwitchedOffTakesNobody() async throws {
        var app = TestApp(0)
        let other = TestApp(1) { $0.features.isEnabled = false }
        let fixture = try await GatewayFixture { $0.apps = [app.app, other.app] }
        #expect(try await refusal(fixture, other.path) == 4003)
        let (client, _) = try await TestClient.opened(fixture, app)
        app.features.isEnabled = false
        try fixture.gateway.replaceApps([app.app, TestApp(1).app])
        #expect(try await client.next() == .close(4003))
        #expect(try await refusal(fixture, app.path) == 4003)
        _ = try await TestClient.opened(fixture, TestApp(1))
    }

    @Test(arguments: [1, 3]) func anAppHasSoManyConnectionsAndNoMore(loops: Int) async throws {
        var app = TestApp(0) { $0.limits.connectionsMax = 3 }
        let other = TestApp(1)
        let fixture = try await GatewayFixture(loops: loops) { $0.apps = [app.app, other.app] }
        var clients: [TestClient] = []
        for _ in 0..<3 { clients.append(try await TestClient.opened(fixture, app).0) }
        #expect(try await refusal(fixture, app.path) == 4004)
        _ = try await TestClient.opened(fixture, other)
        // A refused connection takes no room, and a closed one has freed its own.
        #expect(try await refusal(fixture, app.path) == 4004)
        let leaving = clients.removeLast()
        try await leaving.send(0x8, [])
        #expect(try await leaving.next() == .close(nil))
        clients.append(try await TestClient.opened(fixture, app).0)
        #expect(try await refusal(fixture, app.path) == 4004)
        // A lower bound closes no connection; a higher one admits more.
        app.limits.connectionsMax = 1
        try fixture.gateway.replaceApps([app.app, other.app])
        for client in clients { #expect(try await client.answersPing()) }
        #expect(try await refusal(fixture, app.path) == 4004)
        app.limits.connectionsMax = 4
        try fixture.gateway.replaceApps([app.app, other.app])
        for client in clients { #expect(try await client.answersPing()) }
        let (last, _) = try await TestClient.opened(fixture, app)
        #expect(try await last.answersPing())
    }

    /// More than one turn closes, while another app's client is served and further clients connect.
    @Test func aCrowdIsClosedInTurnsAndNobodyIsLeft() async throws {
        let (crowded, calm) = (TestApp(0), TestApp(1))
        let fixture = try await GatewayFixture(loops: 2) {
            $0.apps = [crowded.app, calm.app]
            $0.admission.connectionsPerAddressMax = nil
        }
        let (bystander, _) = try await TestClient.opened(fixture, calm)
        var crowd: [TestClient] = []
        for _ in 0..<400 { crowd.append(try await TestClient.opened(fixture, crowded).0) }
        let (port, path) = (fixture.port, crowded.path)
        let comers = Task {
            var codes: [TestClient.Received] = []
            for _ in 0..<40 {
                let client = try TestClient(port: port)
                try await client.upgrade(path)
                _ = try await client.text()
                codes.append(try await client.next())
            }
            return codes
        }
        try fixture.gateway.replaceApps([calm.app])
        #expect(try await bystander.answersPing())
        for client in crowd { #expect(try await client.next() == .close(4001)) }
        #expect(try await comers.value.allSatisfy { $0 == .close(4001) })
        #expect(try await bystander.answersPing())
        try fixture.gateway.replaceApps([calm.app, crowded.app])
        #expect(try await bystander.answersPing())
        #expect(try await TestClient.opened(fixture, crowded).0.answersPing())
    }

    /// Consecutive replacements while connections come and go: the last one counts.
    @Test func theLastOfManyReplacementsCounts() async throws {
        let fixture = try await GatewayFixture(loops: 2) { $0.apps = [TestApp(0).app] }
        let gateway = fixture.gateway
        let replacing = Task.detached {
            for number in 0..<200 {
                try gateway.replaceApps([TestApp(0).app] + (number % 2 == 0 ? [TestApp(1).app] : []))
            }
        }
        for _ in 0..<50 { #expect(try await TestClient.opened(fixture, TestApp(0)).0.answersPing()) }
        try await replacing.value
        try fixture.gateway.replaceApps([TestApp(0) { $0.features.isEnabled = false }.app])
        #expect(try await refusal(fixture, TestApp(0).path) == 4003)
        #expect(try await refusal(fixture, TestApp(1).path) == 4001)
    }
}
