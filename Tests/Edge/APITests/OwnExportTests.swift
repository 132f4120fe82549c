import API
import Bytes
import Gateway
import Postgres
import Store
import TestDatabase
import TestHub
import TestSupport
import Testing

/// Exports from a real database: complete, or visibly broken off.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct OwnExportTests {
    private let database: Database
    private let owner: BlockingConnection

    init() throws {
        database = try Cluster.shared.get().database()
        owner = try database.owner()
        try owner.execute(
            """
            CREATE SCHEMA app;
            CREATE FUNCTION app.lines(who text, last bigint, bad bigint) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
            DECLARE
                export refcursor := 'export';
            BEGIN
                IF last = 0 THEN RETURN NULL; END IF;
                IF last = 9 THEN RAISE EXCEPTION 'x' USING ERRCODE = 'P0002'; END IF;
                IF last = 8 THEN RAISE EXCEPTION 'x' USING ERRCODE = '22023'; END IF;
                OPEN export NO SCROLL FOR
                    SELECT CASE WHEN n % 3 = 0 THEN '' ELSE format(E'%s,%s,%s\\n', who, n, repeat('x', (n % 97)::int)) END
                        || left((1 / (n - bad))::text, 0)
                    FROM (SELECT generate_series(1, last) AS n) AS s;
                RETURN 'text/csv; charset=utf-8';
            END $$;
            GRANT USAGE ON SCHEMA app TO carillon_hub;
            """)
    }

    private let metrics = APIMetrics()

    private static let table = RouteTable([
        .export(
            "/users/{userId}/lines", "app.lines",
            [
                RouteParameter("last", .integer(0...1_000_000_000), absence: .refused),
                RouteParameter("bad", .integer(0...1_000_000_000), absence: .value("0")),
            ], missing: "No lines.", failures: ["P0002": ProductRoute.Failure(.notFound, "No such lines.")])
    ])

    private func fixture(connections: Int = 1, drain: Duration = .seconds(30)) async throws -> GatewayFixture {
        #expect(Self.table.connections == RouteConnections(exports: 2))
        #expect(RouteTable.product.connections == RouteConnections(exports: 2, appends: 1))
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.routes.exports = connections
        return try await GatewayFixture(
            ownsDatabase: true, actions: configuration, table: Self.table, pusher: PusherRoutes(metrics: metrics)
        ) {
            $0.timeouts.drain = drain
        }
    }

    private func request(
        _ path: String, _ user: String, _ method: String = "GET", version: String = "1.1"
    ) async throws
        -> String
    {
        let token = try await GatewayFixture.token(user)
        return "\(method) /users/\(user)/\(path) HTTP/\(version)\r\nHost: h\r\nAuthorization: Bearer \(token)\r\n\r\n"
    }

    /// The head of the answer, retried while it is 503: the database is not there yet, or the connection is in use.
    private func head(_ client: TestClient, _ request: String) async throws -> String {
        while true {
            try await client.sendRaw(request)
            let head = try await client.readHeadOnly()
            guard head.hasPrefix("HTTP/1.1 503 ") else { return head }
            #expect(head.contains("Retry-After: "))
            // No body follows the answer to a HEAD, whatever its Content-Length.
            if !request.hasPrefix("HEAD ") { try await client.discard(length(head)) }
        }
    }

    private func length(_ head: String) -> Int {
        head.split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }.flatMap { Int($0.dropFirst(16)) } ?? 0
    }

    /// Reads chunks to the last one; nil if it never comes.
    private func body(_ client: TestClient) async throws -> [UInt8]? {
        var body: [UInt8] = []
        while true {
            var size: [UInt8] = []
            while size.suffix(2) != [13, 10] {
                let byte = try await client.read(1)
                guard !byte.isEmpty else { return nil }
                size += byte
            }
            let count = try #require(Int(String(decoding: size.dropLast(2), as: UTF8.self), radix: 16))
            let chunk = try await client.read(count + 2)
            guard chunk.count == count + 2 else { return nil }
            #expect(chunk.suffix(2) == [13, 10])
            if count == 0 { return body }
            body += chunk.dropLast(2)
        }
    }

    private func lines(_ user: String, _ last: Int) -> [UInt8] {
        var text: [UInt8] = []
        for n in 1...last where n % 3 != 0 {
            text += Array("\(user),\(n),".utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: n % 97) + [10]
        }
        return text
    }

    @Test func anExportIsARowAndAFunction() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        for last in [100_000, 1, 3, 50] {
            let head = try await head(client, try await request("lines?last=\(last)", "u1"))
            #expect(head.hasPrefix("HTTP/1.1 200 ") && head.contains("Transfer-Encoding: chunked\r\n"))
            #expect(
                head.contains("Content-Type: text/csv; charset=utf-8\r\n")
                    && head.contains("Connection: keep-alive\r\n"))
            #expect(head.contains("Cache-Control: no-store\r\n") && !head.contains("Content-Length"))
            #expect(try await body(client) == lines("u1", last), "\(last)")
        }
        // An answer without a body leaves the connection usable.
        let bare = try await head(client, try await request("lines?last=5", "u1", "HEAD"))
        #expect(bare.hasPrefix("HTTP/1.1 200 ") && bare.contains("Transfer-Encoding: chunked\r\n"))
        for (path, status, words) in [
            ("lines?last=0", "404", "No lines."), ("lines?last=9", "404", "No such lines."),
            ("lines?last=-1", "400", "last must be"), ("lines", "400", "last must be"),
        ] {
            let head = try await head(client, try await request(path, "u1"))
            #expect(head.hasPrefix("HTTP/1.1 \(status) "), "\(path)")
            #expect(try await String(decoding: client.read(length(head)), as: UTF8.self).contains(words))
        }
        // An error that the row does not name is a fault, and ends the connection to the database.
        try await client.sendRaw(try await request("lines?last=8", "u1"))
        let fault = try await client.readHeadOnly()
        #expect(fault.hasPrefix("HTTP/1.1 503 "))
        try await client.discard(length(fault))
        let old = try TestClient(port: fixture.port)
        #expect(try await head(old, try await request("lines?last=5", "u1", version: "1.0")).hasPrefix("HTTP/1.1 505 "))
        _ = try await head(client, try await request("lines?last=2", "u1"))
        #expect(try await body(client) == lines("u1", 2))
        for count in [
            #"exports_total{result="begun"} 6"#, #"exports_total{result="missing"} 1"#,
            #"exports_total{result="refused"} 1"#, #"export_ends_total{result="whole"} 5"#,
            #"export_ends_total{result="broken"} 0"#,
        ] {
            #expect(metrics.text.contains("\ncarillon_\(count)\n"), "\(count)")
        }
    }

    @Test(arguments: [1, 2, 17, 5_000, 99_999]) func whatFailsMidwayIsSeenNotToBeWhole(_ bad: Int) async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        let head = try await head(client, try await request("lines?last=100000&bad=\(bad)", "u1"))
        #expect(head.hasPrefix("HTTP/1.1 200 "))
        #expect(try await body(client) == nil)
        #expect(metrics.text.contains("\ncarillon_export_ends_total{result=\"broken\"} 1\n"))
        let other = try TestClient(port: fixture.port)
        _ = try await self.head(other, try await request("lines?last=7", "u1"))
        #expect(try await body(other) == lines("u1", 7), "the connection is there again")
    }

    private static let resting = """
        SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'FETCH %'
            AND state = 'idle in transaction' AND now() - state_change > interval '500 milliseconds'
        """

    /// Begins an endless export and reads only its head; returns when the hub no longer asks the database for more.
    private func stalled(_ fixture: GatewayFixture, _ user: String) async throws -> (TestClient, backend: String) {
        let client = try TestClient(port: fixture.port, receiveBuffer: 4096)
        let head = try await head(client, try await request("lines?last=1000000000", user))
        #expect(head.hasPrefix("HTTP/1.1 200 "))
        let admin = try database.admin()
        while true {
            if let row = try admin.query(Self.resting).first, let pid = row.first ?? nil { return (client, pid) }
            await Task.yield()
        }
    }

    @Test func aSlowReaderHoldsUpItsOwn() async throws {
        let fixture = try await fixture(connections: 2)
        let (client, _) = try await stalled(fixture, "slow")
        // The same user may begin no second export; another user may, and a third would find no connection.
        let impatient = try TestClient(port: fixture.port)
        try await impatient.sendRaw(try await request("lines?last=1", "slow"))
        #expect(try await impatient.response().head.hasPrefix("HTTP/1.1 503 "))
        let other = try TestClient(port: fixture.port)
        for _ in 0..<3 {
            _ = try await head(other, try await request("lines?last=1000", "quick"))
            #expect(try await body(other) == lines("quick", 1_000))
        }
        // The start of the export has arrived, in order.
        let size = try await client.read(1)
        #expect(size[0].hexValue != nil)
    }

    @Test func aReaderThatGoesLeavesTheConnection() async throws {
        let fixture = try await fixture()
        for _ in 0..<3 {
            let (client, _) = try await stalled(fixture, "u1")
            await client.resetAtTheEnd()
        }
        let other = try TestClient(port: fixture.port)
        _ = try await head(other, try await request("lines?last=1000", "u1"))
        #expect(try await body(other) == lines("u1", 1_000))
    }

    @Test func aKilledBackendIsSeen() async throws {
        let fixture = try await fixture()
        let (client, backend) = try await stalled(fixture, "u1")
        _ = try database.admin().query("SELECT pg_terminate_backend($1::int)", [backend])
        #expect(try await body(client) == nil)
        let other = try TestClient(port: fixture.port)
        _ = try await head(other, try await request("lines?last=1000", "u1"))
        #expect(try await body(other) == lines("u1", 1_000))
    }

    /// Holds even if the endless export is read eagerly.
    @Test func theEndOfTheHubIsSeen() async throws {
        let fixture = try await fixture(drain: .milliseconds(100))
        let (client, _) = try await stalled(fixture, "u1")
        let end = fixture.end()
        #expect(try await body(client) == nil)
        await end.value
    }
}
