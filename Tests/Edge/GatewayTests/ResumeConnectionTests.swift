import Feed
import HubEngine
import Postgres
import Sync
import TestDatabase
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Devices that come back, and devices that read slowly, over sockets and with a real log.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ResumeConnectionTests {
    private let database: Database
    private let writer: BlockingConnection
    private static let channel = "user.u1.items"

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

    private func fixture(
        _ metrics: GatewayMetrics = GatewayMetrics(), _ change: (inout GatewayConfiguration) -> Void
    ) async throws -> GatewayFixture {
        try await GatewayFixture(
            ownsDatabase: true, feed: GatewayFixture.feed(of: database.hub), metrics: metrics, change)
    }

    /// Commits `count` events at once, each with at least that many bytes.
    private func commit(_ count: Int, bytes: Int = 10) throws {
        _ = try writer.query(
            "INSERT INTO app.item (user_id, label) SELECT 'u1', repeat('x', $1) FROM generate_series(1, $2)",
            [String(bytes), String(count)])
    }

    /// A device of the user that has only said hello.
    private func device(_ fixture: GatewayFixture, receiveBuffer: Int32? = nil) async throws -> TestClient {
        let client = try TestClient(port: fixture.port, receiveBuffer: receiveBuffer)
        try await client.upgrade(fields: "Authorization: Bearer \(try await GatewayFixture.token("u1"))\r\n")
        for _ in 0..<2 { _ = try await client.next() }
        return client
    }

    private func subscribe(_ client: TestClient) async throws {
        try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"\#(Self.channel)"}}"#)
    }

    private func resume(_ client: TestClient, _ position: StreamPosition) async throws {
        let channels = #"{"\#(Self.channel)":{"epoch":"\#(position.epochText)","offset":\#(position.offset)}}"#
        try await client.send(#"{"event":"sync:resume","data":{"v":1,"channels":\#(channels)}}"#)
    }

    private func text(_ client: TestClient) async throws -> String {
        guard case .text(let text) = try await client.next() else { throw TestClient.Failure(reason: "no text") }
        return text
    }

    private func number(_ name: String, _ text: String) -> Int64? {
        text.range(of: #"\""# + name + #"\":"#).flatMap {
            Int64(text[$0.upperBound...].drop { $0 == " " }.prefix { $0.isNumber })
        }
    }

    private func acknowledgement(_ client: TestClient) async throws -> StreamPosition {
        let text = try await text(client)
        #expect(text.contains("subscription_succeeded"), "\(text)")
        let start = try #require(text.range(of: #"\"epoch\":\""#)).upperBound
        return StreamPosition(
            epoch: String(text[start...].prefix { $0 != "\\" }), offset: try #require(number("offset", text)))
    }

    /// A channel of a topic that is not published: its device gets all events once the topic is.
    @Test func aTopicThatIsPublishedLater() async throws {
        let fixture = try await fixture { $0.loops = 2 }
        let devices = [try await device(fixture), try await device(fixture)]
        let made = #"{"event":"pusher:subscribe","data":{"channel":"user.u1.made_up"}}"#
        var told = ""
        // Until the hub knows what is published, it watches everything.
        while !told.contains("published") {
            for device in devices {
                try await device.send(made)
                told = try await text(device)
                #expect(told.contains(#"subscription_succeeded","channel":"user.u1.made_up""#), "\(told)")
                #expect(number("offset", told) == 0)
                if !told.contains("published") {
                    try await device.send(#"{"event":"pusher:unsubscribe","data":{"channel":"user.u1.made_up"}}"#)
                }
            }
        }
        #expect(told.contains(#"\"published\":false"#))
        try writer.execute("CREATE TABLE app.made (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text)")
        try writer.execute("BEGIN; SELECT sync.publish_changes('app.made', 'user_id', 'made_up', 'made')")
        try writer.execute("INSERT INTO app.made (user_id) SELECT 'u1' FROM generate_series(1, 3); COMMIT")
        for device in devices.suffix(1) { try await readEvents(device, after: 0, upTo: 3) }
        try writer.execute("INSERT INTO app.made (user_id) VALUES ('u1')")
        for device in devices.suffix(1) { try await readEvents(device, after: 3, upTo: 4) }
    }

    /// A user's streams have their own bound over all loops and connections. Another user's subscribe still succeeds.
    @Test func oneUserDoesNotTakeAllStreams() async throws {
        var configuration = GatewayFixture.feed(of: database.hub)
        configuration.streamsPerUserMax = 2
        configuration.streamsMax = 3
        for topic in ["a", "b", "c"] {
            try writer.execute(
                "CREATE TABLE app.\(topic) (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text)")
            try writer.execute("SELECT sync.publish_changes('app.\(topic)', 'user_id', '\(topic)', '\(topic)')")
        }
        let fixture = try await GatewayFixture(ownsDatabase: true, feed: configuration) { $0.loops = 2 }
        let one = try await device(fixture)
        for topic in ["a", "b"] {
            try await one.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.\#(topic)"}}"#)
            #expect(try await text(one).contains("subscription_succeeded"))
        }
        let again = try await device(fixture)
        for (topic, part) in [("c", "LimitReached"), ("a", "subscription_succeeded")] {
            try await again.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.\#(topic)"}}"#)
            #expect(try await text(again).contains(part), "\(topic)")
        }
        func other(_ user: String) async throws -> TestClient {
            let client = try TestClient(port: fixture.port)
            try await client.upgrade(fields: "Authorization: Bearer \(try await GatewayFixture.token(user))\r\n")
            for _ in 0..<2 { _ = try await client.next() }
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"user.\#(user).items"}}"#)
            return client
        }
        let second = try await other("u2")
        #expect(try await text(second).contains("subscription_succeeded"))
        // The hub is full: the device may come back, and finds room when another has left.
        guard case .close(let code) = try await other("u3").next() else { throw TestClient.Failure(reason: "let in") }
        #expect(code == 4100)
        try await again.send(#"{"event":"pusher:unsubscribe","data":{"channel":"user.u1.b"}}"#)
        try await one.send(#"{"event":"pusher:unsubscribe","data":{"channel":"user.u1.b"}}"#)
        while true {
            let client = try await other("u3")
            guard case .text(let answer) = try await client.next() else { continue }
            #expect(answer.contains("subscription_succeeded"))
            break
        }
        try await second.send(#"{"event":"pusher:ping","data":{}}"#)
        #expect(try await text(second).contains("pong"), "it was in all the time")
    }

    /// Reads consecutive events up to that offset.
    private func readEvents(_ client: TestClient, after offset: Int64, upTo last: Int64) async throws {
        var offset = offset
        while offset < last {
            let text = try await text(client)
            let next = try #require(number("o", text), "\(text.prefix(300))")
            try #require(next == offset + 1, "one after the other")
            offset = next
        }
    }

    @Test(arguments: [256, 3])
    func aDeviceThatComesBackGetsWhatItMissed(_ windowEvents: Int) async throws {
        let fixture = try await fixture { $0.channelLimits.streams.windowEvents = windowEvents }
        try commit(2)
        var client = try await device(fixture)
        try await subscribe(client)
        let start = try await acknowledgement(client)
        try commit(3)
        try await readEvents(client, after: start.offset, upTo: start.offset + 3)
        // The device reconnects on the loop with the fewest connections, and resumes before the subscribe, after it, or in
        // its middle.
        client = try await device(fixture)
        try commit(20)
        try await resume(client, StreamPosition(epoch: start.epochText, offset: start.offset + 3))
        try await subscribe(client)
        #expect(try await acknowledgement(client).epochText == start.epochText)
        var answer = try await text(client)
        #expect(answer.hasPrefix(#"{"event":"sync:resumed""#) && answer.contains(#"\"recovered\":true"#), "\(answer)")
        try await readEvents(client, after: start.offset + 3, upTo: start.offset + 23)
        try await resume(client, StreamPosition(epoch: start.epochText, offset: start.offset + 1))
        answer = try await text(client)
        #expect(number("replayed", answer) == 22, "\(answer)")
        try await readEvents(client, after: start.offset + 1, upTo: start.offset + 23)
        try commit(1)
        try await readEvents(client, after: start.offset + 23, upTo: start.offset + 24)
        try await resume(client, StreamPosition(epoch: "another", offset: 1))
        answer = try await text(client)
        #expect(answer.contains(#"\"reason\":\"stream_reset\""#), "\(answer)")
    }

    /// A device that resumes without end gets an answer to its last request and to few others; nobody else notices.
    @Test func aFloodOfResumesIsAnsweredFewTimes() async throws {
        let fixture = try await fixture {
            $0.channelLimits.resumesAtOnceMax = 10
            $0.channelLimits.resumeInterval = .milliseconds(500)
        }
        let healthy = try await device(fixture)
        let flooding = try await device(fixture)
        var start = StreamPosition(epoch: "", offset: 0)
        for client in [healthy, flooding] {
            try await subscribe(client)
            start = try await acknowledgement(client)
        }
        try commit(20)
        for client in [healthy, flooding] {
            try await readEvents(client, after: start.offset, upTo: start.offset + 20)
        }
        for _ in 0..<2_000 {
            try await resume(flooding, StreamPosition(epoch: start.epochText, offset: start.offset + 19))
        }
        try await resume(flooding, StreamPosition(epoch: start.epochText, offset: start.offset + 15))
        try commit(1)
        try await readEvents(healthy, after: start.offset + 20, upTo: start.offset + 21)
        var answers = 0
        while true {
            let text = try await text(flooding)
            guard text.hasPrefix(#"{"event":"sync:resumed""#) else { continue }
            answers += 1
            if let replayed = number("replayed", text), replayed >= 5 { break }
        }
        #expect(answers < 300, "of 2,001 asked for")
        try await readEvents(flooding, after: start.offset + 15, upTo: start.offset + 21)
    }

    /// A hub tells no device that it is ahead before the hub itself has read that far.
    @Test func aPlaceAheadOfTheDatabaseIsToldAsSuch() async throws {
        let fixture = try await fixture { _ in }
        let client = try await device(fixture)
        try commit(2)
        try await subscribe(client)
        let start = try await acknowledgement(client)
        try await resume(client, StreamPosition(epoch: start.epochText, offset: start.offset + 1))
        #expect(try await text(client).contains(#"\"reason\":\"ahead\""#))
        try await resume(client, start)
        #expect(try await text(client).contains(#"\"replayed\":0"#))
    }

    /// Ten thousand rows in one commit: a device that does not read gets them from the log later, the others at once, and
    /// nobody is closed.
    @Test func aStalledReaderMissesNothingAndDisturbsNobody() async throws {
        let fixture = try await fixture {
            $0.limits.pullQueueBytesMax = 64 << 10
            // It reads after the others, which takes a busy machine a while.
            $0.timeouts.stalled = .seconds(600)
            $0.timeouts.unacked = .seconds(600)
            $0.timeouts.activity = .seconds(600)
        }
        let healthy = [try await device(fixture), try await device(fixture)]
        let stalled = try await device(fixture, receiveBuffer: 4_096)
        for client in healthy + [stalled] { try await subscribe(client) }
        var start: Int64 = 0
        for client in healthy + [stalled] { start = try await acknowledgement(client).offset }
        try commit(10_000, bytes: 700)
        for client in healthy { try await readEvents(client, after: start, upTo: start + 10_000) }
        #expect(fixture.gateway.context.metrics.deliveries.pullModeEntries.count > 0)
        try commit(1)
        for client in healthy { try await readEvents(client, after: start + 10_000, upTo: start + 10_001) }
        try await readEvents(stalled, after: start, upTo: start + 10_001)
        try commit(1)
        for client in healthy + [stalled] {
            try await readEvents(client, after: start + 10_001, upTo: start + 10_002)
        }
        #expect(fixture.gateway.connectionCount == 3)
    }

    /// The log cannot be read for a while; three failures give `busy`. A slow device that requested nothing is told nothing
    /// and misses nothing; one that resumes is told.
    @Test func aSlowDeviceMissesNothingThoughTheLogIsOutOfReach() async throws {
        let fixture = try await fixture {
            $0.limits.pullQueueBytesMax = 64 << 10
            $0.channelLimits.streams.windowEvents = 3
            $0.channelLimits.streams.readPause = .milliseconds(20)
            $0.timeouts.stalled = .seconds(600)
            $0.timeouts.unacked = .seconds(600)
            $0.timeouts.activity = .seconds(600)
        }
        let healthy = try await device(fixture)
        let slow = try await device(fixture, receiveBuffer: 4_096)
        var start = StreamPosition(epoch: "", offset: 0)
        for client in [healthy, slow] {
            try await subscribe(client)
            start = try await acknowledgement(client)
        }
        try commit(10_000, bytes: 700)
        let last = start.offset + 10_000
        try await readEvents(healthy, after: start.offset, upTo: last)
        try writer.execute(
            """
            CREATE SEQUENCE app.call;
            ALTER FUNCTION sync.read_log RENAME TO read_log_later;
            CREATE FUNCTION sync.read_log(text, text, bigint, bigint, int, int)
            RETURNS TABLE(epoch text, top bigint, o bigint, name text, data text) LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                PERFORM nextval('app.call');
                RAISE EXCEPTION 'not now';
            END
            $$;
            GRANT EXECUTE ON FUNCTION sync.read_log TO carillon_hub;
            """)
        // It reads everything sent so far, then waits for its page.
        let reading = Task {
            var texts: [String] = []
            while texts.count < 10_001, case .text(let text) = try await slow.next() { texts.append(text) }
            return texts
        }
        let called = "SELECT last_value FROM app.call WHERE is_called"
        while try writer.query(called).first?[0].flatMap({ Int($0) }) ?? 0 <= 6 { await Task.yield() }
        try await resume(healthy, StreamPosition(epoch: start.epochText, offset: last - 20))
        #expect(try await text(healthy).contains("store_unavailable"))
        try writer.execute(
            """
            DROP FUNCTION sync.read_log;
            ALTER FUNCTION sync.read_log_later RENAME TO read_log;
            """)
        try commit(1)
        let offsets = try await reading.value.map { number("o", $0) }
        #expect(offsets == (1...10_001).map { start.offset + $0 }, "events, each the next one, and nothing else")
        try await readEvents(healthy, after: last, upTo: last + 1)
        try commit(1)
        for client in [healthy, slow] { try await readEvents(client, after: last + 1, upTo: last + 2) }
    }

    @Test func aClientThatReadsNothingIsClosed() async throws {
        let fixture = try await fixture {
            $0.limits.pullQueueBytesMax = 64 << 10
            // Long for a healthy reader on a busy machine.
            $0.timeouts.stalled = .seconds(10)
        }
        let healthy = try await device(fixture)
        let stalled = try await device(fixture, receiveBuffer: 4_096)
        for client in [healthy, stalled] { try await subscribe(client) }
        var start: Int64 = 0
        for client in [healthy, stalled] { start = try await acknowledgement(client).offset }
        try commit(10_000, bytes: 700)
        try await readEvents(healthy, after: start, upTo: start + 10_000)
        while fixture.gateway.connectionCount > 1 {
            try await healthy.send(#"{"event":"pusher:ping"}"#)
            #expect(try await text(healthy).contains("pusher:pong"))
        }
        // The contents of its socket can still be read, up to the middle of a frame.
        var last = start
        while case .text(let text) = try await stalled.next() {
            let next = try #require(number("o", text))
            #expect(next == last + 1)
            last = next
        }
        #expect(last < start + 10_000)
    }

    /// A thousand devices that do not read, each within its own bounds, would together exceed the hub's bound many times.
    /// The devices with the longest queues are closed; devices that read get everything.
    @Test func aThousandStalledReadersStayWithinTheHubsBound() async throws {
        let metrics = GatewayMetrics()
        let bound = 8 << 20
        let fixture = try await fixture(metrics) {
            $0.admission.connectionsPerAddressMax = nil
            $0.limits.sendQueuesBytesMax = 2 * bound
            $0.timeouts.stalled = .seconds(600)
            $0.timeouts.activity = .seconds(600)
        }
        let healthy = [try await device(fixture), try await device(fixture)]
        for client in healthy { try await subscribe(client) }
        var start: Int64 = 0
        for client in healthy { start = try await acknowledgement(client).offset }
        let stalled = try StalledReaders(
            1_000, port: fixture.port, token: try await GatewayFixture.token("u1"), channel: Self.channel)
        // One event per tick: within a tick, each connection may add one event.
        let slack = 1_000 * 10_000
        var most = 0
        for offset in start..<start + 60 {
            try commit(1, bytes: 9_000)
            for client in healthy { try await readEvents(client, after: offset, upTo: offset + 1) }
            most = max(most, metrics.held.queuedBytes.level)
        }
        #expect(most > bound, "they are stalled, and their queues grow")
        #expect(most <= 2 * bound + slack)
        #expect(metrics.overloads["send_queues_full"].count > 0)
        #expect(metrics.overloads["send_queue_full"].count == 0, "none is beyond its own bound")
        #expect(metrics.deliveries.pullModeEntries.count > 0, "streams are fed by pages before anybody is closed")
        // Closed devices answer no close frame, and then are removed.
        while fixture.gateway.connectionCount > 1_001 {
            for client in healthy {
                try await client.send(#"{"event":"pusher:ping"}"#)
                #expect(try await text(client).contains("pusher:pong"))
            }
        }
        #expect(metrics.held.queuedBytes.level <= 2 * bound)
        withExtendedLifetime(stalled) {}
    }
}
