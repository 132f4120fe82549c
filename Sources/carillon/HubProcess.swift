import API
import CLinux
import Clock
import Console
import Courier
import Feed
import FoundationEssentials
import Gateway
import Glibc
import HTTP
import HubEngine
import Identity
import Jobs
import Logging
import Metrics
import Operations
import Outbox
import Postgres
import Pusher
import Reactor
import Shared
import Store

/// The running hub, for the commands `serve` and `dev`.
enum HubProcess {
    /// Serves clients until `stop` is set, then shuts down and returns. Blocks the calling thread, the main thread.
    ///
    /// - Parameters:
    ///   - stop: set when the hub must end; its descriptor may be polled beside others.
    ///   - hangUp: re-reads the certificates and the apps.
    ///   - given: sockets of systemd or of the hub before this one.
    ///   - reloading: the settings and their sources; nil when SIGHUP does not re-read apps.
    ///   - demonstration: of `carillon dev`.
    ///   - console: the page for operators; nil for none.
    ///   - onListening: called once, when clients may connect.
    ///   - onReady: called once, when `/readyz` is 200: with a database, after the first catch-up. Not if it ends first.
    /// - Throws: a `Failure` of one clear line when the hub cannot start, such as for a port in use, or when it takes over
    ///   and is not ready in time.
    static func run(
        settings: Settings, logger: Logger, stop: Latch, hangUp: HangUp, given: GivenSockets = .none,
        reloading: (effective: EffectiveSettings, sources: SettingsSources)? = nil,
        demonstration: DemonstrationRoutes? = nil, console: Console? = nil,
        onListening: (HubAddresses) throws -> Void = { _ in }, onReady: (HubAddresses) throws -> Void
    ) throws {
        cl_map_large_blocks()
        let health = Health()
        let metrics = HubMetrics(
            hasDatabase: settings.database.url != nil, hasRedis: settings.group.url != nil)
        let listeners = try HubListeners(settings, given, logger)
        let operations = listeners.operations?.port
        // Of use only where there is a page to show it on.
        let console = listeners.operations == nil ? nil : console
        let pages = OperationsPagesSwitch { [listeners] in
            try OperationsServer(listeners.operations, health, metrics, console)
        }
        // Until this hub is ready, the hub before it shows its own.
        if given.predecessor == nil { try pages.shows(true) }
        // Stopped last, so that a hub which takes long to end still looks alive.
        defer { pages.close() }
        let tls = try settings.tls.server()
        let courier = try startCourier(settings, metrics.courier, logger)
        var endsSince: Instant?
        // Stopped after the gateway, whose last events it sends.
        defer { courier.stop(within: timeForWebhooks(since: endsSince, now: .read())) }
        for warning in settings.warnings { logger.warning("\(warning)") }
        for notice in settings.notices { logger.notice("\(notice)") }
        // The hub before this one serves on, and its clients notice nothing of this one.
        if given.predecessor != nil { ConnectPace.process.set(connectPause) }
        let address = listeners.clients.first?.endpoint
        let shared = try SharedSettings(settings, at: address).map { [metrics = metrics.redis] in
            SharedRedis($0, metrics: metrics, logger)
        }
        let gateway = try start(
            settings, listeners.clients, acceptsAtOnce: given.predecessor == nil, tls, shared, courier, metrics,
            demonstration, keepsTraces: console != nil, logger)
        console?.serves(gateway)
        if let shared { console?.shares { try shared.group() } }
        defer {
            // The accepting loop closes them first.
            listeners.release()
            gateway.stop(hasSuccessor: listeners.outliveUs)
        }
        let pushes = try Pushes.start(settings, metrics, logger)
        defer { pushes?.stop() }
        let jobs = try startJobs(settings, metrics, pushes, logger)
        defer { jobs?.stop() }
        metrics.threads.withLock {
            $0 =
                gateway.handles + (jobs.map { [("jobs", $0.handle)] } ?? [])
                + (pushes.map { [("outbox", $0.outbox.handle)] } ?? [])
        }
        health.serves(
            on: gateway.clientLoops,
            awaited: {
                if !gateway.hasCaughtUp { return "waiting for the database\n" }
                return shared?.hasBegun == false ? "waiting for Redis\n" : nil
            },
            // Devices are told, and keep their actions.
            warning: { [postgres = metrics.postgres] in postgres.writeRefusal()?.message })
        let certificates = tls.map { Certificates(server: $0, metrics: metrics.gateway.tls, logger: logger) }
        certificates?.warn()
        let apps = reloading.map { effective, sources in
            AppReload(
                effective, settings, from: sources, gateway: gateway, courier: courier, pushes: pushes,
                counts: metrics.reloads, logger: logger)
        }
        if certificates != nil || apps != nil {
            hangUp.does {
                certificates?.reload()
                apps?.reload()
            }
        }
        let addresses = HubAddresses(
            clients: zip(gateway.endpoints, settings.listen).map { ($0, $1.usesTLS) },
            operations: settings.operations.flatMap { address in
                operations.map { ListenAddress(host: address.host, port: $0) }
            })
        let control = try HubControl(
            ControlledHub(
                gateway: gateway, health: health, listeners: listeners, pages: pages, drain: settings.drain,
                logger: logger),
            predecessor: given.predecessor, stop: stop)
        defer { control.stop() }
        try onListening(addresses)
        var limits = LimitLog(metrics.gateway, logger)
        var refusals = RefusalLog(metrics.authFailures, logger)
        let start = Instant.read()
        while let obstacle = health.obstacle(), !control.ended.wait(timeout: .milliseconds(50)) {
            limits.look()
            // The hub before this one is there, and goes on.
            if control.awaitsUs, Instant.read().duration(since: start) > Predecessor.patience {
                throw Failure(
                    "this hub was not ready within \(Form.brief(Predecessor.patience)), and took nothing over: \("\(obstacle)".trimmed)"
                )
            }
        }
        ConnectPace.process.set(.zero)
        if !control.ended.isSet {
            control.ready()
            try onReady(addresses)
        }
        while !control.ended.wait(timeout: LimitLog.interval) {
            limits.look()
            refusals.look()
        }
        // A second signal ends the process.
        health.drains()
        limits.tell()
        endsSince = .read()
        logger.info("stopping", metadata: ["connections": "\(gateway.connectionCount)"])
    }

    /// Between two connections to the database of a hub that takes over: about what PostgreSQL needs to begin one.
    private static let connectPause = Duration.milliseconds(10)

    /// How long to send waiting webhooks at the end: at least 2 s, or what clients leave of 8 s (containers are killed after
    /// 10).
    static func timeForWebhooks(since start: Instant?, now: Instant) -> Duration {
        guard let start else { return .seconds(2) }
        return max(.seconds(2), .seconds(8) - now.duration(since: start))
    }

    private static func startCourier(
        _ settings: Settings, _ metrics: CourierMetrics, _ logger: Logger
    ) throws(Failure) -> Courier {
        try settings.webhooks.checkFile()
        do throws(CourierError) {
            return try Courier(
                settings.webhooks, apps: settings.apps.map(WebhookApp.init), metrics: metrics,
                logger: logger)
        } catch {
            throw Failure("webhooks: \(error)")
        }
    }

    private static func startJobs(
        _ settings: Settings, _ metrics: HubMetrics, _ pushes: Pushes?, _ logger: Logger
    ) throws(Failure) -> Jobs? {
        guard let url = settings.database.url else { return nil }
        do {
            return try Jobs.start(
                JobsConfiguration(settings, url), logger: logger, metrics: metrics.jobs, postgres: metrics.postgres
            ) { job in
                // What has just become due leaves at once.
                if job.name == Pushes.firingJob { pushes?.look() }
            }
        } catch {
            throw Failure("\(error)")
        }
    }

    /// Warn below this number of possible connections: so few are probably a mistake.
    private static let roomWarnedOf = 1_000

    private static func start(
        _ settings: Settings, _ sockets: [ListeningSocket], acceptsAtOnce: Bool, _ tls: TLSServer?,
        _ shared: SharedRedis?, _ courier: Courier, _ metrics: HubMetrics, _ demonstration: DemonstrationRoutes?,
        keepsTraces: Bool, _ logger: Logger
    ) throws -> Gateway {
        var configuration = GatewayConfiguration(settings)
        configuration.keepsTraces = keepsTraces
        configuration.tls = tls
        configuration.sharedLink = shared
        // Clients must never take the descriptors that database connections need to reconnect.
        let descriptors = DescriptorLimit.raise(besidePushes: settings.push.webhookRequests)
        let room = max(1, descriptors - configuration.admission.refusalsMax)
        if room < configuration.admission.connectionsMax {
            logger.log(
                level: room < Self.roomWarnedOf ? .warning : .notice,
                "fewer descriptors than limits.connections: raise LimitNOFILE (ulimit -n) to use them all",
                metadata: [
                    "connections": "\(room)", "limits.connections": "\(settings.gateway.admission.connectionsMax)",
                ])
            configuration.admission.connectionsMax = room
        }
        let files = try SQLFileSet.embedded()
        do {
            let verifier = try tokenVerifier(settings.jwt, logger, failures: metrics.authFailures)
            let users = configuration.apps.first { $0.ownsDatabase }
                .map { HubRoutes.OfUsers(app: $0, verifier: verifier) }
            return try Gateway(
                configuration, sockets: sockets, acceptsAtOnce: acceptsAtOnce, verifier: verifier,
                routes: HubRoutes(
                    pusher: PusherRoutes(settings.api, metrics: metrics.api, shared: shared), users: users,
                    origins: configuration.origins, demonstration: demonstration),
                webhooks: courier, metrics: metrics.gateway,
                startFeed: settings.database.url.map { url in
                    { sink in
                        try Feed.start(
                            FeedConfiguration(settings, url, files), sink: sink, logger: logger,
                            metrics: metrics.feed, postgres: metrics.postgres)
                    }
                },
                startStore: settings.database.url.map { url in
                    { committed in
                        var configuration = StoreConfiguration(settings, url)
                        configuration.routes = RouteTable.product.connections
                        #if DEBUG
                        configuration.failpoints = try failpoints(ProcessInfo.processInfo.environment)
                        #endif
                        return try Store.start(
                            configuration, logger: logger, metrics: metrics.store, postgres: metrics.postgres,
                            committed: committed)
                    }
                })
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure("\(error)")
        }
    }

    #if DEBUG
    /// The failpoints in the environment, for crash tests; nil when there are none.
    ///
    /// - Throws: a configuration `Failure`.
    static func failpoints(_ environment: [String: String]) throws(Failure) -> Failpoints? {
        guard let text = environment[SettingsSources.failpointEnvironment] else { return nil }
        guard let failpoints = Failpoints(text) else {
            let moments = Failpoint.allCases.map(\.rawValue).joined(separator: ", ")
            throw Failure(
                "environment \(SettingsSources.failpointEnvironment): \"\(text)\" is not FAILPOINT:NUMBER, with a failpoint of \(moments)",
                status: .configuration)
        }
        return failpoints
    }
    #endif

    /// Reads the keys, on the commands' main thread (`atOnce`).
    ///
    /// - Parameter failures: counts refused tokens.
    /// - Throws: a configuration `Failure` when the key set's file is missing or has no keys.
    static func tokenVerifier(
        _ policy: TokenPolicy, _ logger: Logger, failures: CounterTable? = nil
    ) throws -> TokenVerifier {
        do {
            return try atOnce { try await TokenVerifier(policy: policy, logger: logger, failures: failures) }
        } catch let error as TokenPolicyError {
            throw Failure("jwt.keysFile: \(error)", status: .configuration)
        }
    }
}

/// The addresses of a running hub, with the actual ports where 0 was given.
struct HubAddresses {
    /// In the order of the setting; never empty.
    let clients: [(endpoint: ListenEndpoint, usesTLS: Bool)]
    /// Nil when the operations listener is off.
    let operations: ListenAddress?

    /// The plain TCP address for local clients; nil when there is none.
    var reachable: ListenAddress? { first(usesTLS: false) }

    /// The TLS address for local clients; nil when there is none.
    var secured: ListenAddress? { first(usesTLS: true) }

    private func first(usesTLS: Bool) -> ListenAddress? {
        for case (.tcp(let host, let port, _), usesTLS) in clients {
            return ListenAddress(host: host, port: port).reachable
        }
        return nil
    }
}

/// The hub's metrics, created before its parts.
final class HubMetrics: MetricSource {
    static let authFailureReasons =
        TokenRejection.allCases.map(\.rawValue) + EngineMetrics.authFailureReasons.filter { $0 != "revoked" }
    let authFailures = CounterTable("reason", HubMetrics.authFailureReasons)
    let gateway: GatewayMetrics
    let api = APIMetrics()
    let feed = FeedMetrics()
    let store = StoreMetrics(snapshots: RouteTable.product.snapshots)
    let jobs = JobsMetrics()
    let postgres = PostgresMetrics()
    let courier = CourierMetrics()
    let pushes = PushMetrics()
    let outbox = OutboxMetrics()
    let redis = SharedRedisMetrics()
    let reloads = CounterTable("result", AppReload.results)
    /// The hub's threads, once they run.
    let threads = Locked<[(name: String, handle: LoopHandle)]>([])
    private let hasDatabase: Bool
    private let hasRedis: Bool

    /// Without a database or Redis, its metrics are left out, or alerts would report it as lost.
    init(hasDatabase: Bool, hasRedis: Bool) {
        self.hasDatabase = hasDatabase
        self.hasRedis = hasRedis
        gateway = GatewayMetrics(engine: EngineMetrics(authFailures: authFailures))
    }

    func append(to exposition: inout Exposition) {
        exposition.counter("auth_failures_total", "Tokens and signatures refused, by the reason.", authFailures)
        exposition.counter("app_reloads_total", "Times that the apps were read again.", reloads)
    }

    /// In display order.
    var sources: [any MetricSource] {
        let process = ProcessMetrics(version: Carillon.version, threads: { self.threads.withLock { $0 } })
        return [gateway, self, api, courier] + (hasDatabase ? [pushes, outbox, feed, store, jobs, postgres] : [])
            + (hasRedis ? [redis] : []) + [process]
    }
}

extension OperationsServer {
    /// On that socket; nil where there is none.
    fileprivate convenience init?(
        _ socket: ListeningSocket?, _ health: Health, _ metrics: HubMetrics, _ console: Console?
    ) throws {
        guard let socket else { return nil }
        do {
            try self.init(on: socket, health: health, sources: metrics.sources, routes: console)
        } catch {
            throw Failure("\(error)")
        }
    }
}
