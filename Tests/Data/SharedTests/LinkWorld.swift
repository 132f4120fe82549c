import Clock
import HubEngine
import Logging
import Pusher
import Reactor
import Redis
import Shared
import TestRedis
import Testing

/// Hubs of one loop each, on a loop that the test drives, which share a state in a real Redis.
final class LinkWorld {
    /// One hub's loop.
    final class Hub {
        let shared: SharedRedis
        fileprivate(set) var link: RedisLink?
        /// Those of its other loops.
        fileprivate(set) var others: [RedisLink] = []
        private let arrivals = Locked<[SharedArrival]>([])
        private let apps = KnownApps()
        private var lastNumber: UInt64 = 0
        private(set) var replies: [UInt64: ChannelReply] = [:]
        private(set) var changes: [ChannelChange] = []
        private(set) var webhooks: [WebhookEvent] = []
        /// Whether backends are slow: the receipts of what they are told.
        var isSlow = false
        private(set) var receipts: [WebhookReceipt] = []
        /// What was dropped, since no hub serves its app.
        private(set) var unserved = 0
        private(set) var gaps = 0
        private(set) var latest: [ChannelKey] = []
        private(set) var commands: [HubCommand] = []

        fileprivate init(_ settings: SharedSettings, _ served: [App], loops: Int, on loop: EventLoop) throws {
            shared = SharedRedis(
                settings, metrics: SharedRedisMetrics(),
                Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            serve(served)
            let links = try (0..<loops).map { number in
                try shared.link(loop: number, of: loops, on: loop) { [arrivals] arrival in
                    arrivals.withLock { $0.append(arrival) }
                }
            }
            (link, others) = (links[0], Array(links.dropFirst()))
        }

        /// Its configuration has these apps now.
        func serve(_ served: [App]) {
            for app in served { apps.replace(app) }
            shared.serve(served)
        }

        /// Sends the call; its number.
        @discardableResult
        func send(_ call: ChannelCall) -> UInt64 {
            lastNumber += 1
            link?.send(.channel(SentChannelCall(call, lastNumber, from: shared.hub)))
            return lastNumber
        }

        /// The hub is gone, and says nothing.
        func dies() { (link, others) = (nil, []) }

        /// Backends have taken all.
        func backendsAnswer() { receipts = [] }

        fileprivate func look() {
            for arrival in arrivals.withLock({ exchange(&$0, with: []) }) {
                let messages: [[UInt8]]
                switch arrival {
                case .news(let news): messages = news
                case .webhooks(let events, let receipt):
                    messages = events
                    if isSlow { receipts.append(receipt) }
                case .unserved(let count):
                    unserved += count
                    continue
                case .gap:
                    gaps += 1
                    continue
                case .ended: continue
                }
                for bytes in messages {
                    if let command = try? HubCommand(bytes, apps) { commands.append(command) }
                    switch try? ChannelNews(bytes, apps) {
                    case .reply(let number, let reply): replies[number] = reply
                    case .change(let change): changes.append(change)
                    case .webhook(_, let event): webhooks.append(event)
                    case .latest(let key, _): latest.append(key)
                    case nil: break
                    }
                }
            }
        }
    }

    private let settings: SharedSettings
    let server: RedisServer
    let redis: BlockingRedis
    /// By which the hubs find the server; nil: they know where it is.
    let sentinel: RedisServer?
    private let loop: EventLoop
    private(set) var hubs: [Hub] = []

    private let loops: Int

    init(
        hubs count: Int, loops: Int = 1, bySentinel: Bool = false, _ change: (inout SharedSettings) -> Void = { _ in }
    ) throws {
        self.loops = loops
        server = try RedisServer()
        redis = try BlockingRedis(port: server.port)
        sentinel = bySentinel ? try RedisServer(sentinelOf: server, service: "hub") : nil
        loop = try EventLoop()
        let way = sentinel.map { "redis+sentinel://127.0.0.1:\($0.port)/hub" } ?? "redis://127.0.0.1:\(server.port)"
        var settings = SharedSettings(RedisSettings(try RedisURL(way)))
        // A busy machine is slow.
        settings.redis.replyTimeout = .seconds(45)
        settings.redis.pauseMax = .milliseconds(200)
        settings.lease = .seconds(60)
        settings.buckets = 4
        settings.settling = .zero
        change(&settings)
        self.settings = settings
        for _ in 0..<count { hubs.append(try Hub(settings, [Self.app], loops: loops, on: loop)) }
        try run { hubs.allSatisfy { $0.shared.metrics.connections.level == loops } }
    }

    /// One more hub.
    func join(serving apps: [App] = [LinkWorld.app]) throws {
        hubs.append(try Hub(settings, apps, loops: loops, on: loop))
    }

    func run(until condition: () throws -> Bool) throws {
        let end = Instant.read().advanced(by: .seconds(100))
        while try !condition() {
            try #require(Instant.read() < end, "not met in 100 s")
            loop.tick(waitingAtMost: .milliseconds(5))
            for hub in hubs { hub.look() }
        }
    }

    func run(for time: Duration) throws {
        let end = Instant.read().advanced(by: time)
        try run { end < .read() }
    }

    /// Sends the call, and waits for its reply.
    func ask(_ call: ChannelCall, by hub: Int = 0) throws -> ChannelReply {
        let number = hubs[hub].send(call)
        try run { hubs[hub].replies[number] != nil }
        return try #require(hubs[hub].replies[number])
    }

    func facts(_ key: ChannelKey, by hub: Int = 0) throws -> ChannelFacts {
        guard case .facts(let facts) = try ask(.facts(key), by: hub) else { throw CancellationError() }
        return facts
    }

    static let app = {
        var features = AppFeatures()
        features.webhooks = [.presence, .channelExistence]
        return App(
            id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
            features: features)
    }()

    static func key(_ name: String) -> ChannelKey {
        guard let name = ChannelName(name) else { preconditionFailure("no channel's name") }
        return ChannelKey(0, name)
    }

    static func entering(_ user: String) -> Entering { Entering(member: PresenceMember(id: user, info: [])) }

    static func event(_ key: ChannelKey) -> ChannelCall {
        .publish(key, Publication(channel: key.name, event: "e", data: []))
    }
}
