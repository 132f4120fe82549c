import API
import Feed
import Foundation
import Gateway
import Sync
import TestHub
import TestSupport
import Testing

/// Identities signed by the hub's own endpoints, and the answers of all routes after a revocation.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RouteIdentityTests {
    private func fixture(loops: Int = 2, feed: FeedConfiguration? = nil) async throws -> GatewayFixture {
        try await GatewayFixture(loops: loops, ownsDatabase: true, feed: feed) {
            $0.timeouts.identity.grace = .milliseconds(300)
        }
    }

    private var now: Double { Date().timeIntervalSince1970 }

    /// Three to four seconds from now: tokens have whole seconds, and the machine may be busy.
    private var soon: Double { now.rounded(.down) + 4 }

    private func auth(_ token: String) -> String {
        #"{"event":"sync:auth","data":{"token":"\#(token)"}}"#
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

    /// The signin message of pusher-js, signed by the hub's own endpoint.
    private func signin(_ fixture: GatewayFixture, _ token: String, _ socketID: String) async throws -> String {
        let (head, body) = try await post(fixture, "/pusher/user-auth", "socket_id=\(socketID)", token)
        #expect(head.hasPrefix("HTTP/1.1 200 "))
        return #"{"event":"pusher:signin","data":\#(body)}"#
    }

    // MARK: Expiry

    /// A subscribe message, signed by the hub's own endpoint.
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
        let success = try await client.text()
        #expect(success.hasPrefix(#"{"event":"pusher:signin_success""#))
        #expect(success.contains(#"\\\"issuedAt\\\":\#(Int(expiry) - 60),\\\"expiresAt\\\":\#(Int(expiry))"#))
        try await expectExpiring(client, expiry)
        #expect(try await client.next() == .close(4109))
    }

    // MARK: Revocation

    @Test func whatWasIssuedBeforeIsRefusedEverywhere() async throws {
        let fixture = try await fixture(loops: 1, feed: GatewayFixture.feed())
        let old = try await GatewayFixture.token("u1", issuedAt: 1_000)
        let witness = try await opened(fixture, old)
        let (client, socketID) = try await TestClient.opened(port: fixture.port)
        // Verified and signed before the revocation, used after it.
        let signin = try await signin(fixture, old, socketID)
        let undated = try await self.signin(fixture, try await GatewayFixture.token("u1"), socketID)
        let subscribe = try await subscribe(fixture, old, socketID)
        let undatedSubscribe = try await self.subscribe(fixture, try await GatewayFixture.token("u1"), socketID)
        fixture.feed([.revoked([Revocation(userID: "u1", before: 2_000_000_000)])])
        #expect(try await witness.next() == .close(4110))

        for message in [signin, undated, auth(old), auth(try await GatewayFixture.token("u1"))] {
            try await client.send(message)
            let answer = try await client.text()
            #expect(answer.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#) && answer.contains("revoked"))
        }
        for message in [subscribe, undatedSubscribe] {
            try await client.send(message)
            let answer = try await client.text()
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
        #expect(try await client.text().hasPrefix(#"{"event":"pusher:signin_success""#))
    }

    /// Until a hub knows the revocations, it lets nobody read or write. Then it closes revoked connections.
    @Test func nobodyIsServedBeforeRevocationsAreKnown() async throws {
        let fixture = try await GatewayFixture(
            loops: 1, ownsDatabase: true, feed: GatewayFixture.feed(), knowsRevocations: false)
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
            let answer = try await client.text()
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
            #expect(try await !client.text().contains("revoked"))
            fixture.feed([.revocationsCurrent(false)])
        }
    }
}
