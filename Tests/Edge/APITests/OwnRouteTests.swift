import API
import Clock
import Foundation
import Gateway
import HTTP
import Postgres
import Store
import Sync
import TestDatabase
import TestHub
import TestSupport
import Testing

/// What a new resource needs: a row of the table, and a function in a real database.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct OwnRouteTests {
    private let database: Database
    private let owner: BlockingConnection

    init() throws {
        database = try Cluster.shared.get().database()
        owner = try database.owner()
        try owner.execute(
            """
            CREATE SCHEMA app;
            CREATE TABLE app.weight (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text NOT NULL, grams int);
            SELECT sync.publish_changes('app.weight', 'user_id', 'weight', 'weight');
            CREATE FUNCTION app.weights(who text, day date, most bigint, unit text)
            RETURNS TABLE (epoch text, top bigint, body text) LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
            BEGIN
                IF unit = 'none' THEN RAISE EXCEPTION 'no such unit' USING ERRCODE = 'no_data_found'; END IF;
                IF unit = 'bad' THEN RAISE EXCEPTION 'secret' USING ERRCODE = 'invalid_parameter_value'; END IF;
                IF unit = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                RETURN QUERY SELECT p.epoch, p.top, CASE WHEN unit <> 'missing' THEN jsonb_build_array(
                    (SELECT coalesce(jsonb_agg(w.grams ORDER BY w.id), '[]') FROM app.weight AS w WHERE w.user_id = who),
                    day, most, unit)::text END
                FROM sync.positions(ARRAY[who], ARRAY['weight']) AS p;
            END $$;
            CREATE FUNCTION app.weigh(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text)
            RETURNS sync.verdict LANGUAGE plpgsql AS $$
            DECLARE
                v sync.verdict;
            BEGIN
                IF doc ->> 'grams' IS NULL THEN
                    v.status := 'rejected';
                    v.answer := jsonb_build_object('code', coalesce(doc ->> 'code', 'invalid'), 'path', 'payload.grams', 'message', 'm');
                ELSE
                    INSERT INTO app.weight (user_id, grams) VALUES (who, (doc ->> 'grams')::int);
                    v.status := 'applied';
                    v.answer := jsonb_build_object('result', doc || jsonb_build_object('base', base, 'who', who));
                END IF;
                RETURN v;
            END $$;
            INSERT INTO sync.action_type VALUES ('weigh', 'app.weigh', '{weight}', false), ('audit', 'app.weigh', '{weight}', true);
            GRANT USAGE ON SCHEMA app TO carillon_hub;
            """)
    }

    private static let failures = [
        "P0002": ProductRoute.Failure(.notFound, "There is no such unit."),
        "unknown": ProductRoute.Failure(.notFound, ""),
    ]
    private static let parameters = [
        RouteParameter("day", .day), RouteParameter("most", .integer(1...100), absence: .value("10")),
        RouteParameter("unit", .text(1...10), absence: .refused),
    ]
    private static let table = RouteTable([
        .read(
            "/users/{userId}/weights/{unit}", "weights", "app.weights", parameters, missing: "No weights.",
            failures: failures),
        .read("/weights", "own_weights", "app.weights", parameters, by: .userOfToken, freshness: .seconds(30)),
        .read("/weights/now", "now", "app.weights", parameters, by: .userOfToken, freshness: .unkept),
        .read(
            "/weights/soon", "soon", "app.weights", parameters, by: .userOfToken, within: .milliseconds(300)),
        .read("/backend/{userId}/weights", "theirs", "app.weights", parameters, by: .app),
        .action(
            .put, "/weights/{id}", .whole(type: "weigh"),
            [RouteParameter("id", .integer(1...9), absence: .refused), RouteParameter("unit", .choice(["g", "kg"]))],
            by: .userOfToken, failures: failures),
        .action(.post, "/backend/weights", .whole(type: "weigh"), by: .app),
        .action(.post, "/backend/audits", .whole(type: "audit"), by: .app),
        .batch("/weights/batch", "changes", most: 3, by: .userOfToken),
    ])

    private func fixture(statementTimeout: Duration = .seconds(5)) async throws -> GatewayFixture {
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.statementTimeout = statementTimeout
        configuration.actionTimeout = max(statementTimeout, configuration.actionTimeout)
        return try await GatewayFixture(ownsDatabase: true, actions: configuration, table: Self.table)
    }

    /// The answer, retried until the store is up.
    private func answer(_ client: TestClient, _ request: String) async throws -> (head: String, body: String) {
        while true {
            try await client.sendRaw(request)
            let answer = try await client.response()
            if !answer.head.hasPrefix("HTTP/1.1 503 ") { return answer }
        }
    }

    private func request(
        _ method: String, _ path: String, token: String?, _ body: String? = nil, fields: String = ""
    ) -> String {
        let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        let length = body.map { "Content-Type: application/json\r\nContent-Length: \($0.utf8.count)\r\n" } ?? ""
        return "\(method) \(path) HTTP/1.1\r\nHost: h\r\n\(authorization)\(length)\(fields)\r\n\(body ?? "")"
    }

    private func field(_ name: String, _ head: String) -> String? {
        head.split(separator: "\r\n").first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }

    @Test func aReadIsARowAndAFunction() async throws {
        try owner.execute("INSERT INTO app.weight (user_id, grams) VALUES ('u1', 71500), ('u2', 1), ('u1', 71000)")
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        func get(_ path: String, _ fields: String = "") async throws -> (head: String, body: String) {
            try await answer(client, request("GET", path, token: token, fields: fields))
        }
        let (head, body) = try await get("/users/u1/weights/k%2Fg?day=2025-11-14&most=7")
        #expect(head.hasPrefix("HTTP/1.1 200 ") && body == #"[[71500, 71000], "2025-11-14", 7, "k/g"]"#)
        #expect(field("X-Sync-Position", head)?.hasSuffix(":2") == true, "of the function's own topic")
        let tag = try #require(field("ETag", head))
        let path = "/users/u1/weights/k%2Fg?day=2025-11-14&most=7"
        #expect(try await get(path, "If-None-Match: \(tag)\r\n").head.hasPrefix("HTTP/1.1 304 "))
        #expect(try await get("/users/u1/weights/g").body == #"[[71500, 71000], null, 10, "g"]"#)
        #expect(try await get("/users/u2/weights/g").head.hasPrefix("HTTP/1.1 403 "))
        let bad = try await get("/users/u1/weights/g?most=101")
        #expect(bad.head.hasPrefix("HTTP/1.1 400 ") && bad.body.contains("most must be a whole number from 1 to 100."))
        let missing = try await get("/users/u1/weights/missing")
        #expect(missing.head.hasPrefix("HTTP/1.1 404 ") && missing.body.contains("No weights."))
        let none = try await get("/users/u1/weights/none")
        #expect(none.head.hasPrefix("HTTP/1.1 404 ") && none.body.contains("There is no such unit."))
        #expect(field("Cache-Control", none.head) == "no-store")
        // An error that the row does not name is a fault, and its text stays in the database's log.
        try await client.sendRaw(request("GET", "/users/u1/weights/bad", token: token))
        let fault = try await client.response()
        #expect(fault.head.hasPrefix("HTTP/1.1 503 ") && !fault.body.contains("secret"))
    }

    private static let example =
        ProductRoute
        .read(
            "/users/{userId}/weights", "weights", "app.weights",
            [RouteParameter("most", .integer(1...1_000), absence: .value("100"))])

    /// The example of `sql/README.md`: its function and its row, on a table like its own.
    @Test func theExampleOfThePageWorks() async throws {
        func folded(_ text: String) -> String { String(text.filter { !$0.isWhitespace }) }
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../..")
        let page = try String(contentsOf: root.appendingPathComponent("sql/README.md"), encoding: .utf8)
        func section(_ heading: String) throws -> String {
            try #require(page.components(separatedBy: "\n## ").first { $0.hasPrefix(heading + "\n") })
        }
        let resource = try section("A resource of your own")
        let row = try #require(
            resource.components(separatedBy: "```swift\n").last?.components(separatedBy: "```").first)
        #expect(try folded(String(contentsOfFile: #filePath, encoding: .utf8)).contains(folded(row)))
        // The role `backend` of the page is not needed here.
        let function = try (section("Snapshots of your own tables") + resource).split(separator: "\n")
            .filter { $0.hasPrefix("    ") && !row.contains($0) && !$0.contains("backend") }
        try owner.execute(function.joined(separator: "\n"))
        try owner.execute("INSERT INTO app.weight (user_id, grams) VALUES ('demo', 1), ('demo', 2), ('demo', 3)")
        let fixture = try await GatewayFixture(
            ownsDatabase: true, actions: StoreConfiguration(connectionString: database.hub),
            table: RouteTable([Self.example]))
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("demo")
        let (head, body) = try await answer(client, request("GET", "/users/demo/weights?most=2", token: token))
        #expect(head.hasPrefix("HTTP/1.1 200 ") && body == "[3, 2]")
    }

    @Test func theCallerIsTheTokensUser() async throws {
        try owner.execute("INSERT INTO app.weight (user_id, grams) VALUES ('u1', 5), ('u2', 6)")
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        for (user, grams) in [("u1", 5), ("u2", 6)] {
            let token = try await GatewayFixture.token(user)
            let (head, body) = try await answer(client, request("GET", "/weights?unit=g", token: token))
            #expect(head.hasPrefix("HTTP/1.1 200 ") && body.hasPrefix("[[\(grams)],"))
            #expect(field("Cache-Control", head) == "private, max-age=30" && field("ETag", head) != nil)
            let now = try await answer(client, request("GET", "/weights/now?unit=g", token: token)).head
            #expect(field("Cache-Control", now) == "no-store" && field("ETag", now) == nil)
            #expect(field("X-Sync-Position", now) != nil)
            let bad = try await answer(client, request("GET", "/weights", token: token)).body
            #expect(bad.contains("unit must be a text of 1 to 10 bytes."))
        }
        #expect(try await answer(client, request("GET", "/weights?unit=g", token: nil)).head.hasPrefix("HTTP/1.1 401 "))
    }

    /// A row with a short limit is answered when that is over, whatever is ahead of it in the queue.
    @Test func aRowHasItsTime() async throws {
        let fixture = try await fixture(statementTimeout: .seconds(25))
        let (token, otherToken) = try await (GatewayFixture.token("u1"), GatewayFixture.token("u2"))
        _ = try await answer(try TestClient(port: fixture.port), request("GET", "/weights?unit=g", token: token))
        let holder = try database.owner()
        try holder.execute("SELECT pg_advisory_lock(77)")
        let slow = try TestClient(port: fixture.port)
        try await slow.sendRaw(request("GET", "/weights?unit=slow", token: token))
        let patient = try TestClient(port: fixture.port)
        try await patient.sendRaw(request("GET", "/weights?unit=g", token: token))
        let hasty = try TestClient(port: fixture.port)
        try await hasty.sendRaw(request("GET", "/weights/soon?unit=g", token: token))
        #expect(try await hasty.response().head.hasPrefix("HTTP/1.1 503 "))
        // Its statement is cancelled in the database too, and the next one has its own time again.
        try await hasty.sendRaw(request("GET", "/weights/soon?unit=slow", token: otherToken))
        #expect(try await hasty.response().head.hasPrefix("HTTP/1.1 503 "))
        let waiting = """
            SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """
        let answered = Instant.read()
        while try holder.query(waiting) != [["1"]] { await Task.yield() }
        #expect(Instant.read().duration(since: answered) < .seconds(10))
        try await hasty.sendRaw(request("GET", "/weights?unit=slow", token: otherToken))
        while try holder.query(waiting) != [["2"]] { await Task.yield() }
        let begun = Instant.read()
        while Instant.read().duration(since: begun) < .milliseconds(600) {
            #expect(try holder.query(waiting) == [["2"]])
        }
        try holder.execute("SELECT pg_advisory_unlock(77)")
        #expect(try await hasty.response().head.hasPrefix("HTTP/1.1 200 "))
        #expect(try await slow.response().head.hasPrefix("HTTP/1.1 200 "))
        #expect(try await patient.response().head.hasPrefix("HTTP/1.1 200 "))
    }

    @Test func anActionIsARowAndAFunction() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        func put(_ path: String, _ body: String?, _ fields: String = "") async throws -> (head: String, body: String) {
            try await answer(client, request("PUT", path, token: token, body, fields: fields))
        }
        let first = try await put("/weights/7?unit=g", #"{"grams":71500,"id":"x","rev":3,"idempotencyKey":"k1"}"#)
        #expect(first.head.hasPrefix("HTTP/1.1 200 "))
        for part in [#""id": 7"#, #""unit": "g""#, #""base": {"rev": 3}"#, #""who": "u1""#, #""replayed":false"#] {
            #expect(first.body.contains(part), "\(part) in \(first.body)")
        }
        #expect(first.body.contains(#""user.u1.weight": {"epoch""#) && !first.body.contains("adherence"))
        let again = try await put("/weights/7?unit=g", #"{"grams":71500,"id":"x","rev":3}"#, "Idempotency-Key: k1\r\n")
        #expect(again.body.contains(#""replayed":true"#))
        #expect(try await put("/weights/7", #"{"grams":1}"#, "Idempotency-Key: k1\r\n").head.hasPrefix("HTTP/1.1 422 "))
        // Without a client's key, each is a different action.
        for _ in 0..<2 { #expect(try await put("/weights/7", #"{"grams":2}"#).body.contains(#""replayed":false"#)) }
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["3"]])
        let empty = try await put("/weights/7", nil)
        #expect(empty.head.hasPrefix("HTTP/1.1 422 ") && empty.body.contains(#""path":"grams""#))
        #expect(try await put("/weights/7", #"{"code":"unknown"}"#).head.hasPrefix("HTTP/1.1 404 "))
        let bad = try await put("/weights/70", "{}")
        #expect(bad.head.hasPrefix("HTTP/1.1 400 ") && bad.body.contains("id must be a whole number from 1 to 9."))
        #expect(try await put("/weights/7?unit=t", "{}").body.contains("unit must be one of g, kg."))
        #expect(try await put("/weights/7", "[]").head.hasPrefix("HTTP/1.1 400 "))
        try await client.sendRaw(request("DELETE", "/weights/7", token: token))
        let other = try await client.response()
        #expect(other.head.hasPrefix("HTTP/1.1 405 ") && field("Allow", other.head) == "PUT, OPTIONS")
        #expect(other.body.contains("Use PUT."))
    }

    @Test func aBatchIsCarriedOutInItsOrder() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        func post(_ body: String) async throws -> (head: String, body: String) {
            try await answer(client, request("POST", "/weights/batch", token: token, body))
        }
        func action(_ key: String, _ grams: String, _ n: Int) -> String {
            #"{"key":"\#(key)","type":"weigh","payload":{"grams":\#(grams)},"deviceId":"d","n":\#(n)}"#
        }
        let three = try await post(
            #"{"changes":[\#(action("a", "1", 1)),\#(action("b", "null", 2)),\#(action("c", "3", 3))]}"#)
        #expect(three.head.hasPrefix("HTTP/1.1 200 ") && three.body.hasPrefix(#"{"results":[{"#))
        let parts = [
            #""key": "a""#, #""status": "applied""#, #""key": "b""#, #""status": "rejected""#, #""key": "c""#,
        ]
        var rest = three.body[...]
        for part in parts {
            let found = try #require(rest.range(of: part) ?? three.body.range(of: part), "\(part) in \(three.body)")
            rest = three.body[found.upperBound...]
        }
        #expect(try owner.query("SELECT grams FROM app.weight ORDER BY id") == [["1"], ["3"]])
        // A number is missing: nothing after that action is carried out.
        let gap = try await post(
            #"{"changes":[\#(action("a", "1", 1)),\#(action("e", "5", 5)),{"idempotencyKey":"f","actionType":"weigh","payload":{"grams":6}}]}"#
        )
        #expect(gap.body.contains(#""replayed": true"#) && gap.body.contains(#""expected": 4"#))
        #expect(
            gap.body.contains(#"{"key":"f","status":"retry","code":"busy""#) && field("Retry-After", gap.head) != nil)
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["2"]])
        // An invalid action gets its own answer; if an action has no key to answer to, nothing is carried out.
        let odd = try await post(#"{"x":1,"changes":[{"key":"g","type":"weigh","payload":1},\#(action("h", "8", 4))]}"#)
        #expect(odd.body.contains(#"{"key":"g","status":"rejected","code":"invalid","path":"payload""#))
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["3"]])
        for (body, message) in [
            (
                #"{"changes":[\#(action("i", "1", 5)),{"type":"weigh","payload":{}}]}"#,
                "changes[1]: An action needs a key."
            ),
            (#"{"changes":[]}"#, "one at least"), ("{}", "one at least"), ("[]", "a list of actions"),
            ("{", "a list of actions"),
            (#"{"changes":{}}"#, "a list of actions"), (#"{"changes":[1]}"#, "changes[0]: An action is a JSON object."),
            (
                #"{"changes":[\#((1...4).map { action("j\($0)", "1", $0) }.joined(separator: ","))]}"#,
                "more than 3 actions"
            ),
            (#"{"changes":[\#(action("k", "1", 5))],"changes":[]}"#, "given twice"),
        ] {
            let refused = try await post(body)
            #expect(refused.head.hasPrefix("HTTP/1.1 400 ") && refused.body.contains(message), "\(refused.body)")
        }
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["3"]])
    }

    /// The app's backend calls for the users that it names.
    @Test func theAppCallsByItsSignature() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        var caller = PusherCaller()
        let now = try #require(
            try owner.query("SELECT extract(epoch FROM now())::bigint").first?[0].flatMap { Int64($0) })
        caller.time = now
        let done = try await answer(
            client, caller.call("POST", "//backend/weights", body: #"{"userId":"u7","grams":9,"idempotencyKey":"k"}"#))
        #expect(done.head.hasPrefix("HTTP/1.1 200 ") && done.body.contains(#""who": "u7""#), "\(done.body)")
        let read = try await answer(client, caller.get("//backend/u7/weights", [("unit", "g")]))
        #expect(read.head.hasPrefix("HTTP/1.1 200 ") && read.body.hasPrefix("[[9],"))
        for (request, status) in [
            (caller.call("POST", "//backend/weights", body: #"{"grams":9,"idempotencyKey":"l"}"#), "400"),
            (caller.call("POST", "//backend/weights", body: #"{"userId":"","grams":9,"idempotencyKey":"l"}"#), "400"),
            (caller.call("POST", "//backend/weights", body: #"{"userId":"u7","grams":9}"#), "400"),
            (caller.call("POST", "//backend/weights", body: "{"), "400"),
            (request("GET", "/backend/u7/weights?unit=g", token: try await GatewayFixture.token("u7")), "401"),
            (caller.get("//backend/u8/weights", [("unit", "g")]).replacing("/u8/", with: "/u7/"), "401"),
        ] {
            #expect(try await answer(client, request).head.hasPrefix("HTTP/1.1 \(status) "), "\(status)")
        }
        caller.time = now - 700
        #expect(
            try await answer(client, caller.get("//backend/u7/weights", [("unit", "g")])).head.hasPrefix(
                "HTTP/1.1 401 "))
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["1"]])
    }

    /// What only the app may do is forbidden to users, who may send envelopes of any type in a batch.
    @Test func aUserMayNotDoWhatIsTheApps() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u7")
        let envelope = #"{"key":"k1","type":"audit","payload":{"grams":9}}"#
        let batch = try await answer(
            client, request("POST", "/weights/batch", token: token, "{\"changes\":[\(envelope)]}"))
        #expect(batch.body.contains("forbidden"), "\(batch)")
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["0"]])
        var caller = PusherCaller()
        caller.time = try #require(
            try owner.query("SELECT extract(epoch FROM now())::bigint").first?[0].flatMap { Int64($0) })
        let done = try await answer(
            client, caller.call("POST", "//backend/audits", body: #"{"userId":"u7","grams":9,"idempotencyKey":"k2"}"#))
        #expect(done.head.hasPrefix("HTTP/1.1 200 "), "\(done)")
    }

    /// With replay protection, a call that was carried out is refused when repeated; one without effect may be repeated.
    @Test func aReplayIsRefusedWhereThatIsWanted() async throws {
        let now = try #require(
            try owner.query("SELECT extract(epoch FROM now())::bigint").first?[0].flatMap { Int64($0) })
        var settings = PusherRoutes.Settings()
        settings.refusesReplays = true
        // Started a minute ago.
        let pusher = PusherRoutes(settings, now: { UnixTime(seconds: now - 60) })
        let fixture = try await GatewayFixture(
            ownsDatabase: true, actions: StoreConfiguration(connectionString: database.hub), table: Self.table,
            pusher: pusher)
        let client = try TestClient(port: fixture.port)
        var caller = PusherCaller()
        caller.time = now
        func status(_ request: String) async throws -> String {
            String(try await answer(client, request).head.dropFirst("HTTP/1.1 ".count).prefix(3))
        }
        let read = caller.get("//backend/u7/weights", [("unit", "g")])
        #expect(try await status(read) == "200")
        for _ in 0..<2 { #expect(try await status(read) == "401") }
        let missing = caller.get("//backend/u7/weights")
        for _ in 0..<2 { #expect(try await status(missing) == "400") }
        let body = #"{"userId":"u7","grams":9}"#
        for _ in 0..<2 { #expect(try await status(caller.call("POST", "//backend/weights", body: body)) == "400") }
        // The key is in a header field, which the signature does not cover.
        func act(_ key: String) -> String {
            caller.call("POST", "//backend/weights", body: body, fields: "Idempotency-Key: \(key)\r\n")
        }
        #expect(try await status(act("k")) == "200")
        #expect(try await status(act("other")) == "401")
        caller.time = now + 1
        #expect(try await status(act("k")) == "200", "signed anew, the key is known")
        #expect(try owner.query("SELECT count(*) FROM app.weight") == [["1"]])
        caller.time = now - 61
        #expect(try await status(caller.get("//backend/u8/weights", [("unit", "g")])) == "401")
    }
}
