import Bytes
import Feed
import Foundation
import Gateway
import Sync
import TestDatabase
import TestHub
import TestSupport
import Testing
import WebSocket

/// Identities over time, on real sockets. Tokens have whole seconds and the machine may be busy, so these tests' tokens
/// expire within four seconds.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct IdentityConnectionTests {
    private func fixture(loops: Int = 2, feed: FeedConfiguration? = nil) async throws -> GatewayFixture {
        try await GatewayFixture(loops: loops, ownsDatabase: true, feed: feed) {
            $0.timeouts.identity.grace = .milliseconds(300)
        }
    }

    private var now: Double { Date().timeIntervalSince1970 }

    /// Three to four seconds from now.
    private var soon: Double { now.rounded(.down) + 4 }

    private func auth(_ token: String) -> String {
        #"{"event":"sync:auth","data":{"token":"\#(token)"}}"#
    }

    private func expectPong(_ client: TestClient) async throws {
        try await client.send(#"{"event":"pusher:ping"}"#)
        #expect(try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    private func expectExpiring(_ client: TestClient, _ expiry: Double) async throws {
        #expect(
            try await client.text() == #"{"event":"sync:auth_expiring","data":"{\"expiresAt\":\#(Int(expiry))}"}"#)
    }

    /// Opens a connection and authenticates it with a token.
    private func opened(_ fixture: GatewayFixture, _ token: String) async throws -> TestClient {
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(auth(token))
        #expect(try await client.text().hasPrefix(#"{"event":"sync:auth_ok""#))
        return client
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
        _ = try await client.text()
        _ = try await client.text()
        try await expectExpiring(client, expiry)
        #expect(try await client.next() == .close(4109))
    }

    @Test func aTokenTooLateForTheGraceClosesAtOnce() async throws {
        let fixture = try await fixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        // Within the verifier's leeway, and beyond the grace period.
        try await client.send(auth(try await GatewayFixture.token("u1", expiresAt: now.rounded(.down) - 5)))
        #expect(try await client.next() == .close(4109))
    }

    /// Connections that show a newer token stay open after the others have been closed.
    @Test func aNewTokenKeepsTheConnection() async throws {
        let fixture = try await fixture(loops: 1)
        let expiry = soon
        let token = try await GatewayFixture.token("u1", expiresAt: expiry)
        let later = try await GatewayFixture.token("u1")
        let renewing = try await opened(fixture, token)
        try await expectExpiring(renewing, expiry)
        try await renewing.send(auth(later))
        #expect(
            try await renewing.text()
                == #"{"event":"sync:auth_ok","data":"{\"userId\":\"u1\",\"expiresAt\":4000000000}"}"#)
        // So does a session by signin.
        let (signedIn, socketID) = try await TestClient.opened(port: fixture.port)
        let times = #","issuedAt":0,"expiresAt":\#(Int(expiry))"#
        try await signedIn.signin("u1", more: times, TestApp { $0.key = "key" }, socketID)
        try await expectExpiring(signedIn, expiry)
        try await signedIn.send(auth(later))
        #expect(try await signedIn.text().hasPrefix(#"{"event":"sync:auth_ok""#))
        // An earlier expiry does not shorten the later one.
        try await signedIn.send(auth(token))
        #expect(try await signedIn.text().contains("4000000000"))
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
        #expect(try await client.text().hasPrefix(#"{"event":"pusher:error","data":{"code":null"#))
        #expect(try await client.next() == .close(4109))
    }

    /// Consecutive tokens, of which one is being verified at any time.
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

    @Test func aClientWithOnlyBadTokensIsClosed() async throws {
        let fixture = try await fixture()
        let (client, _) = try await TestClient.opened(port: fixture.port)
        let good = try await GatewayFixture.token("u1")
        let bad = try await GatewayFixture.token("u1", secret: "another secret of thirty-two bytes")
        for _ in 0..<9 { try await client.send(auth(bad)) }
        try await client.send(auth(good))
        for _ in 0..<10 { try await client.send(auth(bad)) }
        for number in 0..<20 {
            let start = number == 9 ? #"{"event":"sync:auth_ok""# : #"{"event":"pusher:error""#
            #expect(try await client.text().hasPrefix(start))
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
        let fixture = try await fixture(loops: 2, feed: GatewayFixture.feed())
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

    /// End to end: from `sync.revoke` in a backend's transaction to the close frame, within a poll and a second.
    @Test func aRevocationInTheDatabaseClosesTheUsersConnections() async throws {
        let database = try Cluster.shared.get().database()
        let backend = try database.owner()
        let configuration = GatewayFixture.feed(of: database.hub)
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
        let upgrading = try TestClient(port: fixture.port)
        let failure = await #expect(throws: TestClient.Failure.self) {
            try await upgrading.upgrade(fields: "Authorization: Bearer \(token)\r\n")
        }
        #expect(failure?.reason.hasPrefix("HTTP/1.1 401 ") == true)
    }
}
