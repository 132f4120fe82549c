import Clock
import Glibc
import HubEngine
import Logging
import Metrics
import RESP
import Reactor
import Redis
import Synchronization

/// How hubs share the state of ordinary channels in Redis.
package struct SharedSettings: Sendable {
    /// The connections; each loop has one.
    package var redis: RedisSettings
    /// How many buckets there are. The first hub fixes it in Redis.
    package var buckets = 64
    /// What all keys begin with: hubs of another name share nothing with these.
    package var name = "carillon"
    /// What operators are told of this hub, such as its version and its host: one line.
    package var about = ""
    /// The bounds of all buckets together.
    package var limits = ShardLimits()
    /// How long a hub counts as alive after it last said so.
    package var lease = Duration.seconds(5)
    /// How long hubs have to say what they hold to a bucket that was empty, or is at another server: two beats, and some
    /// time. Until then publishes are refused, and nobody is told who is missing.
    package var settling = Duration.seconds(3)

    /// The defaults, at that server.
    package init(_ redis: RedisSettings) {
        self.redis = redis
        // Far below the lease, or a hub that comes back late would be taken for dead.
        self.redis.pauseMax = .seconds(1)
    }

    /// The scripts' texts, by `SharedScript.rawValue`.
    var scripts: [String] {
        var share = limits.share(of: buckets)
        // Of a bucket: a channel's many members may leave at once.
        share.departuresMax = limits.departuresMax
        return SharedScript.allCases.map { $0.text(share, lease: lease, settling: settling) }
    }
}

/// What is counted of it. Any thread.
package final class SharedRedisMetrics: MetricSource {
    /// Connections that are up.
    package let connections = Gauge()
    /// Hubs that live, as Redis has just said.
    let hubs = Gauge()
    /// Calls.
    package let calls = Counter()
    /// Calls that were sent again.
    package let repeats = Counter()
    /// What callers and clients were refused because Redis is away, or refuses it. Who refuses counts it.
    package let unavailable = Counter()
    /// Times at which all was said again.
    package let gaps = Counter()

    /// Nothing is counted yet.
    package init() {}

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.gauge("redis_connections", "Connections to Redis that are up.", Double(connections.level))
        exposition.gauge(
            "redis_hubs", "Hubs that share this Redis and live, this one included; 0 while Redis is away.",
            Double(hubs.level))
        exposition.counter("redis_calls_total", "Calls about ordinary channels.", calls.count)
        exposition.counter(
            "redis_repeats_total", "Calls that were sent again, because an answer was lost.", repeats.count)
        exposition.counter(
            "redis_unavailable_total", "Calls and subscribes that were refused with 503 because of Redis.",
            unavailable.count)
        exposition.counter("redis_gaps_total", "Times that a loop told Redis again all that it holds.", gaps.count)
    }
}

/// A hub's way to the state of ordinary channels in Redis, for all its loops. Each loop has a `RedisLink` of its own.
package final class SharedRedis: Sendable {
    /// This run of the hub. The links name the present one to Redis: who was taken for dead goes on as another.
    package let hub: HubID
    /// What is counted of it.
    package let metrics: SharedRedisMetrics
    let settings: SharedSettings
    /// What the keys of each bucket begin with.
    let keys: [[UInt8]]
    /// The shard channels by which the buckets' beats come.
    let beatChannels: [[UInt8]: Int]
    let log: RedisLog
    let logger: Logger
    /// The run as Redis knows it.
    private let present: Atomic<UInt64>
    private let served = Locked<(apps: [App], digest: String)>(([], ""))
    /// The first loop's, and where it has still to look.
    private let poked: Locked<(places: [Bool], mailbox: Mailbox<Errand>?)>
    private let servedVersion = Atomic<Int>(0)
    private let missed = Atomic<Int>(0)
    private let beatenAt = Atomic<UInt64>(0)
    /// The replication id of the server that has taken the last beat.
    private let beatenServer = Locked<[UInt8]>([])
    /// Loops that had no connection yet, and buckets that have not settled since the hub began.
    private let awaited: Locked<(loops: Set<Int>, buckets: Set<Int>)>

    /// Serves no apps yet.
    package init(_ settings: SharedSettings, metrics: SharedRedisMetrics, _ logger: Logger) {
        self.settings = settings
        self.metrics = metrics
        keys = BucketKeys(count: settings.buckets, of: settings.name).prefixes.map { Array($0.utf8) }
        beatChannels = Dictionary(
            uniqueKeysWithValues: keys.enumerated().map { ($1 + Array("beat".utf8), $0) })
        log = RedisLog(logger)
        self.logger = logger
        let number = Self.anyNumber()
        hub = HubID(number)
        logger.info("other hubs know this one by its number", metadata: ["hub": "\(number)"])
        present = Atomic(number)
        poked = Locked((Array(repeating: false, count: 2 * settings.buckets), nil))
        awaited = Locked(([], Set(0..<settings.buckets)))
    }

    /// Not 0, and exact as a number of JSON and Lua.
    private static func anyNumber() -> UInt64 { UInt64.random(in: 1..<1 << 53) }

    /// These apps are served from now on. Any thread.
    package func serve(_ apps: [App]) {
        let digest = AppsDigest.of(apps)
        served.withLock { $0 = (apps, digest) }
        servedVersion.add(1, ordering: .releasing)
    }

    /// Opens the way of one of `loops` loops; called on its thread.
    ///
    /// - Parameters:
    ///   - receive: takes what is told, in its order; any thread.
    ///   - take: the same, for what is told while the loop is in no request; nil: `receive` takes that too.
    package func link(
        loop: Int, of loops: Int = 1, on eventLoop: EventLoop,
        _ receive: @escaping @Sendable (SharedArrival) -> Void, _ take: ((SharedArrival) -> Void)? = nil
    ) throws(ReactorError) -> RedisLink {
        awaited.withLock { _ = $0.loops.insert(loop) }
        let link: RedisLink
        do {
            link = try RedisLink(self, loop: loop, of: loops, on: eventLoop, receive, take ?? receive)
        } catch let error as ReactorError {
            throw error
        } catch {
            // The files of TLS cannot be read.
            throw ReactorError("TLS", EIO)
        }
        if loop == 0 {
            let mailbox = Mailbox<Errand>(eventLoop.handle)
            eventLoop.attach(mailbox) { [weak self, weak link] errand in
                switch errand {
                case .look(let place):
                    self?.poked.withLock { $0.places[place] = false }
                    link?.poked(place)
                case .perform(let work): work(link)
                }
            }
            poked.withLock { $0.mailbox = mailbox }
        }
        return link
    }

    /// Whether Redis has been reached by all loops, and takes publishes. Once true it stays true. Any thread.
    package var hasBegun: Bool { awaited.withLock { $0.loops.isEmpty && $0.buckets.isEmpty } }

    /// The hubs that share it, and the number of this one. Blocks the thread (`HubGroup.ask`).
    package func group() throws -> (group: HubGroup, own: String) {
        (try HubGroup.ask(settings), "\(presentHub.number)")
    }

    // MARK: For links

    /// Which apps are served (`AppsDigest`).
    var apps: String { served.withLock(\.digest) }

    /// What operators are told of this hub.
    var about: String { AppsDigest.add(apps, to: settings.about) }

    /// The loop has had a connection.
    func isUp(_ loop: Int) { awaited.withLock { _ = $0.loops.remove(loop) } }

    /// Hubs have said what they hold of the bucket.
    func hasSettled(_ bucket: Int) { awaited.withLock { _ = $0.buckets.remove(bucket) } }

    /// Raised when the first loop may have missed what was told of users.
    var usersMissed: Int { missed.load(ordering: .acquiring) }

    /// The first loop may have missed something.
    func missedUsers() { missed.add(1, ordering: .acquiringAndReleasing) }

    /// Whether no loop has beaten for the hub for a while.
    func isSilent(at now: Instant) -> Bool { now.nanoseconds > beatenAt.load(ordering: .relaxed) + 1_500_000_000 }

    /// A server has taken a beat.
    func isBeaten(_ replica: [UInt8]) { beatenServer.withLock { $0 = replica } }

    /// A server has refused this. Returns whether sentinels may know another master by now.
    func isRefused(_ error: RESPError) -> Bool {
        log.isRefused(error)
        return isFoundBySentinels && error.code == "NOREPLICAS"
    }

    /// Whether sentinels may know another master by now than this server: another one takes the hub's beats.
    func mayHaveReplaced(_ replica: [UInt8]) -> Bool {
        isFoundBySentinels && beatenServer.withLock { !$0.isEmpty && $0 != replica }
    }

    private var isFoundBySentinels: Bool { if case .sentinels = settings.redis.url.way { true } else { false } }

    /// A loop has beaten for the hub.
    func beats(at now: Instant) { beatenAt.store(now.nanoseconds, ordering: .relaxed) }

    /// The run as Redis knows it.
    var presentHub: HubID { HubID(present.load(ordering: .acquiring)) }

    /// That run was taken for dead: the hub goes on as another.
    func renew(_ dead: HubID) {
        let number = Self.anyNumber()
        guard
            present.compareExchange(expected: dead.number, desired: number, ordering: .acquiringAndReleasing).exchanged
        else { return }
        logger.warning(
            "other hubs took this one for dead: it was silent for too long; it goes on under another number",
            metadata: ["was": "\(dead.number)", "hub": "\(number)"])
    }

    /// A call of another loop may have begun something in the bucket: the first loop looks soon.
    ///
    /// - Parameter place: of the bucket's channels, or of its users (`Heart`).
    func poke(_ place: Int) {
        let mailbox = poked.withLock { poked -> Mailbox<Errand>? in
            guard let mailbox = poked.mailbox, !poked.places[place] else { return nil }
            poked.places[place] = true
            return mailbox
        }
        mailbox?.post(.look(place))
    }

    /// Says in the log that so many were dropped.
    func dropped(unserved webhooks: Int) {
        logger.warning("webhooks are dropped: no hub serves their app", metadata: ["events": "\(webhooks)"])
    }

    /// Does it on the first loop's thread, with its link; nil: it is gone. Any thread.
    func perform(_ work: @escaping @Sendable (RedisLink?) -> Void) {
        guard let mailbox = poked.withLock(\.mailbox) else { return work(nil) }
        mailbox.post(.perform(work))
    }

    /// What the first loop's link does for others.
    private enum Errand: Sendable {
        case look(Int)
        case perform(@Sendable (RedisLink?) -> Void)
    }

    /// The apps, if they are not those of that version any more.
    func apps(unless version: inout Int) -> [App]? {
        let current = servedVersion.load(ordering: .acquiring)
        guard current != version else { return nil }
        version = current
        return served.withLock(\.apps)
    }
}
