import Clock
import Feed
import HubEngine
import Identity
import Logging
import Metrics
import Reactor
import Store
import Sync
import Synchronization

// Gateway: connections. Joins sockets to sessions, on N loops; the only target that knows both the reactor and the engine.
// Lifecycle: `start` binds the ports and starts feed, store and loops; `stop` closes every connection with 1001 and joins
// the threads. Invariants: a loop owns its connections; only `LoopMessage`s pass between loops; all that concerns one stream
// passes through the loop that owns it.
//
// Locks: a mailbox's, once to post and once to take everything out, for what crosses threads (an event once for each other
// loop with subscribers, and answers of feed, store and verifier). Admission's, as a connection comes or goes. TLS's, for
// certificates and ticket keys, at a handshake. The topic counters', at a channel's first event on a loop. The courier's,
// for a webhook. The limit notes', where a client is stopped. No other on a loop: no message of a client and no delivery to
// a subscriber takes one (`MessagePathTests` counts them).

/// What all loops of a hub share: immutable, or safe from any thread.
final class HubContext: Sendable {
    let configuration: GatewayConfiguration
    let mailboxes: [Mailbox<LoopMessage>]
    let admission: AdmissionControl
    /// The apps that every loop begins with.
    let firstApps: AppTable
    /// The feed's outputs that loops have still to handle: the feed waits while they are many.
    var backlog: EventBacklog { metrics.backlog }
    let metrics: GatewayMetrics
    let verifier: TokenVerifier
    let routes: any HTTPRoutes
    private let feed: Feed?
    /// Where actions go; nil without a database.
    let store: Store?
    /// Nil where no app has a webhook.
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
        admission = AdmissionControl(
            loops: mailboxes.count, limits: configuration.admission, trusted: configuration.trustedPeers)
    }

    /// Whether there is a feed, which reports revocations.
    var hasFeed: Bool { feed != nil }

    func requestFeed(_ request: FeedRequest) {
        feed?.requests.post(request)
    }
}

/// The hub's listeners, loops and connections while it runs.
package final class Gateway: Sendable {
    /// Where clients connect, with the ports bound, in the order of the configuration.
    package let endpoints: [ListenEndpoint]
    private let threads: [LoopThread]
    let context: HubContext
    /// The apps that the loops are told of.
    private let served: Locked<AppTable>
    private let readiness: HubReadiness
    private let feed: Feed?
    private let store: Store?

    /// Binds the ports and starts the loops, and the feed if there is one.
    ///
    /// - Parameters:
    ///   - sockets: where it listens, in the order of the configuration's listeners; nil: it binds them.
    ///   - acceptsAtOnce: false until `accepts` says otherwise: somebody else accepts from these sockets.
    ///   - webhooks: takes the events that apps' backends are told of.
    ///   - startFeed: starts the feed, whose outputs go to the sink given; nil without a database.
    ///   - startStore: starts the store, which calls its argument after commits; nil where no actions are taken.
    /// - Throws: `ListenError`, `ReactorError` or `AppTableError`: a sentence for the operator.
    package init(
        _ configuration: GatewayConfiguration, sockets: [ListeningSocket]? = nil, acceptsAtOnce: Bool = true,
        verifier: TokenVerifier, routes: any HTTPRoutes, webhooks: (any WebhookSink)? = nil,
        metrics: GatewayMetrics = GatewayMetrics(),
        startFeed: ((FeedSink) throws -> Feed)?, startStore: ((@escaping @Sendable () -> Void) throws -> Store)?
    ) throws {
        let apps = try AppTable(configuration.apps)
        served = Locked(apps)
        metrics.serves(apps)
        configuration.sharedLink?.serve(apps.apps)
        precondition((1...LoopSet.loopsMax).contains(configuration.loops), "1 to 64 loops")
        if let tls = configuration.tls { metrics.tls.serves(tls) }
        let sockets = try sockets ?? configuration.listen()
        endpoints = sockets.map(\.endpoint)
        // Taken out by the accepting loop: a thread keeps its body's captures until it ends; the sockets must close before.
        let waiting = Locked(sockets)
        let handles = try (0..<configuration.loops).map { _ in try LoopHandle(isLent: configuration.loops > 1) }
        let mailboxes = handles.map { Mailbox<LoopMessage>($0) }
        let readiness = HubReadiness(isDone: startFeed == nil)
        // Until the feed has read all revocations.
        if startFeed != nil { verifier.revocations.setCurrent(false) }
        let feed = try startFeed?(
            Self.sink(
                to: mailboxes, verifier.revocations, metrics.backlog, readiness,
                keepsTraces: configuration.keepsTraces))
        self.readiness = readiness
        // What the hub's own actions commit is read at once, without waiting for a notification.
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
                        // A fresh epoll set takes a few more descriptors. If it does not, the hub accepts nobody, and ends.
                        let sockets = waiting.withLock { exchange(&$0, with: []) }
                        for (socket, listener) in zip(sockets, configuration.listeners) {
                            try clients.listen(on: socket, usesTLS: listener.usesTLS)
                        }
                        clients.intake.accepts(acceptsAtOnce)
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

    /// The port of the first listener that has one; 0 where none has.
    package var port: UInt16 {
        for case .tcp(_, let port, _) in endpoints { return port }
        return 0
    }
    /// Open connections.
    package var connectionCount: Int { context.admission.total }
    /// The loops that serve clients.
    package var clientLoops: [LoopHandle] { threads.map(\.handle) }
    /// All threads, by name.
    package var handles: [(name: String, handle: LoopHandle)] {
        var all = clientLoops.enumerated().map { (name: "\($0)", handle: $1) }
        if let feed { all.append(("feed", feed.handle)) }
        if let store { all.append(("store", store.handle)) }
        return all
    }
    /// Whether the hub has, once, read everything that was committed before it started and listened for notifications,
    /// whatever the database does later. True without a database.
    package var hasCaughtUp: Bool { readiness.hasCaughtUp() }

    /// The apps that are served.
    package var apps: AppTable { served.withLock { $0 } }

    /// Replaces the served apps. Connections of an app that remains stay, and get its new value. Those of an app that is
    /// gone are closed with 4001, those of a disabled one with 4003. Any thread.
    ///
    /// - Parameter apps: each with the index that `AppTable.indices(of:)` gives it.
    /// - Throws: why they cannot replace the served ones; nothing has changed then.
    package func replaceApps(_ apps: [App]) throws(AppTableError) {
        let result = served.withLock { served in
            Result { () throws(AppTableError) in
                served = try served.replaced(by: apps)
                // Under the lock, so that the later of two tables counts.
                context.metrics.serves(served)
                for mailbox in context.mailboxes { mailbox.post(.serve(served)) }
                // Behind the loops: what the link brings of a new app, they can read.
                context.configuration.sharedLink?.serve(served.apps)
            }
        }
        try result.get()
    }

    /// Whether connections are accepted. Those that come meanwhile wait in the kernel's queue.
    ///
    /// - Parameter done: called on a loop's thread when it is so. What is posted to the loops after that follows every
    ///   connection that was accepted before.
    package func accepts(_ accepts: Bool, _ done: @escaping @Sendable () -> Void = {}) {
        context.mailboxes[0].post(
            .ask {
                $0.intake.accepts(accepts)
                done()
            })
    }

    /// Counts those who have connected and await an answer; `told` gets the count, on a loop's thread.
    package func countVisitors(_ told: @escaping @Sendable (UnansweredConnections) -> Void) {
        let sum = Locked((visitors: UnansweredConnections(), loops: 0))
        let loops = context.mailboxes.count
        for mailbox in context.mailboxes {
            mailbox.post(
                .ask { loop in
                    let own = loop.drainage.visitors
                    let all: UnansweredConnections? = sum.withLock {
                        $0.visitors.silent += own.silent
                        $0.visitors.begun += own.begun
                        $0.loops += 1
                        return $0.loops == loops ? $0.visitors : nil
                    }
                    if let all { told(all) }
                })
        }
    }

    /// Closes connections in random order, each when its actions are answered. Nil takes that back for the others.
    package func drain(_ order: DrainOrder?) {
        context.metrics.drains.underWay.set(order == nil ? 0 : 1)
        for mailbox in context.mailboxes { mailbox.post(.drain(order)) }
    }

    /// Closes every connection, and ends the loops, the store and the feed. Returns when all threads have ended: at once, or
    /// after the time for actions to be answered and for peers to answer a close frame.
    ///
    /// - Parameter hasSuccessor: clients may come back at once (4200), because somebody holds the sockets; else 1001.
    package func stop(hasSuccessor: Bool = false) {
        context.mailboxes[0].post(.shutdown(hasSuccessor: hasSuccessor))
        for thread in threads { thread.join() }
        // After the loops, whose connections await its answers.
        store?.stop()
        feed?.stop()
    }

    /// Hands the feed's outputs to the owners of their streams, those of no stream to all loops: in order, one message each.
    private static func sink(
        to mailboxes: [Mailbox<LoopMessage>], _ revocations: RevocationList, _ backlog: EventBacklog,
        _ readiness: HubReadiness, keepsTraces: Bool
    ) -> FeedSink {
        FeedSink(
            deliver: { outputs in
                for output in outputs {
                    switch output {
                    // Before the loops hear of it: they judge again what was verified before.
                    case .revoked(let revoked): revocations.insert(revoked)
                    case .revocationsCurrent(let isCurrent): revocations.setCurrent(isCurrent)
                    case .status(let status): readiness.changed(to: status)
                    default: break
                    }
                }
                let readAt = keepsTraces ? Instant.read() : .min
                for (mailbox, outputs) in zip(mailboxes, Router.split(outputs, loops: mailboxes.count))
                where !outputs.isEmpty {
                    backlog.add(outputs)
                    mailbox.post(.feed(outputs, readAt: readAt))
                }
            },
            backlog: { backlog.count + backlog.broadcastCount })
    }
}

/// Events and other outputs of the feed that the loops have still to handle. Clients' requests do not count: a client must
/// not be able to hold up the feed for everybody.
final class EventBacklog: Sendable {
    private let outputs = Atomic<Int>(0)
    private let broadcasts = Atomic<Int>(0)

    /// Outputs on their way to streams' owners.
    var count: Int { outputs.load(ordering: .relaxed) }
    /// Events on their way from an owner to another loop, one for each event and loop.
    var broadcastCount: Int { broadcasts.load(ordering: .relaxed) }

    func addBroadcast() { broadcasts.add(1, ordering: .relaxed) }

    func subtractBroadcast() { broadcasts.subtract(1, ordering: .relaxed) }

    func add(_ added: [FeedOutput]) {
        outputs.add(Self.weight(of: added), ordering: .relaxed)
    }

    func subtract(_ done: [FeedOutput]) {
        outputs.subtract(Self.weight(of: done), ordering: .relaxed)
    }

    /// A page counts once for each event in it. Only pages are taken out, because looking at an output copies it.
    private static func weight(of outputs: [FeedOutput]) -> Int {
        var weight = outputs.count
        for case .page(_, let events) in outputs { weight += events.count - 1 }
        return weight
    }
}
