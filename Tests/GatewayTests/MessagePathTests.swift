import CLockCount
import Channels
import Feed
import Gateway
import Glibc
import HTTP
import Metrics
import Postgres
import TestDatabase
import TestSupport
import Testing

/// What a message and an event cost beyond instructions: calls into the kernel, crossings between loops, locks.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(5))) struct MessagePathTests {
    /// Answers with how many locks its thread has taken so far, which is the connection's loop.
    private struct LocksTaken: HTTPRoutes {
        func respond(to request: HTTPRequest, _ exchange: HTTPExchange) -> HTTPResponse? {
            HTTPResponse(.ok, body: Array("\(cl_locks_taken())".utf8))
        }
    }

    private static func locksTaken(_ socket: RawSocket) throws -> Int {
        socket.send(Array("GET /locks HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
        return try #require(Int(try socket.readResponse()))
    }

    // MARK: One call for all that a tick has for a socket

    /// `TCP_NODELAY` is set, so each call would be a segment of its own: as many pongs as one call gathers come in one.
    @Test(arguments: [1, 2, 63, 64]) func whatATickQueuesLeavesInOneCall(_ count: Int) async throws {
        let echo = try await Echo()
        let client = try echo.client()
        let before = client.socket.dataSegmentCount
        try #require(before > 0)
        client.socket.send((0..<count).flatMap { RawFrame.ping("\($0)").bytes })
        for number in 0..<count { #expect(try client.next() == .pong("\(number)")) }
        #expect(client.socket.dataSegmentCount == before + 1)
    }

    @Test func eachCallGathersSixtyFour() async throws {
        let echo = try await Echo()
        let client = try echo.client()
        let before = client.socket.dataSegmentCount
        client.socket.send((0..<65).flatMap { RawFrame.ping("\($0)").bytes })
        for number in 0..<65 { #expect(try client.next() == .pong("\(number)")) }
        #expect((1...2).contains(client.socket.dataSegmentCount - before))
    }

    // MARK: No lock

    /// A client's messages are read, answered and sent without a lock: a thousand of them take none.
    @Test(.enabled(if: cl_counts_locks(), "ThreadSanitizer keeps its own locks"))
    func messagesTakeNoLock() async throws {
        let fixture = try await GatewayFixture(loops: 1, routes: LocksTaken())
        let meter = try RawSocket(port: fixture.port)
        let client = try EchoClient(port: fixture.port, path: "/app/key?protocol=7")
        _ = try client.next()
        let ping = RawFrame.text(#"{"event":"pusher:ping","data":{}}"#).bytes
        let pong = Answer.text(#"{"event":"pusher:pong","data":"{}"}"#)
        func locks(messages: Int) throws -> Int {
            let before = try Self.locksTaken(meter)
            for _ in 0..<messages {
                client.socket.send(ping)
                try #require(try client.next() == pong)
            }
            return try Self.locksTaken(meter) - before
        }
        // What runs for the first time may take some.
        _ = try locks(messages: 10)
        let ofTheMeter = try locks(messages: 0)
        #expect(try locks(messages: 1000) == ofTheMeter)
    }

    /// An event's locks are those of the mailboxes that it passes: as many for a hundred receivers as for one.
    @Test(.enabled(if: cl_counts_locks(), "ThreadSanitizer keeps its own locks"))
    func deliveriesTakeNoLock() async throws {
        let table = try PublishedTable()
        let fixture = try await GatewayFixture(
            loops: 1, ownsDatabase: true, feed: table.feed, routes: LocksTaken())
        let meter = try RawSocket(port: fixture.port)
        var devices: [EchoClient] = []
        let events = 20
        for wanted in [1, 1, 100] {
            while devices.count < wanted { devices.append(try await Self.device(fixture)) }
            let before = try Self.locksTaken(meter)
            for _ in 0..<events { try table.publish(to: devices) }
            // From the feed; and what else it says meanwhile.
            #expect(try Self.locksTaken(meter) - before < events * 4, "\(wanted) devices")
        }
    }

    // MARK: Crossings

    /// An event crosses once to each loop that has takers, however many they are, and to no other.
    @Test func anEventCrossesOncePerLoop() async throws {
        let table = try PublishedTable()
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 4, ownsDatabase: true, feed: table.feed, metrics: metrics)
        var devices: [EchoClient] = []
        // Dealt in turn, so the loops have takers one after the other.
        for (wanted, loops) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (100, 4)] {
            while devices.count < wanted { devices.append(try await Self.device(fixture)) }
            let before = Self.fanouts(metrics)
            let events = 20
            for _ in 0..<events { try table.publish(to: devices) }
            let after = Self.fanouts(metrics)
            #expect(after.count - before.count == events * loops, "\(wanted) devices")
            #expect(after.receivers - before.receivers == events * wanted)
        }
    }

    /// How often a loop has sent an event to its takers so far, and to how many in all.
    private static func fanouts(_ metrics: GatewayMetrics) -> (count: Int, receivers: Int) {
        var exposition = Exposition()
        metrics.append(to: &exposition)
        let lines = String(decoding: exposition.bytes, as: UTF8.self).split(separator: "\n")
        func value(_ name: String) -> Int {
            lines.first { $0.hasPrefix("carillon_fanout_size_\(name) ") }
                .flatMap { Double($0.split(separator: " ")[1]) }.map { Int($0) } ?? -1
        }
        return (value("count"), value("sum"))
    }

    /// A device of the user, subscribed.
    private static func device(_ fixture: GatewayFixture) async throws -> EchoClient {
        let token = try await GatewayFixture.token("u1")
        let device = try EchoClient(
            port: fixture.port, path: "/app/key?protocol=7", fields: "Authorization: Bearer \(token)\r\n")
        device.socket.send(RawFrame.text(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#).bytes)
        for expected in ["connection_established", "auth_ok", "subscription_succeeded"] {
            guard case .text(let text) = try device.next() else { throw RawSocket.Failure(reason: "no \(expected)") }
            try #require(String(decoding: text, as: UTF8.self).contains(expected))
        }
        return device
    }
}

/// A table in a database of its own whose rows become events of user u1.
private struct PublishedTable {
    private let database: Database
    private let writer: BlockingConnection

    var feed: FeedConfiguration { FeedConfiguration(connectionString: database.hub) }

    init() throws {
        database = try Cluster.shared.get().database()
        writer = try database.owner()
        try writer.execute(
            """
            CREATE SCHEMA app;
            CREATE TABLE app.item (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text, label text);
            """)
        _ = try writer.query("SELECT sync.publish_changes('app.item', 'user_id', 'items', 'item')")
    }

    /// One event, read by all these.
    func publish(to devices: [EchoClient]) throws {
        try writer.execute("INSERT INTO app.item (user_id, label) VALUES ('u1', 'x')")
        for device in devices {
            guard case .text(let text) = try device.next() else { throw RawSocket.Failure(reason: "no event") }
            try #require(String(decoding: text, as: UTF8.self).contains("item.created"))
        }
    }
}
