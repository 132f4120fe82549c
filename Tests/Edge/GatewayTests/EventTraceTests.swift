import Bytes
import Clock
import Feed
import HubEngine
import Metrics
import Pusher
import Reactor
import Sync
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// What loops remember of events, for the console: from the feed to each socket.
@Suite(.timeLimit(.minutes(15))) struct EventTraceTests {
    fileprivate static let stream = StreamID(user: "u1", topic: "items")

    /// A user's stream with a feed that the test drives.
    fileprivate struct Stage {
        let fixture: GatewayFixture
        let token: String

        init(loops: Int, _ change: @escaping (inout GatewayConfiguration) -> Void = { _ in }) async throws {
            fixture = try await GatewayFixture(loops: loops, ownsDatabase: true, feed: GatewayFixture.feed()) {
                $0.keepsTraces = true
                change(&$0)
            }
            token = try await GatewayFixture.token("u1")
        }

        func client(
            at offset: Int64 = 0, receiveBuffer: Int32? = nil, subscribes: Bool = true
        ) async throws -> TestClient {
            let client = try TestClient(port: fixture.port, receiveBuffer: receiveBuffer)
            try await client.upgrade(fields: "Authorization: Bearer \(token)\r\n")
            for _ in 0..<2 { _ = try await client.next() }
            guard subscribes else { return client }
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#)
            try await client.send(#"{"event":"pusher:ping"}"#)
            let position = StreamPosition(epoch: "e", offset: offset)
            // The first one makes the hub ask for the stream's position.
            var isIn = false
            while !isIn {
                guard case .text(let text) = try await client.next() else { throw TestClient.Failure(reason: "closed") }
                if text.contains("pong") { fixture.feed([.positioned(EventTraceTests.stream, serial: 1, position)]) }
                isIn = text.contains("subscription_succeeded")
            }
            return client
        }

        func event(_ offset: Int64, bytes: Int = 10) {
            let data = SharedBytes.copy(
                #"{"_sync":{"o":\#(offset)},"text":"\#(String(repeating: "x", count: bytes))"}"#)
            var event = StreamEvent(stream: EventTraceTests.stream, offset: offset, name: "item.created", data: data)
            event.committedAt = Instant.read().nanoseconds
            fixture.feed([.event(event)])
        }

        /// Sends events of a size until the device is as wanted with the last one, or `most` are sent. Returns the number of
        /// the last one.
        func events(
            after first: Int64 = 0, bytes: Int, most: Int64, until isReached: (SurveyedWay.Device) -> Bool
        ) async throws -> Int64 {
            var last = first
            repeat {
                last += 1
                event(last, bytes: bytes)
            } while try await !isReached(device(last)) && last < first + most
            return last
        }

        func way(_ offset: Int64, in epoch: String? = "e") async -> [SurveyedWay] {
            let app = App(id: "1", credentials: fixture.credentials, index: 0, ownsDatabase: true)
            return await withCheckedContinuation { continuation in
                fixture.gateway.way(of: EventTraceTests.stream, at: offset, in: epoch.map { Epoch($0) }, app: app) {
                    continuation.resume(returning: $0)
                }
            }
        }

        /// The only device of the way, on any loop, after the tick in which the event was queued.
        func device(_ offset: Int64) async throws -> SurveyedWay.Device {
            _ = await way(offset)
            let devices = await way(offset).flatMap(\.devices)
            guard devices.count == 1 else { throw TestClient.Failure(reason: "\(devices)") }
            return devices[0]
        }
    }

    private func isWritten(_ device: SurveyedWay.Device) -> Bool {
        if case .written = device.state { true } else { false }
    }

    @Test(arguments: [1, 3]) func anEventIsSeenFromTheFeedToEachSocket(_ loops: Int) async throws {
        let stage = try await Stage(loops: loops)
        var clients: [TestClient] = []
        for _ in 0..<3 { clients.append(try await stage.client()) }
        stage.event(1)
        for client in clients { _ = try await client.next() }
        let ways = await stage.way(1)
        let homed = ways.compactMap(\.homed)
        #expect(homed.count == 1 && homed[0].name == "item.created" && homed[0].byteCount > 10)
        #expect(homed[0].committedAt <= homed[0].readAt && homed[0].readAt <= homed[0].homedAt)
        #expect(ways.compactMap(\.position?.offset) == [1] && ways.reduce(0) { $0 + $1.subscriberCount } == 3)
        let devices = ways.flatMap(\.devices)
        #expect(Set(devices.map(\.socket)).count == 3)
        for device in devices {
            guard case .written(let time?) = device.state else {
                Issue.record("\(device)")
                continue
            }
            #expect(homed[0].homedAt <= time && device.isConnected && device.unsentBytes == 0)
        }
        #expect(await stage.way(2).allSatisfy { $0.homed == nil && $0.devices.isEmpty }, "of another number nothing")
    }

    /// The socket takes nothing when the tick ends. Later it does.
    @Test func anEventThatWaitsIsFoundWrittenLater() async throws {
        let stage = try await Stage(loops: 1) { $0.limits.sendQueueBytesMax = 64 << 20 }
        let client = try await stage.client(receiveBuffer: 4_096)
        // The first ones fill the kernel's buffers. None is above the bound at which pages take over.
        let last = try await stage.events(bytes: 1 << 20, most: 32) { !isWritten($0) }
        let device = try await stage.device(last)
        #expect(device.state == .queued && device.unsentBytes > 0)
        for _ in 0..<last { _ = try await client.next() }
        #expect(try await stage.device(last).state == .written(nil))
    }

    /// The connection ends first, and another one takes its slot.
    @Test func anEventWhoseConnectionEndedWasNeverWritten() async throws {
        let stage = try await Stage(loops: 1) { $0.limits.sendQueueBytesMax = 64 << 20 }
        var client: TestClient? = try await stage.client(receiveBuffer: 4_096)
        let last = try await stage.events(bytes: 1 << 20, most: 32) { !isWritten($0) }
        await client?.resetAtTheEnd()
        client = nil
        #expect(eventually { stage.fixture.connections == 0 })
        let next = try await stage.client(at: last)
        let devices = await stage.way(last).flatMap(\.devices)
        #expect(devices.map(\.state) == [.gone, .later(last)] && devices.map(\.isConnected) == [false, true])
        withExtendedLifetime(next) {}
    }

    @Test func oneThatCameLaterIsTold() async throws {
        let stage = try await Stage(loops: 1)
        let first = try await stage.client()
        for offset in 1...3 as ClosedRange<Int64> { stage.event(offset) }
        for _ in 1...3 { _ = try await first.next() }
        let second = try await stage.client(subscribes: false)
        #expect(await stage.way(2)[0].elsewhere.count == 1)
        try await second.send(
            #"{"event":"sync:resume","data":{"v":1,"channels":{"user.u1.items":{"epoch":"e","offset":1}}}}"#)
        try await second.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#)
        var seen = 0
        while seen < 2 {
            guard case .text(let text) = try await second.next() else { throw TestClient.Failure(reason: "closed") }
            if text.contains("item.created") { seen += 1 }
        }
        let ways = (await stage.way(1), await stage.way(2))
        #expect(ways.0[0].elsewhere.isEmpty && ways.0[0].devices.map(\.state).last == .later(3))
        #expect(ways.1[0].devices.map(\.state).last == .replayed)
        withExtendedLifetime(first) {}
    }

    /// Its place is taken by newer ones: then there is what is known of the present.
    @Test func whatIsOverwrittenIsKnownByItsPosition() async throws {
        let stage = try await Stage(loops: 1)
        let client = try await stage.client()
        let count = Int64(EventTrace.entriesMax + 1)
        for offset in 1...count { stage.event(offset) }
        for _ in 1...count { _ = try await client.next() }
        let way = await stage.way(1)[0]
        #expect(way.homed == nil && way.position?.offset == count && way.devices.map(\.state) == [.handedOn])
        #expect(isWritten(try await stage.device(2)))
    }

    /// The database was restored while the device was there, and counts again from an older number.
    @Test(arguments: [1, 3]) func anEventOfAnotherEpochIsAnotherEvent(_ loops: Int) async throws {
        let stage = try await Stage(loops: loops)
        let client = try await stage.client()
        for offset in 1...3 as ClosedRange<Int64> { stage.event(offset) }
        for _ in 1...3 { _ = try await client.next() }
        let restored = StreamPosition(epoch: "f", offset: 1)
        stage.fixture.feed([.reset(EventTraceTests.stream, restored)])
        stage.event(2, bytes: 500)
        for _ in 1...2 { _ = try await client.next() }
        func known(_ offset: Int64, in epoch: String?) async -> (bytes: Int?, told: Int, devices: [SurveyedWay.Device])
        {
            let ways = await stage.way(offset, in: epoch)
            #expect(ways.compactMap(\.position) == [StreamPosition(epoch: "f", offset: 2)])
            return (
                ways.lazy.compactMap(\.homed).first?.byteCount, ways.reduce(0) { $0 + $1.subscriberCount },
                ways.flatMap(\.devices)
            )
        }
        for (epoch, isLarge) in [("e", false), ("f", true), (nil, true)] {
            let second = await known(2, in: epoch)
            #expect(second.bytes.map { $0 > 500 } == isLarge && second.told == 1, "\(epoch ?? "")")
            #expect(second.devices.count == 1 && second.devices.allSatisfy(isWritten), "\(epoch ?? "")")
        }
        let third = (await known(3, in: "e"), await known(3, in: "f"))
        #expect(third.0.bytes != nil && third.0.devices.count == 1)
        #expect(third.1.bytes == nil && third.1.told == 0 && third.1.devices.isEmpty)
        // The log has it in both, and the device was told that it cannot be had.
        #expect(await known(1, in: "f").devices.map(\.state) == [.lost])
        #expect(await known(1, in: "f").bytes == nil)
        #expect(await known(2, in: "d").devices.isEmpty)
        let listed = await withCheckedContinuation { continuation in
            stage.fixture.gateway.events(SurveyedEventFilter()) { continuation.resume(returning: $0) }
        }
        #expect(listed.map(\.epoch) == ["f", "e", "e", "e"] && listed.map(\.offset) == [2, 3, 2, 1])
    }

    /// It is told of a gap, in one epoch: nothing up to there was handed to it.
    @Test func whatCouldNotBeHadWasNotHandedOn() async throws {
        let stage = try await Stage(loops: 1)
        let client = try await stage.client()
        stage.fixture.feed([.reset(EventTraceTests.stream, StreamPosition(epoch: "e", offset: 5))])
        stage.event(6)
        for _ in 1...2 { _ = try await client.next() }
        #expect(try await stage.device(4).state == .lost)
        #expect(isWritten(try await stage.device(6)))
    }

    @Test func eventsAreListedByKindChannelAndSize() async throws {
        let stage = try await Stage(loops: 2)
        let client = try await stage.client()
        stage.event(1)
        stage.event(2, bytes: 5_000)
        for _ in 1...2 { _ = try await client.next() }
        let app = App(id: "1", credentials: stage.fixture.credentials, index: 0, ownsDatabase: true)
        let news = try #require(ChannelName("news"))
        _ = await withCheckedContinuation { continuation in
            stage.fixture.gateway.publish([Publication(channel: news, event: "hello", data: [0x31, 0x32])], of: app) {
                continuation.resume(returning: $0)
            }
        }
        func list(_ change: (inout SurveyedEventFilter) -> Void = { _ in }) async -> [SurveyedEvent] {
            var filter = SurveyedEventFilter()
            change(&filter)
            return await withCheckedContinuation { continuation in
                stage.fixture.gateway.events(filter) { continuation.resume(returning: $0) }
            }
        }
        let all = await list()
        #expect(all.map(\.name) == ["hello", "item.created", "item.created"] && all.map(\.offset) == [nil, 2, 1])
        #expect(all.map(\.source) == [.backend, .database, .database] && all[0].byteCount == 2)
        #expect(await list { $0.name = "created" }.count == 2)
        #expect(await list { $0.channel = "user.u1." }.map(\.channel) == ["user.u1.items", "user.u1.items"])
        #expect(await list { $0.bytesMin = 5_000 }.map(\.offset) == [2])
        #expect(await list { $0.max = 1 }.map(\.name) == ["hello"])
    }

    /// It reads too slowly, and reads on later.
    @Test func oneThatFellBehindIsSaidToHaveCaughtUp() async throws {
        let stage = try await Stage(loops: 1) { $0.limits.pullQueueBytesMax = 64 << 10 }
        var client: TestClient? = try await stage.client(receiveBuffer: 4_096)
        var last = try await stage.events(bytes: 16 << 10, most: 4_096) { $0.state == .behind }
        #expect(try await stage.device(last).state == .behind)
        var seen: Int64 = 0
        while seen < last {
            guard case .text(let text)? = try await client?.next() else { throw TestClient.Failure(reason: "closed") }
            if text.contains("item.created") { seen += 1 }
        }
        #expect(try await stage.device(last).state == .caughtUp)
        // It leaves while it is behind with another one.
        last = try await stage.events(after: last, bytes: 16 << 10, most: 4_096) { $0.state == .behind }
        await client?.resetAtTheEnd()
        client = nil
        #expect(eventually { stage.fixture.connections == 0 })
        let device = try await stage.device(last)
        #expect(device.state == .gone && !device.isConnected)
    }

    /// When it joined is overwritten by others that joined: then nothing is claimed of what it got.
    @Test func oneWhoseComingIsForgottenIsOnlyPresent() async throws {
        let stage = try await Stage(loops: 1)
        let client = try await stage.client(at: 3)
        #expect(try await stage.device(2).state == .later(3))
        await stage.fixture.inLoop { loop in
            let stranger = StreamJoined(
                session: SessionID(slot: .max - 1, generation: 0), serial: 0,
                position: StreamPosition(epoch: "e", offset: 0))
            for _ in 0..<EventTrace.entriesMax { loop.trace?.joins(stranger, StreamID(user: "u2", topic: "items")) }
        }
        #expect(try await stage.device(2).state == .present)
        withExtendedLifetime(client) {}
    }

    /// Of the commits that one loop knows, and the writes that another one knows.
    @Test(arguments: [1, 3]) func timesFromCommitToSocketAreTaken(_ loops: Int) async throws {
        let stage = try await Stage(loops: loops)
        var clients: [TestClient] = []
        for _ in 0..<3 { clients.append(try await stage.client()) }
        for offset in 1...4 as ClosedRange<Int64> { stage.event(offset) }
        for client in clients { for _ in 1...4 { _ = try await client.next() } }
        _ = await stage.way(4)
        func latencies(_ time: Duration) async -> [Duration] {
            await withCheckedContinuation { continuation in
                stage.fixture.gateway.latencies(within: time) { continuation.resume(returning: $0) }
            }
        }
        let found = await latencies(.seconds(600))
        #expect(found.count == 12 && found == found.sorted() && found.allSatisfy { $0 > .zero }, "\(found)")
        #expect(await latencies(.zero).isEmpty)
    }

    @Test func aHubWithoutAConsoleRemembersNothing() async throws {
        let stage = try await Stage(loops: 1) { $0.keepsTraces = false }
        let client = try await stage.client()
        stage.event(1)
        _ = try await client.next()
        #expect(await stage.fixture.inLoop { $0.trace == nil })
        #expect(try await stage.device(1).state == .present)
    }

    // MARK: Connections

    @Test func connectionsAreListed() async throws {
        let stage = try await Stage(loops: 2)
        let clients = [try await stage.client(), try await stage.client(subscribes: false)]
        let app = App(id: "1", credentials: stage.fixture.credentials, index: 0, ownsDatabase: true)
        func list(_ user: String?, max: Int = 10) async -> [SurveyedConnection] {
            await withCheckedContinuation { continuation in
                stage.fixture.gateway.connections(of: user.map { ($0, app) }, max: max) {
                    continuation.resume(returning: $0)
                }
            }
        }
        let all = await list(nil)
        #expect(
            all.count == 2 && all.allSatisfy { $0.user == "u1" && $0.kind == .webSocket && $0.address == "127.0.0.1" })
        #expect(all.map(\.channels).sorted { $0.count < $1.count } == [[], ["user.u1.items"]])
        #expect(await list("u1").count == 2)
        #expect(await list("u2").isEmpty)
        #expect(await list(nil, max: 0).isEmpty)
        withExtendedLifetime(clients) {}
    }

    @Test(arguments: [1, 3]) func aUsersConnectionsAreEndedAndCounted(_ loops: Int) async throws {
        let stage = try await Stage(loops: loops)
        let clients = [try await stage.client(), try await stage.client(subscribes: false)]
        let (stranger, _) = try await TestClient.opened(port: stage.fixture.port)
        let app = App(id: "1", credentials: stage.fixture.credentials, index: 0, ownsDatabase: true)
        func end(_ user: String) async -> Int {
            await withCheckedContinuation { continuation in
                stage.fixture.gateway.terminate(user, of: app) { continuation.resume(returning: $0) }
            }
        }
        #expect(await end("u2") == 0)
        #expect(await end("u1") == 2)
        for client in clients { #expect(try await client.next() == .close(4009)) }
        #expect(try await stranger.answersPing())
        #expect(await end("u1") == 0)
    }

    // MARK: The ring

    @Test func theOldestGivesWay() {
        var ring = TraceRing<Int>(3)
        #expect(ring[newest: 0] == nil)
        for number in 1...3 {
            ring.append(number)
            #expect(ring[newest: 0] == number && ring.index(newest: 0) == number - 1)
        }
        #expect((0..<4).map { ring[newest: $0] } == [3, 2, 1, nil])
        ring.append(4)
        #expect((0..<4).map { ring[newest: $0] } == [4, 3, 2, nil] && ring.nextIndex == 1 && ring.count == 3)
    }
}

/// What TLS has sealed counts as sent to the queue, and not to the trace.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct SealedEventTests {
    @Test func anEventIsNotCalledWrittenWhileItIsSealed() async throws {
        let folder = try CertificateFolder()
        defer { withExtendedLifetime(folder) {} }
        let pair = try folder.make("one", hosts: ["localhost"])
        let server = try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
        let stage = try await EventTraceTests.Stage(loops: 1) {
            $0.tls = server
            $0.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0), usesTLS: true)]
            $0.timeouts.tlsHandshake = .seconds(60)
            $0.timeouts.tlsTurn = .seconds(60)
        }
        let wire = try TLSWire()
        defer { withExtendedLifetime(wire) {} }
        let client = try SecureClient(port: stage.fixture.port, TLSClient(), on: wire, receiveBuffer: 4_096)
        #expect(try client.handshake())
        try client.upgrade(fields: "Authorization: Bearer \(stage.token)\r\n")
        _ = try client.text()
        try client.send(text: #"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#)
        try client.send(text: #"{"event":"pusher:ping"}"#)
        #expect(try client.text()?.contains("pong") == true)
        let position = StreamPosition(epoch: "e", offset: 0)
        stage.fixture.feed([.positioned(EventTraceTests.stream, serial: 1, position)])
        #expect(try client.text()?.contains("subscription_succeeded") == true)
        // Each is one record: the first that the socket takes in part is sealed, and its queue is empty.
        var last: Int64 = 0
        var isSealed = false
        while !isSealed, last < 8_192 {
            last += 1
            stage.event(last, bytes: 12 << 10)
            _ = await stage.way(last)
            isSealed = await stage.fixture.inLoop { loop in
                loop.connections.contains { $0.transport.tls?.hasUnsent == true && $0.transport.output.isEmpty }
            }
        }
        #expect(isSealed)
        #expect(try await stage.device(last).state == .queued)
        for _ in 0..<last { _ = try client.text() }
        #expect(try await stage.device(last).state == .written(nil))
    }
}
