import Bytes
import Digests
import Gateway
import Postgres
import Store
import TestDatabase
import TestHub
import TestSupport
import Testing

/// Snapshots by HTTP, from a real database.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct SnapshotRouteTests {
    private let database: Database
    private let owner: BlockingConnection

    init() throws {
        database = try Cluster.shared.get().database()
        owner = try database.owner()
        try owner.execute(
            """
            CREATE OR REPLACE FUNCTION sync.clock() RETURNS timestamptz LANGUAGE sql
                AS $$ SELECT timestamptz '2025-11-20 12:00Z' $$;
            INSERT INTO care.dose_occurrence (id, user_id, scheduled_at, tz, note) VALUES
                ('d1', 'u1', '2025-11-20 08:00Z', 'UTC', 'secret'), ('d2', 'u1', '2025-11-21 08:00Z', 'UTC', NULL),
                ('a/b %é', 'u1', '2025-11-20 09:00Z', 'UTC', NULL), ('e1', 'u2', '2025-11-20 08:00Z', 'UTC', NULL),
                ('o1', 'a.b/ü', '2025-11-20 08:00Z', 'UTC', NULL);
            INSERT INTO care.reminder_rule (id, user_id, time, timezone) VALUES ('r1', 'u1', '08:00', 'Europe/Berlin')
            """)
    }

    private func fixture(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws -> GatewayFixture {
        try await GatewayFixture(
            ownsDatabase: true, actions: StoreConfiguration(connectionString: database.hub), change)
    }

    private func request(
        _ path: String, token: String?, method: String = "GET", fields: String = ""
    ) -> String {
        let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return "\(method) \(path) HTTP/1.1\r\nHost: h\r\n\(authorization)\(fields)\r\n"
    }

    /// The answer, retried until the store is up.
    private func answer(_ client: TestClient, _ request: String) async throws -> (head: String, body: String) {
        while true {
            try await client.sendRaw(request)
            let answer = try await client.response()
            if !answer.head.hasPrefix("HTTP/1.1 503 ") { return answer }
        }
    }

    private func field(_ name: String, _ head: String) -> String? {
        head.split(separator: "\r\n").first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }

    /// `epoch:offset` of a user's stream, from the database.
    private func position(_ user: String, _ topic: String = "adherence") throws -> String? {
        try owner.query("SELECT epoch || ':' || top FROM sync.positions(ARRAY[$1], ARRAY[$2])", [user, topic])
            .first?.first ?? nil
    }

    @Test func eachHasItsBodyPositionAndTag() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        for (path, call) in [
            ("adherence/today", "sync.adherence_day('u1', NULL)"),
            ("adherence/today?date=2025-11-21", "sync.adherence_day('u1', '2025-11-21')"),
            ("adherence/today?date=0001-01-01&x=1", "sync.adherence_day('u1', '0001-01-01')"),
            ("adherence/month?month=2025-11", "sync.adherence_month('u1', '2025-11-01')"),
            ("adherence/month?year=2025&month=11", "sync.adherence_month('u1', '2025-11-01')"),
            ("adherence/month?month=2&year=2024", "sync.adherence_month('u1', '2024-02-01')"),
            ("adherence/month?month=9999-12", "sync.adherence_month('u1', '9999-12-01')"),
            ("adherence/month?month=0001-01", "sync.adherence_month('u1', '0001-01-01')"),
            ("adherence/occurrence/d1", "sync.adherence_occurrence('u1', 'd1')"),
            ("adherence/occurrence/a%2Fb%20%25%C3%A9", "sync.adherence_occurrence('u1', 'a/b %é')"),
            ("reminders", "sync.reminders('u1')"), ("reminders?page=7", "sync.reminders('u1')"),
        ] {
            let (head, body) = try await answer(client, request("/users/u1/\(path)", token: token))
            #expect(head.hasPrefix("HTTP/1.1 200 "), "\(path)")
            let row = try #require(try owner.query("SELECT body, epoch || ':' || top FROM \(call)").first)
            #expect(body == row[0], "\(path)")
            #expect(field("X-Sync-Position", head) == row[1], "\(path)")
            #expect(
                try row[1] == position("u1", path.hasPrefix("reminders") ? "reminders" : "adherence"), "\(path)")
            let digest = Array(body.utf8).withUnsafeBytes { SHA256.hash($0).hex }
            #expect(field("ETag", head) == "\"\(digest)\"")
            #expect(field("Cache-Control", head) == "no-store")
            #expect(field("Vary", head) == "Origin, Authorization")
            #expect(field("Content-Type", head) == "application/json")
        }
    }

    /// The shapes that the seeds' client reads.
    @Test func bodiesAreTheSeeds() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let today = try await answer(client, request("/users/u1/adherence/today", token: token)).body
        #expect(today.contains(#""occurrences": [{"id": "d1","#) && today.contains(#""hasNote": true"#))
        #expect(today.contains(#""summary": {"date": "2025-11-20""#) && today.contains(#""note": "secret""#))
        let month = try await answer(client, request("/users/u1/adherence/month?year=2025&month=11", token: token)).body
        #expect(month.hasPrefix(#"[{"date": "2025-11-01","#) && month.components(#""date""#) == 30)
        let dose = try await answer(client, request("/users/u1/adherence/occurrence/d1", token: token)).body
        #expect(dose.contains(#""note": "secret""#) && dose.contains(#""notes": []"#))
        let rules = try await answer(client, request("/users/u1/reminders", token: token))
        #expect(rules.body.contains(#""items": [{"id": "r1","#))
        #expect(rules.body.contains(#""nextOccurrences": ["2025-11-21T08:00:00+01:00","#))
        let position = try #require(try position("u1", "reminders")).split(separator: ":")
        #expect(rules.body.contains(#""position": {"epoch": "\#(position[0])", "offset": \#(position[1])}"#))
    }

    @Test func whatIsKnownIsNotSentAgain() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let path = "/users/u1/adherence/today?date=2025-11-20"
        let first = try await answer(client, request(path, token: token)).head
        let tag = try #require(field("ETag", first))
        for known in [tag, "W/\(tag)", "\"x\", \(tag)", "W/\"y\" ,\t\(tag) , \"z\"", "*", "\"\",\(tag)"] {
            let again = try await answer(client, request(path, token: token, fields: "If-None-Match: \(known)\r\n"))
            #expect(again.head.hasPrefix("HTTP/1.1 304 Not Modified\r\n"), "\(known)")
            #expect(again.body.isEmpty && field("Content-Length", again.head) == nil)
            #expect(field("Content-Type", again.head) == nil)
            #expect(field("ETag", again.head) == tag)
            #expect(try field("X-Sync-Position", again.head) == position("u1"))
            #expect(field("Vary", again.head) == "Origin, Authorization")
            #expect(field("Cache-Control", again.head) == "no-store")
        }
        for other in ["\"x\"", "", tag.dropLast(2) + "\"", "x, \(tag)", String(tag.dropLast()), "\"", "W/", ",,"] {
            let again = try await answer(client, request(path, token: token, fields: "If-None-Match: \(other)\r\n"))
            #expect(again.head.hasPrefix("HTTP/1.1 200 "), "\(other)")
        }
        // Another day changes: the body stays, the position moves.
        try owner.execute("UPDATE care.dose_occurrence SET note = 'x' WHERE id = 'd2'")
        let moved = try await answer(client, request(path, token: token, fields: "If-None-Match: \(tag)\r\n")).head
        #expect(moved.hasPrefix("HTTP/1.1 304 "))
        #expect(try field("X-Sync-Position", moved) == position("u1"))
        #expect(field("X-Sync-Position", moved) != field("X-Sync-Position", first))
        try owner.execute("UPDATE care.dose_occurrence SET status = 'taken' WHERE id = 'd1'")
        let changed = try await answer(client, request(path, token: token, fields: "If-None-Match: \(tag)\r\n"))
        #expect(changed.head.hasPrefix("HTTP/1.1 200 ") && field("ETag", changed.head) != tag)
        #expect(changed.body.contains(#""takenCount": 1"#))
    }

    @Test func aHeadIsTheHead() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        for path in ["adherence/today", "adherence/month?month=2025-11", "adherence/occurrence/d1", "reminders"] {
            let (head, _) = try await answer(client, request("/users/u1/\(path)", token: token))
            let other = try TestClient(port: fixture.port)
            let close = "Connection: close\r\n"
            try await other.sendRaw(request("/users/u1/\(path)", token: token, method: "HEAD", fields: close))
            let (bare, body) = try await other.response()
            #expect(bare == head.replacing("Connection: keep-alive", "Connection: close"))
            #expect(body.isEmpty)
            #expect(try await other.next() == .end)
        }
    }

    /// Authorization is checked before the request itself.
    @Test func onlyTheUserMayAsk() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let odd = try await GatewayFixture.token("a.b/ü")
        let null = try await GatewayFixture.token("u1\0")
        func status(_ path: String, _ token: String?) async throws -> String {
            String(try await answer(client, request(path, token: token)).head.dropFirst(9).prefix(3))
        }
        for path in ["adherence/today", "adherence/month?month=2025-11", "adherence/occurrence/e1", "reminders"] {
            #expect(try await status("/users/u1/\(path)", nil) == "401")
            #expect(try await status("/users/u1/\(path)", "x.y.z") == "401")
            #expect(try await status("/users/u2/\(path)", token) == "403")
            #expect(try await status("/users/U1/\(path)", token) == "403")
            #expect(try await status("/users/u1%00/\(path)", token) == "403")
            // No token may name such a user.
            #expect(try await status("/users/u1%00/\(path)", null) == "401")
        }
        #expect(try await status("/users/u2/adherence/month?month=13", token) == "403")
        #expect(try await status("/users/a.b%2F%C3%BC/adherence/occurrence/o1", odd) == "200")
        #expect(try await status("/users/%75%31/reminders", token) == "200")
        for id in ["e1", "nothing", "d1%00", "%00", "D1", "d1%20", "o1", String(repeating: "x", count: 1000)] {
            #expect(try await status("/users/u1/adherence/occurrence/\(id)", token) == "404", "\(id)")
        }
    }

    @Test(arguments: [
        "adherence/month", "adherence/month?month=", "adherence/month?month=2025-13", "adherence/month?month=2025-00",
        "adherence/month?month=0000-01", "adherence/month?month=10000-01", "adherence/month?month=11",
        "adherence/month?year=2025", "adherence/month?year=2025&month=0", "adherence/month?year=2025&month=13",
        "adherence/month?year=0&month=1", "adherence/month?year=-1&month=1", "adherence/month?year=99999&month=1",
        "adherence/month?month=2025-1", "adherence/month?month=2025/11", "adherence/month?month=2025-11-01",
        "adherence/month?month=%FF", "adherence/month?month=2025-11%00", "adherence/month?month=%zz",
        "adherence/month?year=2025&month=%EF%BC%91", "adherence/today?date=", "adherence/today?date=2025-02-29",
        "adherence/today?date=2025-11-31", "adherence/today?date=2025-11-1", "adherence/today?date=today",
        "adherence/today?date=0000-01-01", "adherence/today?date=2025-11-14T00:00", "adherence/today?date=infinity",
        "adherence/today?date=1900-02-29", "adherence/today?date",
    ])
    func daysThatAreNoneAreRefused(_ path: String) async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        try await client.sendRaw(request("/users/u1/\(path)", token: token))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 400 "))
    }

    @Test(arguments: [
        "/users/u1/adherence/today/", "/users/u1/adherence/Today", "/users//adherence/today", "/users/u1/reminders/r1",
        "/users/u1/adherence/occurrence", "/users/u1/adherence/occurrence/", "/users/u1/adherence/occurrence/a/b",
        "/users/u1/adherence/occurrence/%zz", "/users/u1/adherence/occurrence/%FF", "/users/%FF/reminders",
        "/reminder",
    ])
    func otherPathsAreNothing(_ path: String) async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(request(path, token: "t"))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 "))
    }

    @Test func otherMethodsAreRefused() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            try await client.sendRaw(request("/users/u1/reminders", token: nil, method: method))
            let head = try await client.response().head
            #expect(head.hasPrefix("HTTP/1.1 405 ") && field("Allow", head) == "GET, HEAD, OPTIONS")
        }
    }

    @Test func browsersMayReadPositionAndTag() async throws {
        let fixture = try await fixture { $0.origins = .only(["https://app.example"]) }
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        let origin = "Origin: https://app.example\r\n"
        let path = "/users/u1/reminders"
        try await client.sendRaw(request(path, token: nil, method: "OPTIONS", fields: origin))
        let preflight = try await client.response().head
        #expect(preflight.hasPrefix("HTTP/1.1 204 "))
        #expect(field("Access-Control-Allow-Methods", preflight) == "GET, HEAD, OPTIONS")
        #expect(field("Access-Control-Allow-Headers", preflight)?.contains("If-None-Match") == true)
        let (head, _) = try await answer(client, request(path, token: token, fields: origin))
        #expect(head.hasPrefix("HTTP/1.1 200 "))
        #expect(field("Access-Control-Allow-Origin", head) == "https://app.example")
        #expect(field("Access-Control-Expose-Headers", head) == "ETag, Retry-After, X-Sync-Position")
        #expect(head.components("Vary: ") == 1 && field("Vary", head) == "Origin, Authorization")
        let tag = try #require(field("ETag", head))
        let known = try await answer(client, request(path, token: token, fields: "\(origin)If-None-Match: \(tag)\r\n"))
        #expect(known.head.hasPrefix("HTTP/1.1 304 "))
        #expect(field("Access-Control-Allow-Origin", known.head) == "https://app.example")
        try await client.sendRaw(request(path, token: token, fields: "Origin: https://evil.example\r\n"))
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 403 "))
    }

    @Test func withoutAStoreThereIsALaterTime() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        try await client.sendRaw(request("/users/u1/adherence/today", token: token))
        let head = try await client.response().head
        #expect(head.hasPrefix("HTTP/1.1 503 ") && field("Retry-After", head) == "60")
    }

    @Test func aDatabaseThatIsAwayIsALaterTime() async throws {
        let fixture = try await GatewayFixture(
            ownsDatabase: true, actions: StoreConfiguration(connectionString: "host=/nonexistent dbname=x user=x"))
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("u1")
        for path in ["adherence/today", "adherence/month?month=2025-11", "adherence/occurrence/d1", "reminders"] {
            try await client.sendRaw(request("/users/u1/\(path)", token: token))
            let head = try await client.response().head
            #expect(head.hasPrefix("HTTP/1.1 503 "))
            let seconds = try #require(field("Retry-After", head).flatMap { Int($0) })
            #expect((1...10).contains(seconds))
            #expect(field("X-Sync-Position", head) == nil && field("ETag", head) == nil)
        }
    }

    @Test func withoutADatabaseThereAreNoUsers() async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(request("/users/u1/reminders", token: nil))
        let (head, body) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 404 ") && body.contains("no database"))
    }

    /// A month with all its days full, and a day of a thousand doses.
    @Test func muchIsHandedOutWhole() async throws {
        try owner.execute(
            """
            INSERT INTO care.dose_occurrence (user_id, scheduled_at, tz)
            SELECT 'much', timestamptz '2025-10-01 00:00Z' + n % 31 * interval '1 day', 'UTC'
            FROM generate_series(1, 620) AS n;
            INSERT INTO care.dose_occurrence (user_id, scheduled_at, tz)
            SELECT 'much', '2025-11-20 08:00Z', 'UTC' FROM generate_series(1, 1000)
            """)
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let token = try await GatewayFixture.token("much")
        let month = try await answer(client, request("/users/much/adherence/month?month=2025-10", token: token)).body
        #expect(month.components(#""scheduledCount": 20"#) == 31)
        let day = try await answer(client, request("/users/much/adherence/today", token: token)).body
        #expect(day.components(#""timeLocal""#) == 1_000)
    }
}

extension String {
    fileprivate func components(_ part: String) -> Int {
        ranges(of: part).count
    }

    fileprivate func replacing(_ part: String, _ other: String) -> String {
        guard let range = ranges(of: part).first else { return self }
        return replacingCharacters(in: range, with: other)
    }

    private func replacingCharacters(in range: Range<Index>, with other: String) -> String {
        String(self[..<range.lowerBound]) + other + String(self[range.upperBound...])
    }
}
