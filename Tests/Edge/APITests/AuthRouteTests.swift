import API
import Gateway
import HTTP
import Pusher
import TestHub
import TestSupport
import Testing

/// The endpoints that Pusher's clients call before they subscribe or sign in.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct AuthRouteTests {
    private func post(_ path: String, _ body: String, token: String?, fields: String = "") -> String {
        let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return "POST \(path) HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\(authorization)\(fields)\r\n\(body)"
    }

    private func socketID(_ text: String) -> SocketID? {
        Array(text.utf8).withUnsafeBytes { SocketID($0) }
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let token = try await GatewayFixture.token("u1")
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(
            post("/pusher/user-auth", "socket_id=1.2", token: token) + "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"
                + post("/pusher/user-auth", "socket_id=1.2", token: nil))
        let (first, body) = try await client.response()
        #expect(first.hasPrefix("HTTP/1.1 200 "))
        let data = #"{"id":"u1","issuedAt":0,"expiresAt":4000000000}"#
        let expected = fixture.credentials.sign(.user(userData: data), socketID: try #require(socketID("1.2")))
        #expect(body == #"{"auth":"\#(expected)","user_data":"\#(data.replacing("\"", with: "\\\""))"}"#)
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 "))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 401 "))
    }

    @Test(arguments: [
        ("private-user.u1.adherence", 200), ("private-user.u2.adherence", 403), ("private-x", 403), ("a b", 400),
    ])
    func channelsAreSignedForTheirUserOnly(_ channel: String, _ status: Int) async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let token = try await GatewayFixture.token("u1")
        let client = try TestClient(port: fixture.port)
        let body = "socket_id=1.2&channel_name=" + channel.replacing(" ", with: "+")
        try await client.sendRaw(post("/pusher/auth", body, token: token))
        let answer = try await client.response()
        #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "))
        guard status == 200 else { return }
        let expected = fixture.credentials.sign(
            try #require(ChannelName(channel)), grant: GrantTimes(issuedAt: nil, expiresAt: 4_000_000_000),
            socketID: try #require(socketID("1.2")))
        #expect(expected.hasSuffix(":0:4000000000"))
        #expect(answer.body == #"{"auth":"\#(expected)"}"#)
    }

    @Test(arguments: ["socket_id=x", "socket_id=", "", "socket_id=1.2.3&channel_name=x"])
    func badFormsAreRefused(_ body: String) async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(post("/pusher/auth", body, token: try await GatewayFixture.token("u1")))
        let answer = try await client.response()
        #expect(answer.head.hasPrefix("HTTP/1.1 400 "))
        #expect(answer.body.hasPrefix(#"{"error":""#))
    }

    @Test func browsersAreAnsweredByTheAllowList() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true) { $0.origins = .only(["https://app.example"]) }
        let client = try TestClient(port: fixture.port)
        let preflight =
            "OPTIONS /pusher/auth HTTP/1.1\r\nHost: h\r\nOrigin: https://app.example\r\n"
            + "Access-Control-Request-Method: POST\r\n\r\n"
        try await client.sendRaw(preflight)
        let allowed = try await client.response().head
        #expect(allowed.hasPrefix("HTTP/1.1 204 "))
        #expect(allowed.contains("Access-Control-Allow-Origin: https://app.example\r\n"))
        #expect(allowed.contains("Authorization"))
        try await client.sendRaw(preflight.replacing("app.example", with: "evil.example"))
        let refused = try await client.response().head
        #expect(refused.hasPrefix("HTTP/1.1 403 "))
        #expect(!refused.contains("Access-Control-Allow-Origin"))
        try await client.sendRaw(post("/pusher/auth", "", token: nil, fields: "Origin: https://app.example\r\n"))
        #expect(try await client.response().head.contains("Access-Control-Allow-Origin: https://app.example\r\n"))
    }

    /// The hub's own endpoint signs with the app's current secret.
    @Test func theHubSignsByTheNewSecret() async throws {
        let app = TestApp(0) { $0.ownsDatabase = true }
        let fixture = try await GatewayFixture(loops: 1, ownsDatabase: true) { $0.apps = [app.app] }
        var newer = app
        newer.secret = "newer"
        try fixture.gateway.replaceApps([newer.app])
        let (client, socketID) = try await TestClient.opened(fixture, newer)
        let body = "socket_id=\(socketID)"
        let http = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u")
        try await http.sendRaw(
            "POST /pusher/user-auth HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.utf8.count)\r\n"
                + "Authorization: Bearer \(token)\r\n\r\n\(body)")
        try await client.send(#"{"event":"pusher:signin","data":\#(try await http.response().body)}"#)
        #expect(try await client.text().hasPrefix(#"{"event":"pusher:signin_success""#))
    }

    /// A user's body is limited to 64 KiB, whatever `limits.bodyBytes` allows.
    @Test(arguments: [(65_536, 404), (65_537, 413)])
    func aUsersLargeBodyIsCounted(_ bytes: Int, _ status: Int) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let client = try TestClient(port: fixture.port)
        let body = String(repeating: "x", count: bytes)
        try await client.sendRaw("POST /pusher/user-auth HTTP/1.1\r\nHost: h\r\nContent-Length: \(bytes)\r\n\r\n")
        try await client.sendRaw(body)
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 \(status) "))
        let reached = #"carillon_limits_reached_total{limit="userBodyBytes"} \#(status == 413 ? 1 : 0)\#n"#
        #expect(metrics.text.contains(reached))
    }
}
