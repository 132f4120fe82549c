import CLockCount
import Feed
import Gateway
import Glibc
import HTTP
import HubEngine
import Metrics
import Postgres
import TestDatabase
import TestHub
import TestSupport
import Testing

/// A message's and an event's cost beside instructions: system calls, crossings between loops, locks.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct MessagePathTests {
    /// Answers with the number of locks taken so far by its thread, which is the connection's loop.
    private struct LocksTaken: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            HTTPResponse(.ok, body: Array("\(cl_locks_taken())".utf8))
        }
    }

    private static func locksTaken(_ socket: RawSocket) throws -> Int {
        socket.send(Array("GET /locks HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
        return try #require(Int(try socket.readResponse()))
    }

    // MARK: One call per socket and tick

    /// As many frames as one call gathers leave in one call, and more in as few as possible.
    @Test(arguments: [(1, [1]), (2, [2]), (63, [63]), (64, [64]), (65, [64, 1]), (200, [64, 64, 64, 8])])
    func answersOfATickLeaveInOneCall(_ count: Int, _ calls: [Int]) async throws {
        let fixture = try await GatewayFixture(loops: 1) { $0.limits.controlFramesBurst = 200 }
        let client = try RecordSocket(fixture.gateway)
        // The response and the greeting belong to one tick too.
        let opening = try client.upgrade(path: "/app/key?protocol=7")
        #expect(String(decoding: opening, as: UTF8.self).contains("connection_established"))
        client.send((0..<count).flatMap { RawFrame.ping(String(1000 + $0)).bytes })
        var number = 1000
        for frames in calls {
            let pongs = (number..<number + frames).flatMap { [0x8A, 4] as [UInt8] + Array(String($0).utf8) }
            #expect(try client.record() == pongs)
            number += frames
        }
    }

    @Test func eventsOfATickLeaveInOneCall() async throws {
        let table = try PublishedTable()
        let fixture = try await GatewayFixture(loops: 1, ownsDatabase: true, feed: table.feed)
        let client = try RecordSocket(fixture.gateway)
        let token = try await GatewayFixture.token("u1")
        var greeting = try client.upgrade(
            path: "/app/key?protocol=7", fields: "Authorization: Bearer \(token)\r\n")
        client.send(Self.subscribe)
        while !String(decoding: greeting, as: UTF8.self).contains("subscription_succeeded") {
            greeting += try client.record()
        }
        for count in [1, 10, 50] {
            try table.commit(count)
            let record = String(decoding: try client.record(), as: UTF8.self)
            #expect(record.ranges(of: "item.created").count == count)
        }
    }

    // MARK: No lock

    /// A client's messages are read, answered and sent without a lock.
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
        // First runs may take some.
        _ = try locks(messages: 10)
        let ofTheMeter = try locks(messages: 0)
        #expect(try locks(messages: 1000) == ofTheMeter)
    }

    /// An event's locks are those of the mailboxes it passes: as many for a hundred receivers as for one.
    @Test(.enabled(if: cl_counts_locks(), "ThreadSanitizer keeps its own locks"))
    func deliveriesTakeNoLock() async throws {
        let table = try PublishedTable()
        let fixture = try await GatewayFixture(
            loops: 1, ownsDatabase: true, feed: table.feed, routes: LocksTaken())
        let meter = try RawSocket(port: fixture.port)
        var devices: [EchoClient] = []
        let events = 20
        var taken: [Int] = []
        // First runs take some.
        for wanted in [1, 1, 100] {
            while devices.count < wanted { devices.append(try await Self.device(fixture)) }
            let before = try Self.locksTaken(meter)
            for _ in 0..<events { try table.publish(to: devices) }
            taken.append(try Self.locksTaken(meter) - before)
        }
        // Usually one per event, plus the feed's other messages meanwhile.
        #expect(taken[1] < events * 3 && taken[2] < events * 3, "\(taken)")
    }

    // MARK: Crossings

    /// An event crosses once to each loop with receivers, however many they are, and to no other loop.
    @Test func anEventCrossesOncePerLoop() async throws {
        let table = try PublishedTable()
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 4, ownsDatabase: true, feed: table.feed, metrics: metrics)
        var devices: [EchoClient] = []
        // Connections are dealt in turn, so the loops get receivers one after the other.
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

    /// The number of fan-outs so far, and of all their receivers.
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

    private static let subscribe =
        RawFrame.text(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#).bytes

    private static func device(_ fixture: GatewayFixture) async throws -> EchoClient {
        let token = try await GatewayFixture.token("u1")
        let device = try EchoClient(
            port: fixture.port, path: "/app/key?protocol=7", fields: "Authorization: Bearer \(token)\r\n")
        device.socket.send(Self.subscribe)
        for expected in ["connection_established", "auth_ok", "subscription_succeeded"] {
            guard case .text(let text) = try device.next() else { throw RawSocket.Failure(reason: "no \(expected)") }
            try #require(String(decoding: text, as: UTF8.self).contains(expected))
        }
        return device
    }
}

/// A table in its own database whose rows become events of user u1.
private struct PublishedTable {
    private let database: Database
    private let writer: BlockingConnection

    var feed: FeedConfiguration { GatewayFixture.feed(of: database.hub) }

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

    /// Commits `count` events at once.
    func commit(_ count: Int) throws {
        _ = try writer.query(
            "INSERT INTO app.item (user_id, label) SELECT 'u1', 'x' FROM generate_series(1, $1)", [String(count)])
    }

    /// Commits one event, and reads it on all devices.
    func publish(to devices: [EchoClient]) throws {
        try commit(1)
        for device in devices {
            guard case .text(let text) = try device.next() else { throw RawSocket.Failure(reason: "no event") }
            try #require(String(decoding: text, as: UTF8.self).contains("item.created"))
        }
    }
}
