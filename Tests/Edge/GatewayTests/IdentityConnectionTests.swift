import Bytes
import Feed
import Foundation
import Gateway
import Sync
import TestDatabase
import TestSupport
import Testing
import WebSocket

/// Identities over time, on real sockets. Tokens know whole seconds, and the machine may be busy: those of these tests
/// end within four.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct IdentityConnectionTests {
    private func fixture(loops: Int = 2, feed: FeedConfiguration? = nil) async throws -> GatewayFixture {
        try await GatewayFixture(loops: loops, ownsDatabase: true, feed: feed) {
            $0.timeouts.identity.grace = .milliseconds(300)
        }
    }

    private var now: Double { Date().timeIntervalSince1970 }

    /// Between three and four seconds from now.
    private var soon: Double { now.rounded(.down) + 4 }

    private func auth(_ token: String) -> String {
        #"{"event":"sync:auth","data":{"token":"\#(token)"}}"#
    }

    private func text(_ client: TestClient) async throws -> String {
        guard case .text(let text) = try await client.next() else { throw TestClient.Failure(reason: "no text") }
        return text
    }

    private func expectPong(_ client: TestClient) async throws {
        try await client.send(#"{"event":"pusher:ping"}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    private func expectExpiring(_ client: TestClient, _ expiry: Double) async throws {
        #expect(
            try await text(client) == #"{"event":"sync:auth_expiring","data":"{\"expiresAt\":\#(Int(expiry))}"}"#)
    }

    /// Opens a connection, made the user's by a token.
    private func opened(_ fixture: GatewayFixture, _ token: String) async throws -> TestClient {
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(auth(token))
        #expect(try await text(client).hasPrefix(#"{"event":"sync:auth_ok""#))
        return client
    }

    private func post(
        _ fixture: GatewayFixture, _ path: String, _ body: String, _ token: String
    ) async throws -> (
        head: String, body: String
    ) {
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(
            "POST \(path) HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.utf8.count)\r\n"
                + "Authorization: Bearer \(token)\r\n\r\n\(body)")
        return try await client.response()
    }

    /// The message of pusher-js' signin, its content signed by the hub's own endpoint.
    private func signin(_ fixture: GatewayFixture, _ token: String, _ socketID: String) async throws -> String {
        let (head, body) = try await post(fixture, "/pusher/user-auth", "socket_id=\(socketID)", token)
        #expect(head.hasPrefix("HTTP/1.1 200 "))
        return #"{"event":"pusher:signin","data":\#(body)}"#
    }

    // MARK: Expiry

    @Test func aConnectionEndsWithItsToken() async throws {
        let fixture = try await fixture()
        let expiry = soon
        let client = try await opened(fixture, try await GatewayFixture.token("u1", expiresAt: expiry))
        try await expectExpiring(client, expiry)
        #expect(try await client.next() == .close(4109))
        #expect(now >= expiry + 0.3)
        #expect(try await client.next() == .end)
    }

    @Test func aTokenOnTheUpgradeEndsTheConnectionToo() async throws {
        let fixture = try await fixture()
        let expiry = soon
        let token = try await GatewayFixture.token("u1", expiresAt: expiry)
        let client = try TestClient(port: fixture.port)
        try await client.upgrade(fields: "Authorization: Bearer \(token)\r\n")
        _ = try await text(client)
        _ = try await text(client)
        try await expectExpiring(client, expiry)
        #expect(try await client.next() == .close(4109))
    }

    @Test func aTokenTooLateForTheGraceClosesAtOnce() async throws {
        let fixture = try await fixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        // Within the verifier's leeway, and beyond the grace.
        try await client.send(auth(try await GatewayFixture.token("u1", expiresAt: now.rounded(.down) - 5)))
        #expect(try await client.next() == .close(4109))
    }

    /// The message of a subscribe, signed by the hub's own endpoint.
    private func subscribe(_ fixture: GatewayFixture, _ token: String, _ socketID: String) async throws -> String {
        let name = "private-user.u1.adherence"
        let (head, body) = try await post(
            fixture, "/pusher/auth", "socket_id=\(socketID)&channel_name=\(name)", token)
        #expect(head.hasPrefix("HTTP/1.1 200 "))
        return #"{"event":"pusher:subscribe","data":{"channel":"\#(name)",\#(body.dropFirst())}"#
    }

    @Test func aSignedSubscribeEndsWithTheTokenThatItCameFrom() async throws {
        let fixture = try await fixture()
        let (client, socketID) = try await TestClient.opened(port: fixture.port)
        let expiry = soon
        let token = try await GatewayFixture.token("u1", expiresAt: expiry, issuedAt: expiry - 60)
        try await client.send(try await subscribe(fixture, token, socketID))
        try await expectExpiring(client, expiry)
        #expect(try await client.next() == .close(4109))
        #expect(now >= expiry + 0.3)
    }

    @Test func aSigninEndsWithTheTokenThatItCameFrom() async throws {
        let fixture = try await fixture()
        let (client, socketID) = try await TestClient.opened(port: fixture.port)
        let expiry = soon
        let token = try await GatewayFixture.token("u1", expiresAt: expiry, issuedAt: expiry - 60)
        try await client.send(try await signin(fixture, token, socketID))
        let success = try await text(client)
        #expect(success.hasPrefix(#"{"event":"pusher:signin_success""#))
        #expect(success.contains(#"\\\"issuedAt\\\":\#(Int(expiry) - 60),\\\"expiresAt\\\":\#(Int(expiry))"#))
        try await expectExpiring(client, expiry)
        #expect(try await client.next() == .close(4109))
    }

    /// The connections that show a newer token live on when those that do not have been closed.
    @Test func aNewTokenKeepsTheConnection() async throws {
        let fixture = try await fixture(loops: 1)
        let expiry = soon
        let token = try await GatewayFixture.token("u1", expiresAt: expiry)
        let later = try await GatewayFixture.token("u1")
        let renewing = try await opened(fixture, token)
        try await expectExpiring(renewing, expiry)
        try await renewing.send(auth(later))
        #expect(
            try await text(renewing)
                == #"{"event":"sync:auth_ok","data":"{\"userId\":\"u1\",\"expiresAt\":4000000000}"}"#)
        // So does a session by signin.
        let (signedIn, socketID) = try await TestClient.opened(port: fixture.port)
        try await signedIn.send(try await signin(fixture, token, socketID))
        _ = try await text(signedIn)
        try await expectExpiring(signedIn, expiry)
        try await signedIn.send(auth(later))
        #expect(try await text(signedIn).hasPrefix(#"{"event":"sync:auth_ok""#))
        // An earlier end does not shorten the later one.
        try await signedIn.send(auth(token))
        #expect(try await text(signedIn).contains("4000000000"))
        let idle = try await opened(fixture, token)
        try await expectExpiring(idle, expiry)
        #expect(try await idle.next() == .close(4109))
        try await expectPong(renewing)
        try await expectPong(signedIn)
    }

    @Test func anotherUsersTokenDoesNotKeepTheConnection() async throws {
        let fixture = try await fixture()
        let expiry = soon
        let client = try await opened(fixture, try await GatewayFixture.token("u1", expiresAt: expiry))
        try await expectExpiring(client, expiry)
        try await client.send(auth(try await GatewayFixture.token("u2")))
        #expect(try await text(client).hasPrefix(#"{"event":"pusher:error","data":{"code":null"#))
        #expect(try await client.next() == .close(4109))
    }

    /// One token after the other, of which one is being verified at any time.
    @Test func aFloodOfBadTokensPutsNothingOff() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true) {
            $0.timeouts.identity.grace = .seconds(3)
            $0.timeouts.close = .seconds(60)
            $0.limits.sendQueueBytesMax = .max
            $0.limits.sendQueueFramesMax = .max
            $0.channelLimits.refusedTokensMax = .max
        }
        let expiry = now.rounded(.down)
        let client = try await opened(fixture, try await GatewayFixture.token("u1", expiresAt: expiry))
        try await expectExpiring(client, expiry)
        var writer = ByteWriter()
        for _ in 0..<100 {
            Array(auth("no.token.at.all").utf8).withUnsafeBytes {
                FrameWriter.append(masked: Opcode.text, $0, mask: 0x1234_5678, to: &writer)
            }
        }
        let burst = writer.array
        let flood = Task { await client.sendUntilRefused(burst) }
        var last = TestClient.Received.ping
        while now < expiry + 60 {
            last = try await client.next()
            guard case .text(let text) = last, text.hasPrefix(#"{"event":"pusher:error""#) else { break }
        }
        #expect(last == .close(4109))
        #expect(now >= expiry + 3)
        shutdown(client.descriptor, Int32(SHUT_RDWR))
        await flood.value
    }

    @Test func whoHasOnlyBadTokensIsClosed() async throws {
        let fixture = try await fixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        let good = try await GatewayFixture.token("u1")
        let bad = try await GatewayFixture.token("u1", secret: "another secret of thirty-two bytes")
        for _ in 0..<9 { try await client.send(auth(bad)) }
        try await client.send(auth(good))
        for _ in 0..<10 { try await client.send(auth(bad)) }
        for number in 0..<20 {
            let start = number == 9 ? #"{"event":"sync:auth_ok""# : #"{"event":"pusher:error""#
            #expect(try await text(client).hasPrefix(start))
        }
        #expect(try await client.next() == .close(4109))
        #expect(try await client.next() == .end)
    }

    @Test func aHubWithIdentitiesThatEndLaterStops() async throws {
        var fixture: GatewayFixture? = try await fixture()
        let client = try await opened(try #require(fixture), try await GatewayFixture.token("u1"))
        fixture = nil
        #expect(try await client.next() == .close(1001))
    }

    // MARK: Revocation

    @Test func aRevokedUsersConnectionsAreClosedOnEveryLoop() async throws {
        let fixture = try await fixture(loops: 2, feed: GatewayFixture.feedOfNothing)
        let old = try await GatewayFixture.token("u1", issuedAt: 1_000)
        let new = try await GatewayFixture.token("u1", issuedAt: 3_000)
        let undated = try await GatewayFixture.token("u1")
        let other = try await GatewayFixture.token("u2", issuedAt: 1_000)
        var closed: [TestClient] = []
        for _ in 0..<4 { closed.append(try await opened(fixture, old)) }
        closed.append(try await opened(fixture, undated))
        let kept = [try await opened(fixture, new), try await opened(fixture, other)]
        let (nobody, _) = try await TestClient.opened(port: fixture.port)
        fixture.feed([.revoked([Revocation(userID: "u1", before: 2_000_000_000)])])
        for client in closed { #expect(try await client.next() == .close(4110)) }
        for client in kept { try await expectPong(client) }
        try await expectPong(nobody)
    }

    @Test func whatWasIssuedBeforeIsRefusedEverywhere() async throws {
        let fixture = try await fixture(loops: 1, feed: GatewayFixture.feedOfNothing)
        let old = try await GatewayFixture.token("u1", issuedAt: 1_000)
        let witness = try await opened(fixture, old)
        let (client, socketID) = try await TestClient.opened(port: fixture.port)
        // Verified and signed before, used after.
        let signin = try await signin(fixture, old, socketID)
        let undated = try await self.signin(fixture, try await GatewayFixture.token("u1"), socketID)
        let subscribe = try await subscribe(fixture, old, socketID)
        let undatedSubscribe = try await self.subscribe(fixture, try await GatewayFixture.token("u1"), socketID)
        fixture.feed([.revoked([Revocation(userID: "u1", before: 2_000_000_000)])])
        #expect(try await witness.next() == .close(4110))

        for message in [signin, undated, auth(old), auth(try await GatewayFixture.token("u1"))] {
            try await client.send(message)
            let answer = try await text(client)
            #expect(answer.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#) && answer.contains("revoked"))
        }
        for message in [subscribe, undatedSubscribe] {
            try await client.send(message)
            let answer = try await text(client)
            #expect(answer.hasPrefix(#"{"event":"pusher:subscription_error""#) && answer.contains("revoked"))
        }
        let upgrading = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) {
            try await upgrading.upgrade(fields: "Authorization: Bearer \(old)\r\n")
        }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 401 ") == true)
        for (path, body) in [
            ("/pusher/user-auth", "socket_id=1.2"),
            ("/pusher/auth", "socket_id=1.2&channel_name=private-user.u1.adherence"),
            ("/users/u1/adherence/actions", "{}"),
        ] {
            let (head, body) = try await post(fixture, path, body, old)
            #expect(head.hasPrefix("HTTP/1.1 401 "), "\(path)")
            #expect(body.contains("revoked"), "\(path)")
        }

        let reading = try TestClient(port: fixture.port)
        for path in ["/users/u1/adherence/today", "/users/u1/reminders"] {
            try await reading.sendRaw("GET \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(old)\r\n\r\n")
            let (head, body) = try await reading.response()
            #expect(head.hasPrefix("HTTP/1.1 401 ") && body.contains("revoked"), "\(path)")
        }

        let new = try await GatewayFixture.token("u1", issuedAt: 2_000)
        try await client.send(try await self.signin(fixture, new, socketID))
        #expect(try await text(client).hasPrefix(#"{"event":"pusher:signin_success""#))
    }

    /// A hub that does not know who is revoked lets nobody read or write, and closes those who may not when it knows.
    @Test func nobodyIsServedBeforeRevocationsAreKnown() async throws {
        let fixture = try await GatewayFixture(
            loops: 1, ownsDatabase: true, feed: GatewayFixture.feedOfNothing, knowsRevocations: false)
        let old = try await GatewayFixture.token("u1", issuedAt: 1_000)
        let other = try await GatewayFixture.token("u2", issuedAt: 1_000)
        let revoked = try await opened(fixture, old)
        let client = try await opened(fixture, other)
        let action = #"{"event":"sync:action","data":{"key":"k","type":"t","payload":{}}}"#
        let paths = [
            ("/pusher/user-auth", "socket_id=1.2"),
            ("/pusher/auth", "socket_id=1.2&channel_name=private-user.u2.adherence"),
            ("/users/u2/adherence/actions", #"{"key":"k","type":"t","payload":{}}"#),
        ]
        for round in 0..<2 {
            for (path, body) in paths {
                let (head, _) = try await post(fixture, path, body, other)
                #expect(head.hasPrefix("HTTP/1.1 503 ") && head.contains("Retry-After: 1\r\n"), "\(path)")
            }
            let reading = try TestClient(port: fixture.port)
            try await reading.sendRaw(
                "GET /users/u2/adherence/today HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(other)\r\n\r\n")
            #expect(try await reading.response().head.hasPrefix("HTTP/1.1 503 "))
            try await client.send(action)
            let answer = try await text(client)
            #expect(answer.contains(#"\"status\":\"retry\",\"code\":\"unavailable\""#))
            #expect(answer.contains("revoked"))
            guard round == 0 else { break }

            fixture.feed([.revoked([Revocation(userID: "u1", before: 2_000_000_000)]), .revocationsCurrent(true)])
            #expect(try await revoked.next() == .close(4110))
            for (path, body) in paths.prefix(2) {
                let (head, _) = try await post(fixture, path, body, other)
                #expect(head.hasPrefix("HTTP/1.1 200 "), "\(path)")
            }
            #expect(try await post(fixture, "/pusher/user-auth", "socket_id=1.2", old).head.hasPrefix("HTTP/1.1 401 "))
            try await client.send(action)
            #expect(try await !text(client).contains("revoked"))
            fixture.feed([.revocationsCurrent(false)])
        }
    }

    /// All the way: from `sync.revoke` in a backend's transaction to the close frame, within a poll and a second.
    @Test func aRevocationInTheDatabaseClosesTheUsersConnections() async throws {
        let database = try Cluster.shared.get().database()
        let backend = try database.owner()
        let configuration = FeedConfiguration(connectionString: database.hub)
        let fixture = try await fixture(feed: configuration)
        let issue = now.rounded(.down) - 10
        let witness = try await opened(fixture, try await GatewayFixture.token("witness", issuedAt: issue))
        let token = try await GatewayFixture.token("u.1", issuedAt: issue)
        let clients = [try await opened(fixture, token), try await opened(fixture, token)]
        let other = try await opened(fixture, try await GatewayFixture.token("u.2", issuedAt: issue))
        try backend.execute("SELECT sync.revoke('witness')")
        #expect(try await witness.next() == .close(4110), "whenever the feed has found its database")

        let start = ContinuousClock.now
        try backend.execute("SELECT sync.revoke('u.1')")
        for client in clients { #expect(try await client.next() == .close(4110)) }
        #expect(ContinuousClock.now - start < configuration.pollInterval + .seconds(1))
        try await expectPong(other)
        _ = try await opened(fixture, try await GatewayFixture.token("u.1", issuedAt: now + 2))
        let (head, _) = try await post(fixture, "/pusher/user-auth", "socket_id=1.2", token)
        #expect(head.hasPrefix("HTTP/1.1 401 "))
    }
}
