import Clock
import HubEngine
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// All connections of a user ended by the app's backend, and connections that do not authorize in time.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct TerminationTests {
    private let app = TestApp()

    @Test(arguments: [1, 3]) func allConnectionsOfTheUserEndAndNoOthers(loops: Int) async throws {
        let other = TestApp(1)
        let fixture = try await GatewayFixture(loops: loops) { $0.apps = [app.app, other.app] }
        var users: [TestClient] = []
        var others: [TestClient] = []
        for number in 0..<12 {
            let isOther = number % 4 == 3
            let (client, socketID) = try await TestClient.opened(fixture, isOther ? other : app)
            try await client.signin(number % 2 == 0 ? "v" : "u", isOther ? other : app, socketID)
            if number % 4 == 1 { users.append(client) } else { others.append(client) }
        }
        let (stranger, _) = try await TestClient.opened(fixture, app)
        await fixture.terminate("u", of: app.app)
        for client in users {
            #expect(try await client.next() == .close(4009))
            #expect(try await client.next() == .end)
        }
        for client in others + [stranger] { #expect(try await client.answersPing()) }
        // A later signin succeeds, and terminating an unknown user has no effect.
        let (client, socketID) = try await TestClient.opened(fixture, app)
        try await client.signin("u", app, socketID)
        await fixture.terminate("nobody", of: app.app)
        #expect(try await client.answersPing())
    }

    /// Other hubs are told, and do what another one tells.
    @Test(arguments: [1, 3]) func allHubsHearOfIt(loops: Int) async throws {
        try await SlowState.$isWanted.withValue(true) {
            let fixture = try await GatewayFixture(loops: loops) { $0.apps = [app.app] }
            let state = try #require(fixture.state)
            var users: [TestClient] = []
            for number in 0..<6 {
                let (client, socketID) = try await TestClient.opened(fixture, app)
                try await client.signin(number < 3 ? "u" : "v", app, socketID)
                users.append(client)
            }
            state.tell(.terminate(app: app.app.index, user: "u"))
            for client in users[..<3] { #expect(try await client.next() == .close(4009)) }
            for client in users[3...] { #expect(try await client.answersPing()) }
            #expect(state.commands.isEmpty)
            await fixture.terminate("v", of: app.app)
            for client in users[3...] { #expect(try await client.next() == .close(4009)) }
            #expect(state.commands == [.terminate(app: app.app.index, user: "v")])
        }
    }

    /// A hub that could not hear it closes those who were signed in then, and nobody who has come back since.
    @Test func oneThatIsHeardLateIsForThoseWhoWereThere() async throws {
        try await SlowState.$isWanted.withValue(true) {
            let fixture = try await GatewayFixture { $0.apps = [app.app] }
            let state = try #require(fixture.state)
            let (client, socketID) = try await TestClient.opened(fixture, app)
            try await client.signin("u", app, socketID)
            state.tell(.terminate(app: app.app.index, user: "u", age: 600_000))
            // It comes behind.
            state.tell(.terminate(app: app.app.index, user: "v"))
            let (other, otherID) = try await TestClient.opened(fixture, app)
            try await other.signin("v", app, otherID)
            #expect(try await client.answersPing())
            let later = UnixTime.read().advanced(by: .milliseconds(3))
            while UnixTime.read() < later { await Task.yield() }
            state.tell(.terminate(app: app.app.index, user: "u", age: 1))
            #expect(try await client.next() == .close(4009))
        }
    }

    private func auth(_ token: String) -> String { #"{"event":"sync:auth","data":{"token":"\#(token)"}}"# }

    /// One token is verified at a time; while one is held up, another waits.
    @Test(arguments: [1, 2]) func aTokenUnderWayDoesNotSlipThrough(loops: Int) async throws {
        let app = TestApp { $0.ownsDatabase = true }
        let toll = Toll()
        let fixture = try await GatewayFixture(loops: loops, ownsDatabase: true, toll: toll) {
            $0.apps = [app.app]
        }
        defer { toll.open() }
        let (mine, other) = (try await GatewayFixture.token("u"), try await GatewayFixture.token("v"))
        let (client, _) = try await TestClient.opened(fixture, app)
        let (bystander, _) = try await TestClient.opened(fixture, app)
        let (late, _) = try await TestClient.opened(fixture, app)

        toll.close()
        try await client.send(auth(mine))
        toll.awaitSomebody()
        await fixture.terminate("u", of: app.app)
        // These begin later: one is another user's, one is the user's own and newer than the termination.
        try await bystander.send(auth(other))
        try await late.send(auth(mine))
        toll.open()
        #expect(try await client.next() == .close(4009))
        #expect(try await bystander.text().hasPrefix(#"{"event":"sync:auth_ok""#))
        #expect(try await late.text().hasPrefix(#"{"event":"sync:auth_ok""#))
    }

    /// Users of this app can sign in, however many users another app has terminated.
    @Test func otherAppsTerminationsDisturbNobody() async throws {
        let app = TestApp { $0.ownsDatabase = true }
        let other = TestApp(1)
        let toll = Toll()
        let fixture = try await GatewayFixture(loops: 1, ownsDatabase: true, toll: toll) {
            $0.apps = [app.app, other.app]
        }
        defer { toll.open() }
        let token = try await GatewayFixture.token("u")
        let (client, _) = try await TestClient.opened(fixture, app)
        toll.close()
        try await client.send(auth(token))
        toll.awaitSomebody()
        for number in 0...Verifications.terminatedMax { await fixture.terminate("u\(number)", of: other.app) }
        toll.open()
        #expect(try await client.text().hasPrefix(#"{"event":"sync:auth_ok""#))
    }

    @Test func anUpgradeUnderWayDoesNotSlipThrough() async throws {
        let app = TestApp { $0.ownsDatabase = true }
        let toll = Toll()
        let fixture = try await GatewayFixture(loops: 1, ownsDatabase: true, toll: toll) {
            $0.apps = [app.app]
        }
        defer { toll.open() }
        let token = try await GatewayFixture.token("u")
        let client = try TestClient(port: fixture.port)
        toll.close()
        let upgrade = Task { try await client.upgrade(app.path, fields: "Authorization: Bearer \(token)\r\n") }
        toll.awaitSomebody()
        await fixture.terminate("u", of: app.app)
        toll.open()
        _ = try await upgrade.value
        #expect(try await client.text().contains(#""code":4009"#))
        #expect(try await client.next() == .close(4009))
    }

    /// An app that is disabled while the upgrade waits for its token.
    @Test func anUpgradeUnderWayIsOfTheAppAsItIsThen() async throws {
        var app = TestApp { $0.ownsDatabase = true }
        let toll = Toll()
        let fixture = try await GatewayFixture(loops: 1, ownsDatabase: true, toll: toll) {
            $0.apps = [app.app]
        }
        defer { toll.open() }
        let token = try await GatewayFixture.token("u")
        for isEnabled in [false, true] {
            let client = try TestClient(port: fixture.port)
            toll.close()
            let path = app.path
            let upgrade = Task { try await client.upgrade(path, fields: "Authorization: Bearer \(token)\r\n") }
            toll.awaitSomebody()
            app.features.isEnabled = isEnabled
            app.limits.connectionsMax = 1
            try fixture.gateway.replaceApps([app.app])
            // The loop handles that before it gets the token's result.
            await fixture.terminate("nobody", of: app.app)
            toll.open()
            _ = try await upgrade.value
            if isEnabled {
                #expect(try await client.text().contains("connection_established"))
                #expect(try await client.text().contains("sync:auth_ok"))
                let (surplus, _) = try await refused(fixture, app)
                #expect(surplus.contains(#""code":4004"#))
            } else {
                #expect(try await client.text().contains(#""code":4003"#))
                #expect(try await client.next() == .close(4003))
                app.features.isEnabled = true
                try fixture.gateway.replaceApps([app.app])
            }
        }
    }

    private func refused(_ fixture: GatewayFixture, _ app: TestApp) async throws -> (String, TestClient.Received) {
        let client = try TestClient(port: fixture.port)
        try await client.upgrade(app.path)
        return (try await client.text(), try await client.next())
    }

    // MARK: Authorized in time

    @Test func aSessionWithoutASignInInTimeIsClosed() async throws {
        let strict = TestApp { $0.features.authorizationDeadline = .milliseconds(50) }
        let fixture = try await GatewayFixture(loops: 2) { $0.apps = [strict.app] }
        for _ in 0..<4 {
            let (client, _) = try await TestClient.opened(fixture, strict)
            #expect(try await client.next() == .close(4100))
        }
    }

    /// Thousands whose deadline passes at once are closed in turns.
    @Test func soManyAreClosedInOneTurn() async throws {
        let strict = TestApp { $0.features.authorizationDeadline = .seconds(3_600) }
        let fixture = try await GatewayFixture(loops: 1) { $0.apps = [strict.app] }
        let count = IdentityWatch.looksPerTurn + 50
        var clients: [TestClient] = []
        for _ in 0..<count { clients.append(try await TestClient.opened(fixture, strict).0) }
        let left = await fixture.inLoop { loop in
            for connection in loop.connections { loop.identities.watch(connection, after: .zero) }
            loop.identities.looksDue(loop.lookAtIdentity)
            return loop.connections.count { $0.isEstablished }
        }
        #expect(left == 50)
        for client in clients { #expect(try await client.next() == .close(4100)) }
    }

    /// The app requires it from now on: clients that have already authorized stay.
    @Test func aSessionThatSignedInStays() async throws {
        let fixture = try await GatewayFixture(loops: 2) { $0.apps = [app.app] }
        var stay: [TestClient] = []
        var go: [TestClient] = []
        for number in 0..<6 {
            let (client, socketID) = try await TestClient.opened(fixture, app)
            switch number % 3 {
            case 0: try await client.signin("u", app, socketID)
            case 1: try await client.subscribe("private-a", app, socketID)
            default:
                // A public channel does not authorize.
                try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"a"}}"#)
                #expect(try await client.text().contains("subscription_succeeded"))
            }
            if number % 3 == 2 { go.append(client) } else { stay.append(client) }
        }
        var strict = app
        strict.features.authorizationDeadline = .milliseconds(50)
        try fixture.gateway.replaceApps([strict.app])
        for client in go { #expect(try await client.next() == .close(4100)) }
        for client in stay { #expect(try await client.answersPing()) }
    }
}
