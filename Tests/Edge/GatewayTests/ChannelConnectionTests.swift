import CLockCount
import HTTP
import HubEngine
import Pusher
import Reactor
import Sync
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Ordinary channels over sockets and several loops: behaviour that no model of them shows.
@Suite(.eachState, .ownThread, .timeLimit(.minutes(15))) struct ChannelConnectionTests {
    /// Collects the webhook events.
    private final class Sink: WebhookSink {
        let events = Locked<[WebhookEvent]>([])

        func post(_ event: WebhookEvent, of app: App, _ receipt: WebhookReceipt?) {
            events.withLock { $0.append(event) }
        }

        func dropped(unserved count: Int) {}
    }

    private func app(_ change: (inout AppFeatures) -> Void = { _ in }) -> App {
        var features = AppFeatures()
        change(&features)
        return App(
            id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 0, ownsDatabase: false,
            features: features)
    }

    private func subscribe(
        _ channel: String, user: String? = nil, _ client: TestClient, _ socketID: String, _ app: App
    ) async throws {
        let id = try #require(Array(socketID.utf8).withUnsafeBytes { SocketID($0) })
        let data = user.map { #"{"user_id":"\#($0)"}"# }
        let auth = app.credentials.sign(
            .channel(try #require(ChannelName(channel)), channelData: data), socketID: id)
        let quoted = data.map { #","channel_data":"\#($0.replacing("\"", with: "\\\""))""# } ?? ""
        try await client.send(
            #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)","auth":"\#(auth)"\#(quoted)}}"#)
        guard case .text(let text) = try await client.next(), text.contains("subscription_succeeded") else {
            throw TestClient.Failure(reason: "not subscribed to \(channel)")
        }
    }

    /// The end of a connection is reported after the grace period, to members and to the app's backend, whichever loop it
    /// was on.
    @Test(arguments: [1, 3]) func aLostMemberIsGoneAfterTheGrace(_ loops: Int) async throws {
        let app = app { $0.webhooks = [.presence, .channelExistence] }
        let sink = Sink()
        let fixture = try await GatewayFixture(loops: loops, webhooks: sink) {
            $0.apps = [app]
            $0.channelLimits.shards.leaveGrace = .milliseconds(300)
            $0.channelLimits.shards.webhookPause = .milliseconds(300)
        }
        let (watcher, socketID) = try await TestClient.opened(port: fixture.port)
        try await subscribe("presence-a", user: "w", watcher, socketID, app)
        let users = Set((0..<6).map { "u\($0)" })
        do {
            var clients: [TestClient] = []
            for user in users {
                let (client, socketID) = try await TestClient.opened(port: fixture.port)
                try await subscribe("presence-a", user: user, client, socketID, app)
                clients.append(client)
            }
            for _ in users {
                guard case .text(let text) = try await watcher.next() else { break }
                #expect(text.contains("member_added"))
            }
        }
        // Their sockets were closed with them.
        var removed: Set<String> = []
        for _ in users {
            guard case .text(let text) = try await watcher.next() else { break }
            #expect(text.contains("member_removed"))
            removed.insert(String(text.split(separator: #"user_id\":\""#)[1].prefix(2)))
        }
        #expect(removed == users)
        let name = try #require(ChannelName("presence-a"))
        // The sink's events may come after the watcher's.
        while sink.events.withLock({ $0.count }) < 14 { await Task.yield() }
        let events = sink.events.withLock { $0 }
        #expect(events.first == .channelOccupied(name))
        #expect(events.count { if case .memberAdded = $0 { true } else { false } } == 7)
        #expect(events.count { if case .memberRemoved = $0 { true } else { false } } == 6)
        #expect(events.count == 14, "the watcher keeps it occupied")
    }

    /// How a client's connection can end.
    enum End: CaseIterable {
        case withoutCode, normal, goingAway, internalError, own, endOfStream, breach, hubCloses

        /// What the client sends, if it closes: browsers leave a page with 1001.
        var payload: [UInt8]? {
            switch self {
            case .withoutCode: []
            case .normal: [0x03, 0xE8]
            case .goingAway: [0x03, 0xE9]
            case .internalError: [0x03, 0xF3]
            case .own: [0x0F, 0xA0]
            case .endOfStream, .breach, .hubCloses: nil
            }
        }

        var isLeave: Bool { self == .withoutCode || self == .normal }
    }

    /// A client that closes without a code or with 1000 leaves at once, as with `unsubscribe`; after another end it gets
    /// the grace period.
    @Test(arguments: End.allCases, [1, 2])
    func aCleanCloseIsALeaveAtOnce(_ end: End, _ loops: Int) async throws {
        let app = app()
        let fixture = try await GatewayFixture(loops: loops) {
            $0.apps = [app]
            $0.channelLimits.shards.leaveGrace = .seconds(3600)
        }
        let (watcher, socketID) = try await TestClient.opened(port: fixture.port)
        try await subscribe("presence-a", user: "w", watcher, socketID, app)
        let name = try #require(ChannelName("presence-a"))
        do {
            let (client, socketID) = try await TestClient.opened(port: fixture.port)
            try await subscribe("presence-a", user: "u", client, socketID, app)
            guard case .text(let added) = try await watcher.next() else { throw TestClient.Failure(reason: "no text") }
            #expect(added.contains("member_added"))
            switch end {
            // A reserved opcode.
            case .breach: try await client.sendRaw([0x83, 0x80, 0, 0, 0, 0])
            case .hubCloses: try await client.send(0x2, [1])
            default: if let payload = end.payload { try await client.send(0x8, payload) }
            }
            if end != .endOfStream { while case .text = try await client.next() {} }
        }
        var facts = ChannelFacts()
        repeat {
            facts = try await fixture.ask { loop, answer in loop.directory.facts(of: name, of: app, answer) }.get()
        } while facts.subscriptionCount > 1
        #expect(facts.userCount == (end.isLeave ? 1 : 2))
        if end.isLeave {
            guard case .text(let text) = try await watcher.next() else { throw TestClient.Failure(reason: "no text") }
            #expect(text.contains("member_removed"))
        } else {
            #expect(try await watcher.answersPing(), "nothing was told")
        }
    }

    /// Cached events expire by the hub's own clock.
    @Test func aKeptEventIsForgotten() async throws {
        let app = app()
        let fixture = try await GatewayFixture(loops: 2) {
            $0.apps = [app]
            $0.channelLimits.shards.cacheTime = .milliseconds(200)
        }
        let name = try #require(ChannelName("cache-a"))
        let publication = Publication(channel: name, event: "e", data: Array("1".utf8))
        let facts = try await fixture.ask { loop, answer in
            loop.directory.publish([publication], of: app, tellsFacts: true, answer)
        }.get()
        #expect(facts[0].cached == CachedEvent(name: "e", data: Array("1".utf8), secondsLeft: 1))
        var isKept = true
        while isKept {
            isKept =
                try await fixture.ask { loop, answer in loop.directory.facts(of: name, of: app, answer) }
                .get().cached != nil
        }
        let (client, socketID) = try await TestClient.opened(port: fixture.port)
        try await subscribe("cache-a", client, socketID, app)
        #expect(try await client.next() == .text(#"{"event":"pusher:cache_miss","channel":"cache-a"}"#))
    }

    /// A client that does not read is closed, and delays nobody: an ordinary channel has no log to catch up from.
    @Test func aSubscriberThatDoesNotReadIsClosed() async throws {
        let app = app()
        let fixture = try await GatewayFixture(loops: 1) {
            $0.apps = [app]
            $0.limits.sendQueueBytesMax = 64 << 10
        }
        let slow = try TestClient(port: fixture.port, receiveBuffer: 4_096)
        try await slow.upgrade()
        guard case .text = try await slow.next() else { throw TestClient.Failure(reason: "no greeting") }
        try await slow.send(#"{"event":"pusher:subscribe","data":{"channel":"news"}}"#)
        guard case .text = try await slow.next() else { throw TestClient.Failure(reason: "not subscribed") }
        let (quick, socketID) = try await TestClient.opened(port: fixture.port)
        try await subscribe("news", quick, socketID, app)
        let name = try #require(ChannelName("news"))
        let data = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000)
        var subscribers = 2
        while subscribers == 2 {
            let facts = try await fixture.ask { loop, answer in
                loop.directory.publish(
                    [Publication(channel: name, event: "e", data: data)], of: app, tellsFacts: true, answer)
            }.get()
            subscribers = facts[0].subscriptionCount
            guard case .text = try await quick.next() else { throw TestClient.Failure(reason: "no event") }
        }
        #expect(subscribers == 1)
    }

    /// The bound holds within a tick, since it is checked as events are queued.
    @Test func theBoundHoldsWithinATick() async throws {
        // Nothing comes back within a tick from elsewhere.
        guard !SlowState.isElsewhere else { return }
        let app = app()
        let fixture = try await GatewayFixture(loops: 1) {
            $0.apps = [app]
            $0.limits.sendQueueFramesMax = 16
        }
        let slow = try TestClient(port: fixture.port, receiveBuffer: 4_096)
        try await slow.upgrade()
        guard case .text = try await slow.next() else { throw TestClient.Failure(reason: "no greeting") }
        try await slow.send(#"{"event":"pusher:subscribe","data":{"channel":"news"}}"#)
        guard case .text = try await slow.next() else { throw TestClient.Failure(reason: "not subscribed") }
        let name = try #require(ChannelName("news"))
        let data = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000)
        let subscribers = await fixture.ask { (loop: ClientLoop, _: @escaping @Sendable (Int) -> Void) -> Int? in
            var left = 1
            for _ in 0..<10_000 where left > 0 {
                let facts = loop.directory.publish(
                    [Publication(channel: name, event: "e", data: data)], of: app, tellsFacts: true, { _ in })
                left = (try? facts?.get())?[0].subscriptionCount ?? -1
            }
            return left
        }
        #expect(subscribers == 0)
    }

    /// A backend that waits for its answers cannot outrun the loops that queue to subscribers. Without facts, this holds
    /// once more than a sixteenth of the bound is in flight.
    @Test(arguments: [(true, 0), (false, 2)])
    func aPublishIsAnsweredWhenEveryLoopHasTakenIt(tellsFacts: Bool, underWay: Int) async throws {
        // A state elsewhere holds a backend up itself: its answer comes when it has the event.
        guard !SlowState.isElsewhere else { return }
        let app = app()
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 2, metrics: metrics) {
            $0.apps = [app]
            $0.limits.publishesUnderWayMax = 16
        }
        for _ in 0..<underWay { metrics.publishes.add(of: app.index) }
        var number = 0
        while try ChannelKey(app.index, #require(ChannelName("news-\(number)"))).shard(of: 2) != 0 { number += 1 }
        let name = try #require(ChannelName("news-\(number)"))
        // Two connections: one on each loop.
        var clients: [TestClient] = []
        for _ in 0..<2 {
            let (client, socketID) = try await TestClient.opened(port: fixture.port)
            try await subscribe(name.string, client, socketID, app)
            clients.append(client)
        }
        for round in 1...20 as ClosedRange<UInt64> {
            let taken = await fixture.ask {
                (loop: ClientLoop, answer: @escaping @Sendable (UInt64) -> Void) -> UInt64? in
                let publication = Publication(channel: name, event: "e", data: [0x31])
                let facts = loop.directory.publish([publication], of: app, tellsFacts: tellsFacts) { _ in
                    answer(metrics.deliveries.ofChannels.count)
                }
                return facts.map { _ in 0 }
            }
            #expect(taken == 2 * round && metrics.publishes.count == underWay)
        }
    }

    /// Clients wait for no answer: their events are dropped while too much is in flight. Backends get an error.
    @Test func clientEventsAreDroppedWhileTooMuchIsUnderWay() async throws {
        let app = app { $0.clientEvents = true }
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics) {
            $0.apps = [app]
            $0.limits.publishesUnderWayMax = 4
        }
        let (one, oneID) = try await TestClient.opened(port: fixture.port)
        let (two, twoID) = try await TestClient.opened(port: fixture.port)
        try await subscribe("private-a", one, oneID, app)
        try await subscribe("private-a", two, twoID, app)
        for wanted in 1...3 {
            metrics.publishes.add(of: app.index)
            #expect(await fixture.ask { loop, _ in loop.directory.isOverloaded(by: app) } == (wanted > 2))
            try await one.send(#"{"event":"client-e","channel":"private-a","data":\#(wanted)}"#)
            // Queued after it.
            try await one.send(#"{"event":"pusher:ping","data":{}}"#)
            guard case .text = try await one.next() else { throw TestClient.Failure(reason: "no pong") }
        }
        metrics.publishes.subtract(of: app.index)
        try await one.send(#"{"event":"client-e","channel":"private-a","data":4}"#)
        for heard in [1, 2, 4] {
            #expect(
                try await two.next() == .text(#"{"event":"client-e","channel":"private-a","data":"\#(heard)"}"#))
        }
        #expect(metrics.text.contains(#"client_events_refused_total{reason="overload"} 1"#))
    }

    private struct LongAnswer: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            HTTPResponse(.ok, body: [UInt8](repeating: UInt8(ascii: "x"), count: 16 << 20))
        }
    }

    /// The send queue's bound is for WebSockets: an HTTP answer may be longer.
    @Test func aLongAnswerIsSentWhole() async throws {
        let fixture = try await GatewayFixture(loops: 1, routes: LongAnswer()) {
            $0.limits.sendQueueBytesMax = 64 << 10
        }
        let client = try TestClient(port: fixture.port, receiveBuffer: 65_536)
        for _ in 0..<2 {
            try await client.sendRaw("GET /long HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try await client.response().1.utf8.count == 16 << 20)
        }
    }

    /// Streams are counted too: on every loop, by the subscribed name.
    @Test func streamsAreAmongTheChannels() async throws {
        let fixture = try await GatewayFixture(loops: 3, ownsDatabase: true, feed: GatewayFixture.feed())
        let app = App(
            id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 0, ownsDatabase: true)
        let token = try await GatewayFixture.token("u1")
        var clients: [TestClient] = []
        for _ in 0..<4 {
            let client = try TestClient(port: fixture.port)
            try await client.upgrade(fields: "Authorization: Bearer \(token)\r\n")
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#)
            clients.append(client)
        }
        let stream = StreamID(user: "u1", topic: "items")
        let position = StreamPosition(epoch: "e", offset: 0)
        let name = try #require(ChannelName("user.u1.items"))
        var count = 0
        while count < 4 {
            // Whatever the serial of its watch is.
            for serial in 1...4 as ClosedRange<UInt32> { fixture.feed([.positioned(stream, serial: serial, position)]) }
            count = try await fixture.ask { loop, answer in loop.directory.facts(of: name, of: app, answer) }
                .get().subscriptionCount
        }
        let all = try await fixture.ask { loop, answer in
            loop.directory.channels(of: app, prefix: "user.", max: 10, answer)
        }.get()
        #expect(all.count == 1 && all["user.u1.items"]?.subscriptionCount == 4)
        #expect(
            try await fixture.ask { loop, answer in loop.directory.channels(of: app, prefix: "x", max: 10, answer) }
                .get().isEmpty
        )
    }

    /// A publish crosses once to each loop with subscribers, and takes no lock except the mailboxes'.
    @Test(.enabled(if: cl_counts_locks(), "ThreadSanitizer keeps its own locks"))
    func deliveriesTakeNoLock() async throws {
        // Changes come by a mailbox from elsewhere.
        guard !SlowState.isElsewhere else { return }
        let app = app()
        let fixture = try await GatewayFixture(loops: 1) { $0.apps = [app] }
        let name = try #require(ChannelName("news"))
        var clients: [TestClient] = []
        var taken: [Int] = []
        for wanted in [1, 1, 50] {
            while clients.count < wanted {
                let (client, socketID) = try await TestClient.opened(port: fixture.port)
                try await subscribe("news", client, socketID, app)
                clients.append(client)
            }
            let locks = await fixture.ask { (loop: ClientLoop, _: @escaping @Sendable (Int) -> Void) -> Int? in
                let before = Int(cl_locks_taken())
                for _ in 0..<20 {
                    _ = loop.directory.publish(
                        [Publication(channel: name, event: "e", data: [0x31])], of: app, tellsFacts: true, { _ in })
                }
                return Int(cl_locks_taken()) - before
            }
            taken.append(locks)
        }
        #expect(taken[1] == 0 && taken[2] == 0, "\(taken)")
    }
}

extension GatewayFixture {
    /// Asks a loop as a route would: the answer comes at once, or later.
    func ask<Answer: Sendable>(
        _ question: @escaping @Sendable (ClientLoop, @escaping @Sendable (Answer) -> Void) -> Answer?
    ) async -> Answer {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(
                .ask { loop in
                    if let answer = question(loop, { continuation.resume(returning: $0) }) {
                        continuation.resume(returning: answer)
                    }
                })
        }
    }
}
