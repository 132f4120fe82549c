import Gateway
import TestDatabase
import TestHub
import TestSupport
import Testing

@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ActionRouteTests {
    private let toy: ToyActions

    init() throws {
        toy = try ToyActions()
    }

    private func fixture(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws -> GatewayFixture {
        try await GatewayFixture(ownsDatabase: true, actions: toy.configuration, change)
    }

    private static let path = "/users/u1/adherence/actions"

    private func post(
        _ body: String, path: String = path, token: String?, type: String? = "application/json", fields: String = ""
    ) -> String {
        var head = "POST \(path) HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.utf8.count)\r\n\(fields)"
        if let token { head += "Authorization: Bearer \(token)\r\n" }
        if let type { head += "Content-Type: \(type)\r\n" }
        return "\(head)\r\n\(body)"
    }

    /// The answer, retried until the store is up.
    private func answer(_ client: TestClient, _ request: String) async throws -> (head: String, body: String) {
        while true {
            try await client.sendRaw(request)
            let answer = try await client.response()
            if !answer.body.contains(#""unavailable""#) { return answer }
        }
    }

    @Test(arguments: [
        ("applied", 200, #""result": {"#), ("noop", 200, #""result": {"#), ("partial", 200, #""result": {"#),
        ("conflict", 409, #""conflict": {"options": []}"#), ("rejected", 422, #""path": "payload.x""#),
        ("retry", 503, #""expected": 5"#),
    ])
    func anEnvelopeGetsTheResult(_ type: String, _ status: Int, _ part: String) async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let (head, body) = try await answer(
            client, post(#"{"v":1,"key":"k","type":"\#(type)","payload":{}}"#, token: token))
        #expect(head.hasPrefix("HTTP/1.1 \(status) "))
        #expect(body.contains(#""key": "k""#) && body.contains(#""status": "\#(type)""#) && body.contains(part))
        #expect(!body.contains("_sync"))
        #expect(head.contains("Retry-After: 1\r\n") == (type == "retry"))
    }

    @Test func thePlainShapeGetsTheEntity() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let positions = #""positions":{"user.u1.adherence": {"epoch": "e", "offset": 1}}"#
        let applied = try await answer(
            client, post(#"{"idempotencyKey":"k","actionType":"applied","payload":{"again":1}}"#, token: token))
        #expect(applied.head.hasPrefix("HTTP/1.1 200 "))
        #expect(
            applied.body
                == #"{"who": "u1", "payload": {"again": 1},"_sync":{"replayed":true,"status":"applied",\#(positions)}}"#
        )
        let conflict = try await answer(
            client, post(#"{"idempotencyKey":"k","actionType":"conflict","payload":{}}"#, token: token))
        #expect(conflict.head.hasPrefix("HTTP/1.1 409 "))
        #expect(
            conflict.body == #"{"error":"a reason","code":"state","conflict":{"options": []},"#
                + #""_sync":{"replayed":false,"key":"k","status":"conflict",\#(positions)}}"#)
        let rejected = try await answer(
            client, post(#"{"idempotencyKey":"k","actionType":"rejected","payload":{}}"#, token: token))
        #expect(
            rejected.body == #"{"error":"a reason","code":"invalid","path":"payload.x","#
                + #""_sync":{"replayed":false,"key":"k","status":"rejected"}}"#)
        let retry = try await answer(
            client, post(#"{"idempotencyKey":"k","actionType":"retry","payload":{}}"#, token: token))
        #expect(retry.head.hasPrefix("HTTP/1.1 503 ") && retry.head.contains("Retry-After: 1\r\n"))
        #expect(retry.body.contains(#""code":"out_of_order","expected":5,"#))
        // The hub's own refusals have the same shape.
        let invalid = try await answer(
            client, post(#"{"idempotencyKey":"k","actionType":"applied"}"#, token: token))
        #expect(invalid.head.hasPrefix("HTTP/1.1 422 "))
        #expect(
            invalid.body == #"{"error":"must be an object","code":"invalid","path":"payload","#
                + #""_sync":{"replayed":false,"key":"k","status":"rejected","numberUsed":false}}"#)
        // Both name a field as the client does.
        for body in [
            #"{"idempotencyKey":"k","payload":{}}"#,
            #"{"idempotencyKey":"k","actionType":"rejected","payload":{"wrong":"type"}}"#,
        ] {
            let refused = try await answer(client, post(body, token: token))
            #expect(refused.head.hasPrefix("HTTP/1.1 422 "))
            #expect(refused.body.contains(#""code":"invalid","path":"actionType","#))
        }
    }

    @Test func bulkIsAnActionToo() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let bulk = "/users/u1/adherence/bulk"
        let plain = try await answer(
            client, post(#"{"idempotencyKey":"k","occurrenceIds":["a"],"takenAt":"t"}"#, path: bulk, token: token))
        #expect(plain.head.hasPrefix("HTTP/1.1 200 "))
        #expect(plain.body.contains(#""payload": {"takenAt": "t", "occurrenceIds": ["a"]}"#))
        let envelope = try await answer(
            client, post(#"{"key":"k","type":"applied","payload":{"a":1}}"#, path: bulk, token: token))
        #expect(envelope.head.hasPrefix("HTTP/1.1 200 ") && envelope.body.contains(#""payload": {"a": 1}"#))
        let none = try await answer(client, post(#"{"occurrenceIds":["a"]}"#, path: bulk, token: token))
        #expect(none.head.hasPrefix("HTTP/1.1 400 "))
    }

    /// An entry of a client's queue, as stored, on the paths that name no user.
    @Test func queuedActionsOfTheTokensUser() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let queued = #"{"id":"q","type":"conflict","payload":{"a":1},"timestamp":17,"retries":2}"#
        for path in ["/adherence/actions", "/adherence/bulk", Self.path] {
            let (head, body) = try await answer(client, post(queued, path: path, token: token))
            #expect(head.hasPrefix("HTTP/1.1 409 ") && body.contains(#""key":"q""#) && body.contains(#"{"error":"#))
        }
        let bulk = #"{"id":"q","type":"bulkMarkAll","payload":{"occurrenceIds":["a"]}}"#
        let done = try await answer(client, post(bulk, path: "/adherence/bulk", token: token))
        #expect(done.head.hasPrefix("HTTP/1.1 200 ") && done.body.hasPrefix(#"{"who": "u1", "payload": {"#))
        let nobody = try await answer(client, post(queued, path: "/adherence/actions", token: nil))
        #expect(nobody.head.hasPrefix("HTTP/1.1 401 "))
    }

    @Test func theKeyMayStandInTheField() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        for field in ["f-1", "\"f-1\""] {
            let (_, body) = try await answer(
                client,
                post(
                    #"{"type":"applied","payload":{}}"#, token: token, fields: "Idempotency-Key: \(field)\r\n"))
            #expect(body.contains(#""key": "f-1""#))
        }
        let plain = try await answer(
            client,
            post(#"{"actionType":"conflict","payload":{}}"#, token: token, fields: "Idempotency-Key: f-2\r\n"))
        #expect(plain.body.contains(#""key":"f-2""#))
    }

    /// Authorization is checked before the request itself.
    @Test func onlyTheUserMayAct() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let odd = try await GatewayFixture.token("a/b é")
        let good = #"{"key":"k","type":"applied","payload":{}}"#
        func status(_ request: String) async throws -> String {
            String(try await answer(client, request).head.dropFirst(9).prefix(3))
        }
        #expect(try await status(post(good, token: nil)) == "401")
        #expect(try await status(post("{", token: "x.y.z")) == "401")
        #expect(try await status(post("{", path: "/users/u2/adherence/actions", token: token)) == "403")
        #expect(try await status(post(good, path: "/users/U1/adherence/actions", token: token)) == "403")
        #expect(try await status(post(good, path: "/users/a%2Fb%20%C3%A9/adherence/actions", token: odd)) == "200")
        #expect(try await status(post(good, path: "/users/%75%31/adherence/actions", token: token)) == "200")
        #expect(try await status(post("{", token: token)) == "400")
        #expect(try await status(post("[]", token: token)) == "400")
        #expect(try await status(post("", token: token)) == "400")
        #expect(try await status(post(good, token: token, type: nil)) == "200")
        #expect(try await status(post(good, token: token, type: "application/json; charset=utf-8")) == "200")
        #expect(try await status(post(good, token: token, type: "Application/JSON")) == "200")
        for type in ["text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
            #expect(try await status(post(good, token: token, type: type)) == "415")
        }
    }

    @Test(arguments: [
        "/users/u1/adherence", "/users/u1/adherence/action", "/users/u1/adherence/actions/",
        "/users//adherence/actions",
        "/users/u1/x/adherence/actions", "/users/%zz/adherence/actions", "/users/%FF/adherence/actions", "/users/",
        "/users", "/users/u1", "/users/u1%2Fadherence/actions",
    ])
    func otherPathsAreNothing(_ path: String) async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(post("{}", path: path, token: "t"))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 "))
    }

    @Test func otherMethodsAreRefused() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            try await client.sendRaw("\(method) \(Self.path) HTTP/1.1\r\nHost: h\r\n\r\n")
            let head = try await client.response().head
            #expect(head.hasPrefix("HTTP/1.1 405 ") && head.contains("Allow: POST, OPTIONS\r\n"))
        }
    }

    @Test func tooMuchIsTooMuch() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        let head = "POST \(Self.path) HTTP/1.1\r\nHost: h\r\nContent-Length: "
        for (bytes, status) in [(65_536, 401), (65_537, 413)] {
            try await client.sendRaw("\(head)\(bytes)\r\n\r\n" + String(repeating: " ", count: bytes))
            #expect(try await client.response().head.hasPrefix("HTTP/1.1 \(status) "))
        }
        try await client.sendRaw("\(head)655361\r\n\r\n")
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 413 "), "before it has come")
    }

    @Test func browsersMaySendAKeyAndReadWhenToRetry() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true) { $0.origins = .only(["https://app.example"]) }
        let client = try TestClient(port: fixture.port)
        let origin = "Origin: https://app.example\r\n"
        try await client.sendRaw("OPTIONS \(Self.path) HTTP/1.1\r\nHost: h\r\n\(origin)\r\n")
        let preflight = try await client.response().head
        #expect(preflight.hasPrefix("HTTP/1.1 204 ") && preflight.contains("Idempotency-Key"))
        let token = try await GatewayFixture.token("u1")
        let body = #"{"key":"k","type":"applied","payload":{}}"#
        try await client.sendRaw(post(body, token: token, fields: origin))
        let answer = try await client.response()
        #expect(answer.head.hasPrefix("HTTP/1.1 503 "), "there is no store")
        #expect(answer.head.contains("Retry-After: 60\r\n"))
        #expect(answer.head.contains("Access-Control-Allow-Origin: https://app.example\r\n"))
        #expect(answer.head.contains("Access-Control-Expose-Headers: ETag, Retry-After, X-Sync-Position\r\n"))
        try await client.sendRaw(post(body, token: token, fields: "Origin: https://evil.example\r\n"))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 403 "))
    }

    @Test func withoutADatabaseThereAreNoUsers() async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(post("{}", token: nil))
        let (head, body) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 404 ") && body.contains("no database"))
    }

    @Test func whatIsUnderWayIsAnsweredBeforeTheEnd() async throws {
        let fixture = try await fixture {
            $0.timeouts.drain = .seconds(30)
            $0.loops = 1
        }
        let token = try await GatewayFixture.token("u1")
        _ = try await answer(
            try TestClient(port: fixture.port), post(#"{"key":"first","type":"noop","payload":{}}"#, token: token))
        let (idle, _) = try await TestClient.opened(port: fixture.port)
        try toy.hold()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(post(#"{"key":"k","type":"held","payload":{}}"#, token: token))
        while try toy.heldCount() < 1 { await Task.yield() }
        let end = fixture.end()
        #expect(try await idle.next() == .close(1001))
        try toy.release()
        let (head, _) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 200 ") && head.contains("Connection: close\r\n"))
        #expect(try await client.next() == .end)
        await end.value
    }

    @Test func anAnswerThatDoesNotComeIsARetry() async throws {
        let fixture = try await fixture { $0.timeouts.answer = .milliseconds(200) }
        let token = try await GatewayFixture.token("u1")
        _ = try await answer(
            try TestClient(port: fixture.port), post(#"{"key":"first","type":"noop","payload":{}}"#, token: token))
        try toy.hold()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(post(#"{"key":"k","type":"held","payload":{}}"#, token: token))
        let (head, _) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 503 ") && head.contains("Retry-After: 1\r\n"))
        #expect(try await client.next() == .end)
        try toy.release()
    }
}
