import Channels
import Feed
import Identity
import Logging
import Metrics
import Reactor
import Store
import Sync
import Synchronization

// Gateway: connections. Sockets joined to sessions, on N loops; the only target that knows both the reactor and the
// engine. Lifecycle: `start` binds the ports, starts feed, store and loops; `stop` closes every connection with 1001 and
// joins the threads. Invariants: a loop owns its connections; between loops only `LoopMessage`s pass; all that
// concerns one stream passes through its home loop.
//
// Locks: a mailbox's, once to post and once to take out all that is there, for what crosses threads: an event, once for
// each other loop that has takers, and the answers of feed, store and verifier. The census's, as a connection comes or goes.
// TLS's certificates and ticket keys', at a handshake. The topic counters', at a channel's first event on a loop. The
// courier's, for what a webhook is to tell. The limits' notes', where a client is stopped. None else on a loop: no message of a
// client and no delivery to a subscriber takes one (MessagePathTests counts them).

/// What all loops of a hub share; immutable, or safe from any thread.
final class HubContext: Sendable {
    let configuration: GatewayConfiguration
    let mailboxes: [Mailbox<LoopMessage>]
    let census: ConnectionCensus
    /// The apps that every loop begins with.
    let firstApps: AppTable
    /// The feed's outputs that the loops have before them: the feed waits while they are many.
    var backlog: EventBacklog { metrics.backlog }
    let metrics: GatewayMetrics
    let verifier: TokenVerifier
    let routes: any HTTPRoutes
    /// Nil without a database.
    private let feed: Feed?
    /// Where actions go; nil without a database.
    let store: Store?
    /// Nil where no app's backend wants to be told of anything.
    let webhooks: (any WebhookSink)?

    init(
        _ configuration: GatewayConfiguration, apps: AppTable, mailboxes: [Mailbox<LoopMessage>], feed: Feed?,
        store: Store?, verifier: TokenVerifier, routes: any HTTPRoutes, webhooks: (any WebhookSink)?,
        metrics: GatewayMetrics
    ) {
        self.configuration = configuration
        self.mailboxes = mailboxes
        self.feed = feed
        self.store = store
        self.metrics = metrics
        self.verifier = verifier
        self.webhooks = webhooks
        self.routes = routes
        firstApps = apps
        census = ConnectionCensus(
            loops: mailboxes.count, limits: configuration.limits, trusted: configuration.trustedPeers)
    }

    /// Whether there is a feed, which tells who is revoked.
    var hasFeed: Bool { feed != nil }

    func requestFeed(_ request: FeedRequest) {
        feed?.requests.post(request)
    }
}

/// A running gateway.
package final class Gateway: Sendable {
    /// Where clients connect, with the ports bound, in the order of the configuration.
    package let places: [ListenPlace]
    private let threads: [LoopThread]
    let context: HubContext
    /// As the loops are told of them.
    private let served: Locked<AppTable>
    private let feedWatch: FeedWatch
    private let feed: Feed?
    private let store: Store?

    /// Binds the ports and starts the loops, and the feed where there is one.
    ///
    /// - Parameters:
    ///   - webhooks: what apps' backends are to be told goes there.
    ///   - metrics: counts for whoever asks.
    ///   - startFeed: starts the feed, whose outputs go to the sink given; nil without a database.
    ///   - startStore: starts the store, which calls what it is given after commits; nil where no actions are taken.
    /// - Throws: `ListenError`, `ReactorError` or `AppTableError`: a sentence for the operator.
    package init(
        _ configuration: GatewayConfiguration, verifier: TokenVerifier, routes: any HTTPRoutes,
        webhooks: (any WebhookSink)? = nil, metrics: GatewayMetrics = GatewayMetrics(),
        startFeed: ((FeedSink) throws -> Feed)?, startStore: ((@escaping @Sendable () -> Void) throws -> Store)?
    ) throws {
        let apps = try AppTable(configuration.apps)
        served = Locked(apps)
        metrics.serves(apps)
        precondition((1...LoopSet.loopsMax).contains(configuration.loops), "1 to 64 loops")
        if let tls = configuration.tls { metrics.tls.serves(tls) }
        let sockets = try configuration.listeners.map {
            try ListeningSocket($0.place, unacked: configuration.timeouts.unacked)
        }
        places = sockets.map(\.place)
        // For the accepting loop to take out: a thread keeps what its body has caught until it ends, and the sockets should
        // close before.
        let waiting = Locked(sockets)
        let handles = try (0..<configuration.loops).map { _ in try LoopHandle(isLent: configuration.loops > 1) }
        let mailboxes = handles.map { Mailbox<LoopMessage>($0) }
        let feedWatch = FeedWatch(isDone: startFeed == nil)
        // Until the feed has read them all.
        if startFeed != nil { verifier.revocations.setCurrent(false) }
        let feed = try startFeed?(Self.sink(to: mailboxes, verifier.revocations, metrics.backlog, feedWatch))
        self.feedWatch = feedWatch
        // What the hub's own actions commit is read at once, not when a notification comes.
        do {
            store = try startStore?({ feed?.requests.post(.wake) })
        } catch {
            feed?.stop()
            throw error
        }
        self.feed = feed
        let context = HubContext(
            configuration, apps: apps, mailboxes: mailboxes, feed: feed, store: store, verifier: verifier,
            routes: routes, webhooks: webhooks, metrics: metrics)
        self.context = context
        var threads: [LoopThread] = []
        do {
            for (number, handle) in handles.enumerated() {
                let thread = try LoopThread(
                    name: "loop-\(number)", handle: handle,
                    filling: { loop throws(ReactorError) in
                        let clients = try ClientLoop(number, on: loop, context)
                        guard number == 0 else { return clients }
                        // A fresh epoll set takes some more descriptors; where it does not, the hub hears nobody, and ends.
                        let sockets = waiting.withLock { exchange(&$0, with: []) }
                        for (socket, listener) in zip(sockets, configuration.listeners) {
                            try clients.listen(on: socket, usesTLS: listener.usesTLS)
                        }
                        return clients
                    })
                threads.append(thread)
            }
        } catch {
            for thread in threads { thread.stopAndJoin() }
            store?.stop()
            feed?.stop()
            throw error
        }
        self.threads = threads
    }

    /// The port of the first of them that has one, else 0.
    package var port: UInt16 {
        for case .tcp(_, let port, _) in places { return port }
        return 0
    }
    /// Connections at present.
    package var connectionCount: Int { context.census.total }
    /// The loops that serve clients.
    package var clientLoops: [LoopHandle] { threads.map(\.handle) }
    /// All threads, by name.
    package var handles: [(name: String, handle: LoopHandle)] {
        var all = clientLoops.enumerated().map { (name: "\($0)", handle: $1) }
        if let feed { all.append(("feed", feed.handle)) }
        if let store { all.append(("store", store.handle)) }
        return all
    }
    /// Whether all that was committed before the hub came has been read, and notifications are listened for: at the
    /// first time, whatever the database does later. True without a database.
    package var hasCaughtUp: Bool { feedWatch.hasCaughtUp() }

    /// How often a connection was too slow for one of its streams, which was fed by pages from there on.
    package var pullModeEntryCount: Int { Int(clamping: context.metrics.pullModeEntries.count) }

    /// The apps that are served.
    package var apps: AppTable { served.withLock { $0 } }

    /// Serves these apps from here on, in place of those before. Connections of an app that is among them stay, and are
    /// of its new value; those of one that is not are closed with 4001, those of one that is disabled with 4003. Any thread.
    ///
    /// - Parameter apps: each with the index that `AppTable.indices(of:)` gives it.
    /// - Throws: where these cannot take the place of those; nothing has changed then.
    package func replaceApps(_ apps: [App]) throws(AppTableError) {
        let result = served.withLock { served in
            Result { () throws(AppTableError) in
                served = try served.replaced(by: apps)
                // Under the lock: of two tables the later one counts.
                context.metrics.serves(served)
                return served
            }
        }
        // Whoever replaces them at the same time may be overtaken here: a loop keeps the later table.
        let served = try result.get()
        for mailbox in context.mailboxes { mailbox.post(.serve(served)) }
    }

    /// Closes every connection with 1001, and ends the loops, the store and the feed. Returns when all threads have ended:
    /// at once, or after the time that actions have to be answered, and peers to answer a close frame.
    package func stop() {
        context.mailboxes[0].post(.shutdown)
        for thread in threads { thread.join() }
        // After the loops, whose connections await its answers.
        store?.stop()
        feed?.stop()
    }

    /// Hands the feed's outputs to the homes of their streams, and what is of no stream to every loop, in their order:
    /// one message a loop.
    private static func sink(
        to mailboxes: [Mailbox<LoopMessage>], _ revocations: RevocationList, _ backlog: EventBacklog, _ watch: FeedWatch
    ) -> FeedSink {
        FeedSink(
            deliver: { outputs in
                for output in outputs {
                    switch output {
                    // Before the loops hear of it, which judge once more what was verified before.
                    case .revoked(let revoked): revocations.insert(revoked)
                    case .revocationsCurrent(let isCurrent): revocations.setCurrent(isCurrent)
                    case .status(let status): watch.changed(to: status)
                    default: break
                    }
                }
                for (mailbox, outputs) in zip(mailboxes, Router.split(outputs, loops: mailboxes.count))
                where !outputs.isEmpty {
                    backlog.add(outputs)
                    mailbox.post(.feed(outputs))
                }
            },
            backlog: { backlog.count + backlog.broadcastCount })
    }
}

/// How many events and other outputs of the feed the loops have still to look at. What clients ask for is none of it:
/// they must not be able to hold up the feed for everybody.
final class EventBacklog: Sendable {
    private let outputs = Atomic<Int>(0)
    private let broadcasts = Atomic<Int>(0)

    /// Of the streams' homes.
    var count: Int { outputs.load(ordering: .relaxed) }
    /// On their way from a home to another loop, one for each event and loop.
    var broadcastCount: Int { broadcasts.load(ordering: .relaxed) }

    func addBroadcast() { broadcasts.add(1, ordering: .relaxed) }

    func subtractBroadcast() { broadcasts.subtract(1, ordering: .relaxed) }

    func add(_ added: [FeedOutput]) {
        outputs.add(Self.weight(of: added), ordering: .relaxed)
    }

    func subtract(_ done: [FeedOutput]) {
        outputs.subtract(Self.weight(of: done), ordering: .relaxed)
    }

    /// A page counts as much as the events in it. Pages alone are taken out: to look at an output is to copy it.
    private static func weight(of outputs: [FeedOutput]) -> Int {
        var weight = outputs.count
        for case .page(_, let events) in outputs { weight += events.count - 1 }
        return weight
    }
}
