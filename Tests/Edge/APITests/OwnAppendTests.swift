import API
import Clock
import Gateway
import Postgres
import Store
import TestDatabase
import TestHub
import TestSupport
import Testing

/// Appended objects: accepted at once, and soon in a real database.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct OwnAppendTests {
    private let database: Database
    private let owner: BlockingConnection

    init() throws {
        database = try Cluster.shared.get().database()
        owner = try database.owner()
        try owner.execute(
            """
            CREATE SCHEMA app;
            CREATE TABLE app.tap (id bigint GENERATED ALWAYS AS IDENTITY, batch bigint, user_id text, n int UNIQUE);
            CREATE FUNCTION app.log_taps(who text[], docs jsonb[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                PERFORM pg_advisory_xact_lock_shared(77);
                INSERT INTO app.tap (batch, user_id, n)
                SELECT pg_current_xact_id()::text::bigint, w, (d ->> 'n')::int FROM unnest(who, docs) AS t(w, d);
            END $$;
            GRANT USAGE ON SCHEMA app TO carillon_hub;
            """)
    }

    private let metrics = APIMetrics()

    private static let table = RouteTable([
        .append("/taps", "app.log_taps", by: .userOfToken), .append("/broken", "app.log_broken", by: .userOfToken),
    ])

    private func fixture(rate: Rate = Rate(perSecond: 0, burst: 1)) async throws -> GatewayFixture {
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.userRate = rate
        configuration.routes = Self.table.connections
        return try await GatewayFixture(
            ownsDatabase: true, actions: configuration, table: Self.table, pusher: PusherRoutes(metrics: metrics))
    }

    private func post(
        _ client: TestClient, _ body: String, _ user: String = "u1", to path: String = "/taps"
    ) async throws -> String {
        let token = try await GatewayFixture.token(user)
        try await client.sendRaw(
            "POST \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        )
        let (head, text) = try await client.response()
        return "\(head.dropFirst(9).prefix(3)) \(text)"
    }

    private func count(_ connection: BlockingConnection) throws -> Int {
        try connection.query("SELECT count(*) FROM app.tap").first?.first.flatMap { $0 }.flatMap { Int($0) } ?? 0
    }

    private func until(_ wanted: Int) async throws {
        while try count(owner) < wanted { await Task.yield() }
    }

    @Test func whatIsAppendedComesInBatches() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        #expect(try await post(client, #"{"n":0}"#).hasPrefix("202 "))
        try await until(1)
        let holder = try database.owner()
        try holder.execute("SELECT pg_advisory_lock(77)")
        // No request waits for the database.
        for n in 1...40 { #expect(try await post(client, #"{"n":\#(n)}"#, n % 2 == 0 ? "u1" : "u2").hasPrefix("202 ")) }
        let many = (41...140).map { #"{"n":\#($0)}"# }.joined(separator: ",")
        #expect(try await post(client, "[\(many)]").hasPrefix("202 "))
        #expect(try count(owner) == 1)
        try holder.execute("SELECT pg_advisory_unlock(77)")
        try await until(141)
        #expect(try owner.query("SELECT count(*) FROM app.tap WHERE user_id = 'u2'") == [["20"]])
        #expect(
            try owner.query(
                "SELECT count(DISTINCT batch) < 10, array_agg(n ORDER BY id) = array_agg(n ORDER BY n) FROM app.tap")
                == [["t", "t"]])
        for body in [
            "", "1", "[1]", "[]", "{", #"{"n":1"#, "[{},]", "[\((0...100).map { _ in "{}" }.joined(separator: ","))]",
        ] {
            #expect(try await post(client, body).hasPrefix("400 "), "\(body.prefix(20))")
        }
    }

    @Test func whatWaitsIsBounded() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        #expect(try await post(client, #"{"n":0}"#).hasPrefix("202 "))
        try await until(1)
        let holder = try database.owner()
        try holder.execute("SELECT pg_advisory_lock(77)")
        var taken = 1
        let hundred = { (start: Int) in "[\((start..<start + 100).map { #"{"n":\#($0)}"# }.joined(separator: ","))]" }
        while try await post(client, hundred(taken)).hasPrefix("202 ") { taken += 100 }
        #expect(taken > 1_000 && taken <= 1 + 200 + 1_000, "a batch under way, and a user's share")
        #expect(try await post(client, hundred(taken)).hasPrefix("503 "))
        #expect(try await post(client, #"{"n":1000000}"#, "u2").hasPrefix("202 "), "another user has room")
        try holder.execute("SELECT pg_advisory_unlock(77)")
        try await until(taken + 1)
        #expect(try await post(client, #"{"n":1000001}"#).hasPrefix("202 "))
        try await until(taken + 2)
        #expect(metrics.text.contains("\ncarillon_appended_objects_total{result=\"taken\"} \(taken + 2)\n"))
        #expect(metrics.text.contains("\ncarillon_appended_objects_total{result=\"refused\"} 200\n"))
    }

    /// One user, on any number of connections, sends no faster than the rate of actions, and holds up nobody else.
    @Test func aUserHasARate() async throws {
        let fixture = try await fixture(rate: Rate(nanoseconds: 3_600_000_000_000, burst: 250))
        let clients = try (0..<4).map { _ in try TestClient(port: fixture.port) }
        let hundred = { (start: Int) in "[\((start..<start + 100).map { #"{"n":\#($0)}"# }.joined(separator: ","))]" }
        for n in 0..<3 { #expect(try await post(clients[n], hundred(n * 100)).hasPrefix("202 "), "the last in debt") }
        for client in clients { #expect(try await post(client, #"{"n":1000}"#).hasPrefix("429 ")) }
        #expect(try await post(clients[0], #"{"n":1001}"#, "u2").hasPrefix("202 "), "another user's rate is another")
        try await until(301)
    }

    /// The function says who has as many as it keeps; they are refused, and all others are written.
    @Test func aUserHasATotal() async throws {
        try owner.execute(
            """
            DROP FUNCTION app.log_taps(text[], jsonb[]);
            CREATE FUNCTION app.log_taps(who text[], docs jsonb[]) RETURNS TABLE(dropped bigint, filled text)
            LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                INSERT INTO app.tap (user_id, n) SELECT w, (d ->> 'n')::int FROM unnest(who, docs) AS t(w, d);
                RETURN QUERY SELECT 0::bigint, NULL::text UNION ALL
                    SELECT 0::bigint, t.user_id FROM app.tap AS t WHERE t.user_id = ANY(who)
                    GROUP BY t.user_id HAVING count(*) >= 2;
            END $$;
            """)
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        #expect(try await post(client, #"{"n":1}"#).hasPrefix("202 "))
        try await until(1)
        #expect(try await post(client, #"{"n":2}"#).hasPrefix("202 "))
        // The commit can be seen a moment before the hub has the answer.
        var n = 3
        while try await post(client, #"{"n":\#(n)}"#).hasPrefix("202 ") { n += 1 }
        #expect(try await post(client, #"{"n":100}"#).hasPrefix("429 "))
        #expect(try await post(client, #"{"n":101}"#, "u2").hasPrefix("202 "))
        try await until(n)
    }

    @Test func oneThatFailsSpoilsNoOther() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        #expect(
            try await post(client, #"[{"n":1},{"n":"x"},{"n":2},{"n":1},{"n":"\u0000"},{"n":3}]"#).hasPrefix("202 "))
        try await until(3)
        #expect(try await post(client, #"{"n":4}"#).hasPrefix("202 "))
        try await until(4)
        #expect(try owner.query("SELECT array_agg(n ORDER BY id) FROM app.tap") == [["{1,2,3,4}"]])
    }

    @Test func aLostConnectionLosesNothing() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        #expect(try await post(client, #"{"n":0}"#).hasPrefix("202 "))
        try await until(1)
        let holder = try database.owner()
        try holder.execute("SELECT pg_advisory_lock(77)")
        for n in 1...5 { #expect(try await post(client, #"{"n":\#(n)}"#).hasPrefix("202 ")) }
        let admin = try database.admin()
        let waiting = """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%app.log_taps%' AND wait_event = 'advisory'
            """
        while try admin.query(waiting).isEmpty { await Task.yield() }
        #expect(try await post(client, #"{"n":6}"#).hasPrefix("202 "))
        try holder.execute("SELECT pg_advisory_unlock(77)")
        try await until(7)
        #expect(try owner.query("SELECT array_agg(n ORDER BY id) FROM app.tap") == [["{0,1,2,3,4,5,6}"]])
    }

    /// As after a fail-over: the server still answers, and writes nothing.
    @Test func aServerThatWritesNothingIsLeft() async throws {
        try owner.execute(
            """
            CREATE TABLE app.former (pid int);
            CREATE FUNCTION app.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (SELECT FROM app.former WHERE pid = pg_backend_pid()) THEN
                    RAISE EXCEPTION 'read-only' USING ERRCODE = '25006';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER former BEFORE INSERT ON app.tap FOR EACH ROW EXECUTE FUNCTION app.refuse();
            """)
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        #expect(try await post(client, #"{"n":0}"#).hasPrefix("202 "))
        try await until(1)
        let former = try database.admin().query(
            """
            INSERT INTO app.former SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%app.log_taps%' RETURNING pid
            """)
        #expect(former.count == 1)
        #expect(try await post(client, #"{"n":1}"#).hasPrefix("202 "))
        try await until(2)
        #expect(try owner.query("SELECT array_agg(n ORDER BY id) FROM app.tap") == [["{0,1}"]])
    }

    @Test func aFunctionThatFailsHoldsUpNoOther() async throws {
        let fixture = try await fixture()
        let client = try TestClient(port: fixture.port)
        // There is no such function yet.
        for n in 1...3 { #expect(try await post(client, #"{"n":\#(n)}"#, to: "/broken").hasPrefix("202 ")) }
        for n in 4...6 { #expect(try await post(client, #"{"n":\#(n)}"#).hasPrefix("202 ")) }
        try await until(3)
        #expect(try await post(client, #"{"n":7}"#, to: "/broken").hasPrefix("202 "))
        #expect(try await post(client, #"{"n":8}"#).hasPrefix("202 "))
        try await until(4)
        // A line that is full refuses its own documents only.
        let hundred = "[\((0..<100).map { _ in "{}" }.joined(separator: ","))]"
        while try await post(client, hundred, to: "/broken").hasPrefix("202 ") {}
        #expect(try await post(client, #"{"n":9}"#).hasPrefix("202 "))
        try await until(5)
        try owner.execute(
            """
            CREATE FUNCTION app.log_broken(who text[], docs jsonb[]) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                INSERT INTO app.tap (user_id, n) SELECT w, (d ->> 'n')::int FROM unnest(who, docs) AS t(w, d) WHERE d ? 'n';
                RETURN (SELECT count(*) FROM unnest(docs) AS d WHERE NOT d ? 'n');
            END $$
            """)
        try await until(9)
        #expect(try owner.query("SELECT array_agg(n ORDER BY n) FROM app.tap") == [["{1,2,3,4,5,6,7,8,9}"]])
    }
}
