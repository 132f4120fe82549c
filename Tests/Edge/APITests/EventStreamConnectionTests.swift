import Clock
import Feed
import Foundation
import Gateway
import HubEngine
import Postgres
import Pusher
import Sync
import TestDatabase
import TestHub
import TestSupport
import Testing

@testable import API

/// Event streams over sockets: who gets one, what it says, how it goes on and how it ends.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct EventStreamConnectionTests {
    /// A client that reads a stream as WHATWG HTML says.
    private struct Reader {
        let client: TestClient
        let head: String

        init(
            _ port: UInt16, _ path: String, _ token: String? = nil, id: String? = nil,
            receiveBuffer: Int32? = nil
        ) async throws {
            client = try TestClient(port: port, receiveBuffer: receiveBuffer)
            let fields = [("Authorization", token.map { "Bearer \($0)" }), ("Last-Event-ID", id)]
            try await client.sendRaw(
                "GET \(path) HTTP/1.1\r\nHost: h\r\nOrigin: https://app.example\r\n"
                    + fields.compactMap { name, value in value.map { "\(name): \($0)\r\n" } }.joined() + "\r\n")
            head = try await client.readHeadOnly()
        }

        var status: String { String(head.dropFirst(9).prefix(3)) }

        /// The next message that is no comment; nil at the end.
        func next() async throws -> (data: String, id: String?)? {
            while let block = try await client.text(through: "\n\n") {
                let lines = block.split(separator: "\n").map(String.init)
                guard let data = lines.first(where: { $0.hasPrefix("data: ") }) else {
                    if lines.allSatisfy({ $0 == ":" }) { continue }
                    return (block, nil)
                }
                return (String(data.dropFirst(6)), lines.first { $0.hasPrefix("id: ") }.map { String($0.dropFirst(4)) })
            }
            return nil
        }

        /// The next message of that event.
        func next(_ event: String) async throws -> (data: String, id: String?) {
            let found = try #require(try await next())
            #expect(found.data.hasPrefix(#"{"event":"\#(event)""#), "\(found.data)")
            return found
        }
    }

    private static let path = "/users/u1/events?topics=items"

    private static func many(_ count: Int) -> String {
        (0..<count).map { "t" + String(repeating: "a", count: $0) }.joined(separator: ",")
    }

    private func publishing() throws -> (Database, BlockingConnection) {
        let database = try Cluster.shared.get().database()
        let writer = try database.owner()
        try writer.execute(
            """
            CREATE SCHEMA app;
            CREATE TABLE app.item (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text, label text);
            CREATE TABLE app.note (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text);
            """)
        _ = try writer.query("SELECT sync.publish_changes('app.item', 'user_id', 'items', 'item')")
        _ = try writer.query("SELECT sync.publish_changes('app.note', 'user_id', 'notes', 'note')")
        return (database, writer)
    }

    private func commit(_ count: Int, bytes: Int = 10, _ writer: BlockingConnection) throws {
        _ = try writer.query(
            "INSERT INTO app.item (user_id, label) SELECT 'u1', repeat('x', $1) FROM generate_series(1, $2)",
            [String(bytes), String(count)])
    }

    /// The position of `items` in an id, without the epoch.
    private func offset(_ id: String?) throws -> Int64 {
        let text = try #require(id)
        let positions = try #require(EventStreamID.positions(text))
        return try #require(positions.first { $0.topic == "items" }).position.offset
    }

    // MARK: A user's streams

    @Test func aStreamGoesOnWhereItsClientWas() async throws {
        let (database, writer) = try publishing()
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed(of: database.hub))
        let token = try await GatewayFixture.token("u1")
        let first = try await Reader(fixture.port, "/users/u1/events?topics=items,notes", token)
        #expect(first.status == "200" && first.head.contains("\r\nContent-Type: text/event-stream\r\n"))
        #expect(first.head.contains("\r\nAccess-Control-Allow-Origin: https://app.example\r\n"))
        #expect(first.head.contains("\r\nCache-Control: no-store\r\n") && !first.head.contains("Content-Length"))
        let hello = try await first.next("sync:auth_ok")
        #expect(hello.id == nil, "nothing is known of any stream")
        for _ in 0..<2 { _ = try await first.next("pusher_internal:subscription_succeeded") }
        try commit(3, writer)
        var ids: [String] = []
        for number in 1...3 {
            let (data, id) = try await first.next("item.created")
            #expect(data.contains(#"\"o\": \#(number)"#) && data.contains(#""channel":"user.u1.items""#), "\(data)")
            #expect(try offset(id) == number)
            ids.append(try #require(id))
        }
        #expect(ids[2].contains(";notes=") && fixture.metrics.text.contains("carillon_event_streams 1\n"))
        // The client is gone, and has the second at last.
        first.client.endSending()
        #expect(eventually { fixture.metrics.text.contains("carillon_event_streams 0\n") })
        try commit(2, writer)
        _ = try writer.query("INSERT INTO app.note (user_id) VALUES ('u1')")

        let second = try await Reader(fixture.port, "/users/u1/events?topics=items,notes", token, id: ids[1])
        var seen: [Int64] = []
        var notes = 0
        while seen.count < 3 || notes < 1 {
            let (data, id) = try #require(try await second.next())
            let known = try offset(id)
            if data.contains("item.created") {
                seen.append(known)
            } else {
                #expect(known == (seen.last ?? 2), "\(data)")
            }
            if data.contains("note.created") { notes += 1 }
            if data.contains("sync:resumed") { #expect(data.contains(#"\"recovered\":true"#), "\(data)") }
        }
        #expect(seen == [3, 4, 5] && notes == 1)
        try commit(1, writer)
        #expect(try offset(try await second.next("item.created").id) == 6)

        // Offsets of another database cannot be compared: it is told, and goes on from where the stream stands.
        let third = try await Reader(fixture.port, Self.path, token, id: "items=other:2")
        _ = try await third.next("sync:auth_ok")
        #expect(try offset(try await third.next("pusher_internal:subscription_succeeded").id) == 2)
        let (told, id) = try await third.next("sync:resumed")
        #expect(told.contains(#"\"recovered\":false"#))
        #expect(try offset(id) == 6)
    }

    /// While the log cannot be read, a client keeps its position, and asks again when it comes back.
    @Test func aLogThatCannotBeReadLosesNothing() async throws {
        let (database, writer) = try publishing()
        let token = try await GatewayFixture.token("u1")
        var id: String?
        do {
            let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed(of: database.hub))
            let reader = try await Reader(fixture.port, Self.path, token)
            _ = try await reader.next("sync:auth_ok")
            id = try await reader.next("pusher_internal:subscription_succeeded").id
        }
        try commit(3, writer)
        // A hub that has seen none of them.
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed(of: database.hub)) {
            $0.channelLimits.streams.readPause = .milliseconds(20)
        }
        try writer.execute("ALTER FUNCTION sync.read_log RENAME TO read_log_later")
        let refused = try await Reader(fixture.port, Self.path, token, id: id)
        _ = try await refused.next("sync:auth_ok")
        _ = try await refused.next("pusher_internal:subscription_succeeded")
        let (told, kept) = try await refused.next("sync:resumed")
        #expect(told.contains("store_unavailable") && kept == id)
        #expect(try await refused.next()?.data.hasPrefix("retry: ") == true)
        #expect(try await refused.next() == nil)
        try writer.execute("ALTER FUNCTION sync.read_log_later RENAME TO read_log")
        let reader = try await Reader(fixture.port, Self.path, token, id: kept)
        for name in ["sync:auth_ok", "pusher_internal:subscription_succeeded", "sync:resumed"] {
            _ = try await reader.next(name)
        }
        for number in 1...3 { #expect(try offset(try await reader.next("item.created").id) == number) }
    }

    /// A client that takes little at a time is fed from the log, and misses nothing.
    @Test func aSlowReaderMissesNothing() async throws {
        let (database, writer) = try publishing()
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed(of: database.hub)) {
            $0.limits.pullQueueBytesMax = 65_536
            $0.timeouts.stalled = .seconds(600)
            $0.timeouts.unacked = .seconds(600)
        }
        let token = try await GatewayFixture.token("u1")
        let reader = try await Reader(fixture.port, Self.path, token, receiveBuffer: 4_096)
        _ = try await reader.next("sync:auth_ok")
        _ = try await reader.next("pusher_internal:subscription_succeeded")
        let count = 10_000
        try commit(count, bytes: 700, writer)
        #expect(eventually { !fixture.metrics.text.contains("carillon_pull_mode_entries_total 0\n") })
        for number in 1...count {
            #expect(try offset(try await reader.next("item.created").id) == number)
        }
        #expect(!fixture.metrics.text.contains(#"reason="stalled"} 1"#))
    }

    /// One that takes nothing is cut off, and costs no more than its bound until then.
    @Test func aReaderThatTakesNothingIsCutOff() async throws {
        let (database, writer) = try publishing()
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed(of: database.hub)) {
            $0.limits.pullQueueBytesMax = 65_536
            $0.timeouts.stalled = .milliseconds(300)
        }
        let reader = try await Reader(
            fixture.port, Self.path, try await GatewayFixture.token("u1"), receiveBuffer: 4_096)
        _ = try await reader.next("sync:auth_ok")
        try commit(10_000, bytes: 700, writer)
        #expect(eventually { fixture.metrics.text.contains(#"carillon_overload_closings_total{reason="stalled"} 1"#) })
        #expect(eventually { fixture.metrics.text.contains("carillon_event_streams 0\n") })
    }

    // MARK: Who gets one

    @Test func othersAreRefused() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed()) {
            $0.origins = .only(["https://app.example"])
        }
        let token = try await GatewayFixture.token("u1")
        let cases: [(String, String?, String?, String)] = [
            (Self.path, nil, nil, "401"), (Self.path, "no.token.atall", nil, "401"),
            ("/users/u2/events?topics=items", token, nil, "403"), ("/users/u1/events", token, nil, "400"),
            ("/users/u1/events?topics=Items", token, nil, "400"),
            ("/users/u1/events?topics=" + Self.many(60), token, nil, "400"), (Self.path, token, "8", "400"),
            ("/app/nokey/events?channels=news", nil, nil, "404"), ("/app/key/events", nil, nil, "400"),
            ("/app/key/events?channels=private-a", nil, nil, "403"),
            ("/app/key/events?channels=news,presence-a", nil, nil, "403"),
            ("/app/key/events?channels=user.u1.items", token, nil, "403"),
            ("/app/key/events?channels=a%20b", nil, nil, "400"),
        ]
        for (path, token, id, status) in cases {
            let reader = try await Reader(fixture.port, path, token, id: id)
            #expect(reader.status == status, "\(path) \(id ?? "")")
            #expect(reader.head.contains("\r\nAccess-Control-Allow-Origin: https://app.example\r\n"), "\(path)")
        }
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw("POST \(Self.path) HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
        let (head, _) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 405 ") && head.contains("\r\nAllow: GET, OPTIONS\r\n"))
        try await client.sendRaw("GET \(Self.path) HTTP/1.1\r\nHost: h\r\nOrigin: https://else.example\r\n\r\n")
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 403 "))
        try await client.sendRaw("OPTIONS \(Self.path) HTTP/1.1\r\nHost: h\r\nOrigin: https://app.example\r\n\r\n")
        #expect(try await client.response().head.contains("Last-Event-ID"))
        #expect(fixture.metrics.text.contains("carillon_event_streams 0\n"))
    }

    /// While a token is verified, its user is revoked: nothing is opened.
    @Test func aRevocationDuringTheVerificationCounts() async throws {
        let toll = Toll()
        let fixture = try await GatewayFixture(
            loops: 1, ownsDatabase: true, feed: GatewayFixture.feed(), toll: toll,
            routes: { configuration, verifier in
                HubRoutes(
                    pusher: PusherRoutes(), users: HubRoutes.OfUsers(app: configuration.apps[0], verifier: verifier),
                    origins: configuration.origins)
            })
        let token = try await GatewayFixture.token("u1", issuedAt: 1_000)
        toll.close()
        let port = fixture.port
        async let reading = Reader(port, Self.path, token)
        toll.awaitSomebody()
        fixture.feed([.revoked([Revocation(userID: "u1", before: 2_000_000_000)])])
        // Handled by the loop before the token's answer: another connection has been refused for it.
        let witness = try TestClient(port: fixture.port)
        try await witness.sendRaw("GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = try await witness.response()
        toll.open()
        #expect(try await reading.status == "401")
        #expect(fixture.metrics.text.contains("carillon_event_streams 0\n"))
    }

    @Test func aRevocationEndsIt() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed())
        let reader = try await Reader(fixture.port, Self.path, try await GatewayFixture.token("u1", issuedAt: 1_000))
        _ = try await reader.next("sync:auth_ok")
        fixture.feed([.revoked([Revocation(userID: "u1", before: 2_000_000_000)])])
        #expect(try await reader.next() == nil)
        #expect(eventually { fixture.metrics.text.contains("carillon_event_streams 0\n") })
    }

    /// The last message says why, and the client comes back with a new token.
    @Test func anEndedTokenEndsIt() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: GatewayFixture.feed()) {
            $0.timeouts.identity = IdentityTimes(notice: .seconds(3_600), grace: .zero)
        }
        let expiry = (Date().timeIntervalSince1970 + 2).rounded(.up)
        let reader = try await Reader(fixture.port, Self.path, try await GatewayFixture.token("u1", expiresAt: expiry))
        _ = try await reader.next("sync:auth_ok")
        #expect(try await reader.next("sync:auth_expiring").data.contains(#"\"expiresAt\":\#(Int(expiry))"#))
        #expect(try await reader.next("pusher:error").data.contains(#""code":4109"#))
        #expect(try await reader.next() == nil)
    }

    // MARK: Ordinary channels

    @Test func ordinaryChannelsResumeNothing() async throws {
        let fixture = try await GatewayFixture()
        let backend = try TestClient(port: fixture.port)
        var caller = PusherCaller(credentials: fixture.credentials)
        caller.time = UnixTime.read().microseconds / 1_000_000
        func publish(_ data: String) async throws {
            try await backend.sendRaw(
                caller.post("/events", #"{"name":"e","channels":["cache-a","news"],"data":"\#(data)"}"#))
            #expect(try await backend.response().head.hasPrefix("HTTP/1.1 200 "))
        }
        try await publish("first")
        let reader = try await Reader(fixture.port, "/app/key/events?channels=cache-a,news")
        var told: [String] = []
        for _ in 0..<3 { told.append(try #require(try await reader.next()).data) }
        #expect(told.filter { $0.contains("subscription_succeeded") }.count == 2)
        #expect(told.contains { $0.contains("cache-a") && $0.contains("first") }, "a cache channel has its last event")
        caller.time += 1
        try await publish("second")
        for _ in 0..<2 {
            let (data, id) = try await reader.next("e")
            #expect(data.contains("second") && id == nil)
        }
    }

    // MARK: The connection

    @Test func itShowsThatItIsThere() async throws {
        let fixture = try await GatewayFixture { $0.timeouts.stalled = .milliseconds(50) }
        let reader = try await Reader(fixture.port, "/app/key/events?channels=news")
        var lines = ""
        for _ in 0..<4 { lines += try #require(try await reader.client.text(through: "\n\n")) }
        #expect(lines.hasSuffix(":\n\n:\n\n:\n\n"))
    }

    @Test func aClientThatSpeaksIsCutOff() async throws {
        let fixture = try await GatewayFixture()
        let reader = try await Reader(fixture.port, "/app/key/events?channels=news")
        _ = try await reader.next()
        try await reader.client.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await reader.next() == nil)
    }

    @Test func theHubsEndTellsWhenToComeBack() async throws {
        let fixture = try await GatewayFixture()
        let reader = try await Reader(fixture.port, "/app/key/events?channels=news")
        _ = try await reader.next()
        let end = fixture.end()
        let last = try #require(try await reader.next()).data
        let time = try #require(Int(last.dropFirst("retry: ".count).dropLast(2)))
        #expect((1_000...10_000).contains(time) && last.hasPrefix("retry: "))
        #expect(try await reader.next() == nil)
        await end.value
    }
}
