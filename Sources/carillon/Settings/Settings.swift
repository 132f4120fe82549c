import API
import Clock
import Console
import Courier
import Feed
import FoundationEssentials
import Gateway
import HubEngine
import Identity
import Jobs
import Reactor
import Store

/// All settings of the hub as plain values. `SettingsTable` documents each; the initial values are the defaults.
struct Settings: Sendable {
    /// Where clients connect; never empty.
    var listen = [ListenSetting.address(ListenAddress(host: "127.0.0.1", port: 6001))]
    /// Permissions of the unix-domain sockets in `listen`, and the path of the one for a successor and for `carillon drain`;
    /// nil for none.
    var unixSockets = (mode: 0o660 as UInt32, control: nil as String?)
    /// Never empty once checked.
    var apps: [ApplicationSettings] = []
    /// Connection string of the hub's role; nil makes it a plain Pusher server. And the id of the application that the
    /// database's users belong to; set whenever there is a database.
    var database = (url: nil as String?, app: nil as String?)
    var tls = TLSSettings()
    var jwt = TokenPolicy()
    /// The gateway's settings, except those above. 0 loops until it is derived: one for each core.
    var gateway = GatewayConfiguration()
    /// For one user; half as many for one device. 0: no bound.
    var actionsPerSecond = 100
    var webhooks = CourierConfiguration()
    var push = PushSettings()
    /// Settings of Pusher's HTTP API that all apps share.
    var api = PusherRoutes.Settings()
    /// Settings of store, jobs and feed, without the database's address and this program's schema version.
    var store = StoreConfiguration(connectionString: "")
    var jobs = JobsConfiguration(connectionString: "")
    var feed = FeedConfiguration(connectionString: "")
    /// How hubs share ordinary channels.
    var group = HubGroupSettings()
    /// Address of `/livez`, `/readyz` and `/metrics`; nil for none.
    var operations: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 9601)
    /// Who may use the console at `/console` there, and for what; without a credential only `carillon dev` has one.
    var console = Console.Rules(credential: nil, showsPayloads: false)
    /// From SIGTERM to the end of the first connection; connections closed each second from then on; the time for all.
    var drain = (pause: Duration.zero, perSecond: 1_000, deadline: Duration.seconds(20))
    var log = (level: LogLevelName.info, format: LogFormat.auto)
    /// Settings that are accepted but may surprise.
    private(set) var warnings: [String] = []

    init() {
        gateway.loops = 0
        webhooks.userAgent = "Carillon/\(Carillon.version)"
        // A proxy on this machine speaks for many clients.
        gateway.admission.exemptsLoopback = true
    }
}

// MARK: Checks across settings

extension Settings {
    /// Takes the values and checks combinations of settings.
    ///
    /// - Throws: a failure that names the settings at fault.
    init(_ effective: EffectiveSettings) throws(Failure) {
        self = effective.values
        try checkApps(effective)
        try checkBodies()
        derive()
        try checkListeners(effective)
        try tls.check(effective, listen)
        try checkConsole(effective)
        try group.check(effective)
        try push.check(effective, hasDatabase: database.url != nil || effective.profile == .development)
        warnings = effective.warnings + apps.flatMap { $0.warnings(webhooks) } + raisedBounds(effective)
        if database.app != nil, database.url == nil, effective.profile == .serve {
            warnings.append(
                "\(effective.source(of: SettingsTable[\.database.app])): databaseApp has no effect without a database (DATABASE_URL)"
            )
        }
    }

    /// Settings that are probably meant but not obvious.
    var notices: [String] {
        database.url == nil || jwt.keySetFile != nil || jwt.secret != nil
            ? [] : ["no jwt.keysFile: tokens are refused; users sign in by your backend's signature alone"]
    }

    /// - Throws: a failure that names a setting of a console which nobody could reach.
    private func checkConsole(_ effective: EffectiveSettings) throws(Failure) {
        if console.credential != nil, operations == nil {
            throw effective.failure(
                SettingsTable[\.console.credential], "console.credential is of no use without operations.listen")
        }
    }

    /// Derives values from one setting or several.
    private mutating func derive() {
        if gateway.loops == 0 {
            gateway.loops = min(ProcessInfo.processInfo.activeProcessorCount, LoopSet.loopsMax)
        }
        // The grace must exceed the leeway, or an accepted token's connection might close at once, again and again.
        gateway.timeouts.identity.grace = max(gateway.timeouts.identity.grace, jwt.leeway + .seconds(5))
        // What waits at most before pages of the log take over.
        gateway.limits.pullQueueBytesMax = gateway.limits.sendQueueBytesMax / 8
        gateway.httpLimits.bodyBytes = apps.map(\.limits.bodyBytes).reduce(gateway.httpLimits.bodyBytes, max)
        // In the unit of the rate: a message within the size limit must always fit.
        let largestMessage = 1 + gateway.limits.messageBytesMax / 4_096
        gateway.limits.messagesBurst = max(Self.burstSeconds * gateway.limits.messagesPerSecond, largestMessage)
        gateway.admission.addressConnectsBurst = Self.connectsBurstSeconds * gateway.admission.addressConnectsPerSecond
        gateway.admission.strangerRequestsBurst =
            Self.requestsBurstSeconds * gateway.admission.strangerRequestsPerSecond
        gateway.admission.addressConnectsWaitingMax =
            Self.connectsWaitSeconds * gateway.admission.addressConnectsPerSecond
        gateway.timeouts.tlsHandshake = gateway.timeouts.handshake
        gateway.timeouts.unacked = gateway.timeouts.pong * 2
        gateway.timeouts.stalled = gateway.timeouts.unacked
        gateway.channelLimits.shards.webhookPause = gateway.channelLimits.shards.leaveGrace
        feed.positionCheckInterval = feed.pollInterval * 20
        feed.heartbeatInterval = max(feed.heartbeatInterval, feed.pollInterval * 7)
        feed.heartbeatTimeout = feed.heartbeatInterval / 2
        store.queryConnections = min(16, max(1, store.connections / 2))
        let ofDevice = (actionsPerSecond + 1) / 2
        store.userRate = Rate(perSecond: actionsPerSecond, burst: Self.burstSeconds * actionsPerSecond)
        store.deviceRate = Rate(perSecond: ofDevice, burst: Self.burstSeconds * ofDevice)
    }

    /// After a silence, a client may send this many seconds' worth of messages or actions at once.
    private static let burstSeconds = 10
    /// After a silence, an address may open this many seconds' worth of connections at once: a whole office may return.
    private static let connectsBurstSeconds = 20
    private static let requestsBurstSeconds = 5
    /// After that, so many seconds' worth wait for their turn: less than the 15 seconds that pusher-js gives an attempt. One
    /// that is refused comes back no earlier than after these.
    private static let connectsWaitSeconds = 10

    private mutating func checkApps(_ effective: EffectiveSettings) throws(Failure) {
        let setting = SettingsTable[\.apps]
        guard effective.entries[setting.key] != nil else { throw effective.missing(setting) }
        guard !apps.isEmpty else {
            throw effective.failure(setting, "apps is empty; a hub serves at least one application")
        }
        let owner = SettingsTable[\.database.app]
        if let id = database.app {
            guard apps.contains(where: { $0.id == id }) else {
                throw effective.failure(
                    owner, "databaseApp \"\(id)\" is no id in apps (\(apps.map(\.id).joined(separator: ", ")))")
            }
        } else if database.url != nil || effective.profile == .development {
            guard apps.count == 1 else {
                throw Failure(
                    "databaseApp is not set: with several apps, say to whose users the database belongs "
                        + "(\(owner.option), \(owner.environment))", status: .configuration)
            }
            database.app = apps[0].id
        }
    }

    /// A request's body may be this large at most, whatever an app may publish.
    static let bodyBytesMax = 16 << 20

    /// Checks that what an app may publish fits into a body: otherwise it would be refused for an unexpected limit.
    ///
    /// - Parameter runningHub: the limit of the hub that runs, when apps are re-read.
    func checkBodies(ofRunningHub runningHub: Int? = nil) throws(Failure) {
        let most = runningHub ?? Self.bodyBytesMax
        let problems = apps.filter { $0.limits.bodyBytes > most }.map { app in
            """
            apps: \(most) bytes of a request do not hold what application "\(app.id)" may publish, up to \
            \(app.limits.bodyBytes) bytes where its text is escaped; \(runningHub == nil ? "" : "restart the hub, or ")lower \
            the application's limits: eventBytes (\(app.limits.eventBytesMax)), batchEvents (\(app.limits.batchEventsMax)), \
            channelsPerPublish (\(app.limits.channelsPerPublishMax))
            """
        }
        guard problems.isEmpty else { throw Failure(lines: problems, status: .configuration) }
    }

    /// Warnings for total bounds that are raised, because a loop's share would not hold what one connection may use. No
    /// warning when all numbers involved are defaults.
    private func raisedBounds(_ effective: EffectiveSettings) -> [String] {
        let gateway = GatewayConfiguration(self)
        func warning(_ bound: Setting, _ given: Int, ofLoop share: Int, of one: [Setting]) -> String? {
            let sources = (one + [bound, SettingsTable[\.gateway.loops]]).map { effective.source(of: $0) }
            guard share > given / gateway.loops, sources.contains(where: { $0 != "default" }) else { return nil }
            return """
                \(effective.source(of: bound)): \(bound.key) of \(Form.brief(given)) is raised to \
                \(Form.brief(share * gateway.loops)): each of \(gateway.loops) loops has room for what one connection may \
                hold (\(one.map(\.key).joined(separator: ", "))), \(Form.brief(share))
                """
        }
        let limits = gateway.limits
        let hasLongBodies = gateway.httpLimits.bodyBytes > GatewayConfiguration().httpLimits.bodyBytes
        return [
            warning(
                SettingsTable[\.gateway.limits.sendQueuesBytesMax], limits.sendQueuesBytesMax,
                ofLoop: gateway.queuedBytesOfLoop, of: [SettingsTable[\.gateway.limits.sendQueueBytesMax]]),
            warning(
                SettingsTable[\.gateway.limits.unfinishedBytesMax], limits.unfinishedBytesMax,
                ofLoop: gateway.unfinishedBytesOfLoop,
                of: (hasLongBodies ? [SettingsTable[\.apps]] : []) + [SettingsTable[\.gateway.limits.messageBytesMax]]),
        ].compactMap { $0 }
    }

    private func checkListeners(_ effective: EffectiveSettings) throws(Failure) {
        for (index, one) in listen.enumerated() {
            if let other = listen[..<index].first(where: { $0.collides(with: one) }) {
                throw effective.failure(
                    SettingsTable[\.listen], "listen names \(other) and \(one), which are one address")
            }
            if let pages = operations, let address = one.address, pages.collides(with: address) {
                throw effective.failure(
                    SettingsTable[\.operations],
                    "operations.listen \(pages) and listen \(one) are one port; each needs its own")
            }
        }
    }
}

// MARK: Configurations of the parts

extension Settings {
    /// `listen` for the reactor. `[::]` accepts IPv4 clients, too, unless the list has an IPv4 address with its port.
    var listenEndpoints: [ListenEndpoint] {
        listen.map { listener in
            switch listener {
            case .socket(let path): return .unix(path: path, mode: unixSockets.mode)
            case .address(let address), .secured(let address):
                let hasIPv4 = listen.contains { $0.address.map { $0.port == address.port && !$0.isIPv6 } ?? false }
                return .tcp(
                    host: address.host, port: address.port,
                    isIPv6Only: address.isIPv6 && address.port != 0 && hasIPv4)
            }
        }
    }

    /// The applications at the start.
    var servedApps: [App] { apps(indices: Array(apps.indices)) }

    /// The applications for the gateway, each with its index.
    func apps(indices: [Int]) -> [App] {
        zip(apps, indices).map { app, index in
            App(
                id: app.id, credentials: app.credentials, index: index,
                ownsDatabase: database.url != nil && app.id == database.app, features: app.features, limits: app.limits)
        }
    }
}

extension GatewayConfiguration {
    init(_ settings: Settings) {
        self = settings.gateway
        listeners = zip(settings.listenEndpoints, settings.listen).map { endpoint, listener in
            ListenerConfiguration(endpoint, usesTLS: listener.usesTLS)
        }
        apps = settings.servedApps
    }
}

extension StoreConfiguration {
    init(_ settings: Settings, _ url: String) {
        self = settings.store
        connectionString = url
    }
}

extension JobsConfiguration {
    init(_ settings: Settings, _ url: String) {
        self = settings.jobs
        connectionString = url
    }
}

extension FeedConfiguration {
    /// The functions that hubs call are written for the newest migration beside them, so that one is needed.
    init(_ settings: Settings, _ url: String, _ files: SQLFileSet) {
        self = settings.feed
        connectionString = url
        schemaVersion = Int64(files.migrations.last?.version ?? 0)
    }
}
