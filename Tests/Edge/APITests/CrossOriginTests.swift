import API
import Gateway
import HTTP
import HubEngine
import TestHub
import TestSupport
import Testing

/// CORS answers to browsers (Fetch standard §3.2).
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CrossOriginTests {
    private static let origin = "https://app.example"
    private static let usual =
        "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Requested-With"
    private static let paths = [
        "/pusher/auth", "/pusher/user-auth", "/users/u1/adherence/actions", "/users/u1/adherence/bulk",
        "/users/u1/adherence/today", "/users/u1/adherence/month", "/users/u1/reminders",
    ]

    private func fixture(
        _ origins: AllowedOrigins = .only([origin]), routes: (any HTTPRoutes)? = nil,
        _ change: @escaping (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws -> GatewayFixture {
        try await GatewayFixture(ownsDatabase: true, routes: routes) {
            $0.origins = origins
            change(&$0)
        }
    }

    private func field(_ name: String, _ head: String) -> String? {
        guard let start = head.firstRange(of: "\r\n\(name): ")?.upperBound else { return nil }
        return String(head[start...].prefix { $0 != "\r\n" })
    }

    private func preflight(
        _ client: TestClient, _ path: String, _ names: String?, from origin: String = origin
    ) async throws
        -> String
    {
        let asked = names.map { "Access-Control-Request-Headers: \($0)\r\n" } ?? ""
        try await client.sendRaw(
            "OPTIONS \(path) HTTP/1.1\r\nHost: h\r\nOrigin: \(origin)\r\nAccess-Control-Request-Method: POST\r\n\(asked)\r\n"
        )
        return try await client.response().head
    }

    // MARK: Preflights

    /// A page may send the header fields that it asks for, such as those of Laravel Echo with a CSRF token and its axios
    /// interceptor.
    @Test(arguments: [
        ("x-csrf-token", "x-csrf-token"),
        (
            "authorization,content-type,x-csrf-token,x-socket-id",
            "authorization, content-type, x-csrf-token, x-socket-id"
        ),
        ("X-XSRF-TOKEN,\t X-Socket-Id ,idempotency-key", "X-XSRF-TOKEN, X-Socket-Id, idempotency-key"),
        ("if-none-match", "if-none-match"), ("!#$%&'*+-.^_`|~", "!#$%&'*+-.^_`|~"),
    ])
    func whatIsAskedForIsAllowed(_ asked: String, _ allowed: String) async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        for path in Self.paths {
            let head = try await preflight(client, path, asked)
            #expect(head.hasPrefix("HTTP/1.1 204 "))
            #expect(field("Access-Control-Allow-Headers", head) == allowed)
            #expect(field("Access-Control-Allow-Origin", head) == Self.origin)
            #expect(field("Vary", head) == "Origin, Access-Control-Request-Headers")
        }
    }

    /// A malformed list of names is not echoed: the usual names are allowed, and the browser decides.
    @Test(arguments: [nil, "", ",", "a,,b", "a,", "x csrf", "a;b", "a:b", "ä", "a, \"b\"", "(a)", "a/b", "*, a\u{1F}b"])
    func whatIsNoListIsNotEchoed(_ asked: String?) async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let head = try await preflight(client, "/pusher/auth", asked)
        // The parser refuses control characters.
        if asked?.contains("\u{1F}") == true {
            #expect(head.hasPrefix("HTTP/1.1 400 "))
        } else {
            #expect(field("Access-Control-Allow-Headers", head) == Self.usual)
        }
    }

    @Test func aListAtTheBoundAndOnePast() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let many = (0..<128).map { _ in "x-abcde" }.joined(separator: ",") + "f"
        #expect(many.utf8.count == 1_024)
        let head = try await preflight(client, "/pusher/auth", many)
        #expect(field("Access-Control-Allow-Headers", head)?.hasSuffix(", x-abcdef") == true)
        let huge = try await preflight(client, "/pusher/auth", many + "g")
        #expect(field("Access-Control-Allow-Headers", huge) == Self.usual)
    }

    @Test func foreignPagesAreToldNothing() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        for path in Self.paths {
            let head = try await preflight(client, path, "x-csrf-token", from: "https://evil.example")
            #expect(head.hasPrefix("HTTP/1.1 403 ") && !head.contains("Access-Control"))
        }
        let head = try await preflight(client, "/nothing", "x-csrf-token", from: "https://evil.example")
        #expect(head.hasPrefix("HTTP/1.1 404 ") && !head.contains("Access-Control"))
    }

    /// `withCredentials` needs the hub's consent, which it gives only to origins that are named.
    @Test(arguments: [true, false]) func credentialsAreForNamedOrigins(_ isNamed: Bool) async throws {
        let fixture = try await fixture(isNamed ? .only([Self.origin]) : .any)
        let client = try TestClient(port: fixture.port)
        var heads = [try await preflight(client, "/pusher/auth", "x-csrf-token")]
        try await client.sendRaw(
            "POST /pusher/auth HTTP/1.1\r\nHost: h\r\nOrigin: \(Self.origin)\r\nContent-Length: 0\r\n\r\n")
        heads.append(try await client.response().head)
        #expect(heads[1].hasPrefix("HTTP/1.1 401 "))
        for head in heads {
            #expect(field("Access-Control-Allow-Credentials", head) == (isNamed ? "true" : nil))
            #expect(field("Access-Control-Allow-Origin", head) == Self.origin)
            #expect(!head.contains("*"))
        }
    }

    // MARK: Errors

    /// Without these fields a browser shows a page no answer, not even its status.
    @Test(arguments: [
        ("POST /pusher/auth", "", 401), ("GET /pusher/auth", "", 405), ("GET /nothing", "", 404),
        ("GET /users/u1/adherence/nothing", "", 404), ("GET /users/u1/adherence/today", "", 401),
        ("POST /pusher/auth", String(repeating: "x", count: 65_537), 413),
    ])
    func errorsCanBeRead(_ line: String, _ body: String, _ status: Int) async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(
            "\(line) HTTP/1.1\r\nHost: h\r\nOrigin: \(Self.origin)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        )
        let head = try await client.response().head
        #expect(head.hasPrefix("HTTP/1.1 \(status) "), "\(head)")
        #expect(field("Access-Control-Allow-Origin", head) == Self.origin)
        #expect(field("Access-Control-Expose-Headers", head) == "ETag, Retry-After, X-Sync-Position")
        #expect(field("Vary", head) == "Origin")
    }

    /// Includes errors that no route makes: a full hub, and an answer that did not come in time.
    @Test func theGatewaysOwnErrorsCanBeRead() async throws {
        let full = try await fixture { $0.admission.connectionsMax = 1 }
        let first = try TestClient(port: full.port)
        try await first.upgrade()
        let late = try await fixture(routes: NoAnswer()) { $0.timeouts.answer = .milliseconds(1) }
        for port in [full.port, late.port] {
            for (origin, isAllowed) in [(Self.origin, true), ("https://evil.example", false)] {
                let client = try TestClient(port: port)
                try await client.sendRaw("GET /users/u1/reminders HTTP/1.1\r\nHost: h\r\nOrigin: \(origin)\r\n\r\n")
                let head = try await client.response().head
                #expect(head.hasPrefix("HTTP/1.1 503 ") && field("Retry-After", head) != nil)
                #expect(field("Access-Control-Allow-Origin", head) == (isAllowed ? origin : nil))
            }
            let client = try TestClient(port: port)
            try await client.sendRaw("GET /users/u1/reminders HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try await !client.response().head.contains("Access-Control"))
        }
    }

    private struct NoAnswer: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? { nil }
    }
}
