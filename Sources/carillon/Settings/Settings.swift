import API
import Channels
import Clock
import Courier
import Feed
import FoundationEssentials
import Gateway
import Identity
import Reactor
import Store

/// Everything the hub is told, as plain values. `SettingsTable` says what each means; what stands here is the default.
struct Settings: Sendable {
    /// Where clients connect; never empty.
    var listen = [Listener.address(ListenAddress(host: "127.0.0.1", port: 6001))]
    /// Permissions of the unix-domain sockets among them.
    var unixSocketMode: UInt32 = 0o660
    /// 0: one for each core.
    var loops = 0
    /// Never empty once they are checked.
    var apps: [ApplicationSettings] = []
    /// Connection string of the hub's role; nil makes it a plain Pusher server.
    var databaseURL: String?
    /// Id of the application whose users the database belongs to; set whenever `databaseURL` is.
    var databaseApp: String?
    var tls = TLSSettings()
    var jwt = TokenPolicy()
    /// Of the gateway, all but what is above.
    var gateway = GatewayConfiguration()
    /// Of one user; half as many of one device. 0: no bound.
    var actionsPerSecond = 100
    var webhooks = CourierConfiguration()
    /// What is the same for all apps in Pusher's HTTP API.
    var api = PusherRoutes.Settings()
    /// Of both, all but where the database is, and what this program knows of it.
    var store = StoreConfiguration(connectionString: "")
    var feed = FeedConfiguration(connectionString: "")
    /// Where `/livez`, `/readyz` and `/metrics` are; nil: nowhere.
    var operations: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 9601)
    /// From SIGTERM to the end of the first connection.
    var drainPause = Duration.zero
    var logLevel = LogLevelName.info
    var logFormat = LogFormat.auto
    /// What the hub starts with, though somebody may be surprised by it.
    private(set) var warnings: [String] = []
    /// What may well be meant, but is not seen by itself.
    private(set) var notices: [String] = []

    /// The defaults.
    init() {
        webhooks.userAgent = "Carillon/\(Carillon.version)"
        // A proxy on this machine speaks for everybody.
        gateway.limits.exemptsLoopback = true
    }
}

// MARK: Settings together

extension Settings {
    /// Takes the values and checks what concerns several settings at once.
    ///
    /// - Throws: a failure that names the settings concerned.
    init(_ effective: EffectiveSettings) throws(Failure) {
        self = effective.values
        try checkApps(effective)
        derive()
        try checkBodies(gateway.httpLimits.bodyBytes)
        try checkListeners(effective)
        try tls.check(effective, listen)
        warnings = effective.warnings + apps.flatMap { $0.warnings(webhooks) } + raisedBounds(effective)
        if databaseApp != nil, databaseURL == nil, effective.profile == .serve {
            warnings.append(
                "\(effective.source(of: SettingsTable[\.databaseApp])): databaseApp has no effect without a database (DATABASE_URL)"
            )
        }
        if databaseURL != nil, jwt.keySetFile == nil, jwt.secret == nil {
            notices.append("no jwt.keysFile: tokens are refused; users sign in by your backend's signature alone")
        }
    }

    /// What follows from a setting, or from several.
    private mutating func derive() {
        gateway.loops = loops > 0 ? loops : min(ProcessInfo.processInfo.activeProcessorCount, LoopSet.loopsMax)
        // A token that is still taken must not be one whose connection ends at once: its client would come back with it,
        // again and again.
        gateway.timeouts.identity.grace = max(gateway.timeouts.identity.grace, jwt.leeway + .seconds(5))
        // A page comes on top of it, and must not be what closes the connection.
        gateway.limits.pullQueueBytesMax = min(gateway.limits.pullQueueBytesMax, gateway.limits.sendQueueBytesMax / 2)
        // As it is charged: one that is not too long may always come.
        let largestMessage = 1 + gateway.limits.messageBytesMax / 4_096
        gateway.limits.messagesBurst = max(Self.burstSeconds * gateway.limits.messagesPerSecond, largestMessage)
        gateway.limits.addressConnectsBurst = Self.connectsBurstSeconds * gateway.limits.addressConnectsPerSecond
        gateway.timeouts.tlsHandshake = gateway.timeouts.handshake
        gateway.timeouts.stalled = gateway.timeouts.unacked
        gateway.channelLimits.homes.webhookPause = gateway.channelLimits.homes.leaveGrace
        gateway.channelLimits.unpublishedPerUserMax = max(
            gateway.channelLimits.unpublishedPerUserMax, feed.streamsPerUserMax)
        feed.heartbeatTimeout = feed.heartbeatInterval / 2
        store.queryConnections = min(16, max(1, store.connections / 2))
        let ofDevice = (actionsPerSecond + 1) / 2
        store.userRate = Rate(perSecond: actionsPerSecond, burst: Self.burstSeconds * actionsPerSecond)
        store.deviceRate = Rate(perSecond: ofDevice, burst: Self.burstSeconds * ofDevice)
    }

    /// For so many seconds' worth of messages or actions that a client was silent, it may send them at once.
    private static let burstSeconds = 10
    /// The same of an address's connections: a whole office comes back at once.
    private static let connectsBurstSeconds = 20

    private mutating func checkApps(_ effective: EffectiveSettings) throws(Failure) {
        let setting = SettingsTable[\.apps]
        guard effective.entries[setting.key] != nil else { throw effective.missing(setting) }
        guard !apps.isEmpty else {
            throw effective.failure(setting, "apps is empty; a hub serves at least one application")
        }
        let owner = SettingsTable[\.databaseApp]
        if let id = databaseApp {
            guard apps.contains(where: { $0.id == id }) else {
                throw effective.failure(
                    owner, "databaseApp \"\(id)\" is no id in apps (\(apps.map(\.id).joined(separator: ", ")))")
            }
        } else if databaseURL != nil || effective.profile == .development {
            guard apps.count == 1 else {
                throw Failure(
                    "databaseApp is not set: with several apps, say to whose users the database belongs "
                        + "(\(owner.option), \(owner.environment))", status: .configuration)
            }
            databaseApp = apps[0].id
        }
    }

    /// What an app may publish must fit into a body that is taken, or it is refused for a size that no one would look for.
    ///
    /// - Parameter bodyBytesMax: of a body; the hub's that runs, where apps are read anew.
    func checkBodies(_ bodyBytesMax: Int) throws(Failure) {
        let problems = apps.filter { $0.limits.bodyBytes > bodyBytesMax }.map { app in
            """
            limits.bodyBytes: \(bodyBytesMax) bytes do not hold what application "\(app.id)" may publish, \
            up to \(app.limits.bodyBytes) bytes where its text is escaped; set it to that (at most 16MiB), which takes a \
            restart, or lower the application's limits: eventBytes (\(app.limits.eventBytesMax)), batchEvents (\(app.limits.batchEventsMax)), \
            channelsPerPublish (\(app.limits.channelsPerPublishMax))
            """
        }
        guard problems.isEmpty else { throw Failure(lines: problems, status: .configuration) }
    }

    /// Bounds of all connections that are raised, because a loop's share of them would not hold what one connection may. Not
    /// told where nobody has given any of the numbers that this comes of.
    private func raisedBounds(_ effective: EffectiveSettings) -> [String] {
        let gateway = GatewayConfiguration(self)
        func warning(_ bound: Setting, _ given: Int, ofLoop share: Int, of one: Setting...) -> String? {
            let sources = (one + [bound, SettingsTable[\.loops]]).map { effective.source(of: $0) }
            guard share > given / gateway.loops, sources.contains(where: { $0 != "default" }) else { return nil }
            return """
                \(effective.source(of: bound)): \(bound.key) of \(Form.brief(given)) is raised to \
                \(Form.brief(share * gateway.loops)): each of \(gateway.loops) loops has room for what one connection may \
                hold (\(one.map(\.key).joined(separator: ", "))), \(Form.brief(share))
                """
        }
        let limits = gateway.limits
        return [
            warning(
                SettingsTable[\.gateway.limits.sendQueuesBytesMax], limits.sendQueuesBytesMax,
                ofLoop: gateway.queuedBytesOfLoop, of: SettingsTable[\.gateway.limits.sendQueueBytesMax]),
            warning(
                SettingsTable[\.gateway.limits.unfinishedBytesMax], limits.unfinishedBytesMax,
                ofLoop: gateway.unfinishedBytesOfLoop, of: SettingsTable[\.gateway.httpLimits.bodyBytes],
                SettingsTable[\.gateway.httpLimits.headBytes], SettingsTable[\.gateway.limits.messageBytesMax]),
        ].compactMap { $0 }
    }

    private func checkListeners(_ effective: EffectiveSettings) throws(Failure) {
        for (index, one) in listen.enumerated() {
            if let other = listen[..<index].first(where: { $0.collides(with: one) }) {
                throw effective.failure(
                    SettingsTable[\.listen], "listen names \(other) and \(one), which are one place")
            }
            if let pages = operations, let address = one.address, pages.collides(with: address) {
                throw effective.failure(
                    SettingsTable[\.operations],
                    "operations.listen \(pages) and listen \(one) are one port; each needs its own")
            }
        }
    }
}

// MARK: What the hub's parts are told

extension Settings {
    /// `listen` as the reactor takes it. `[::]` takes IPv4 clients too, unless an address of IPv4 with its port is in the
    /// list.
    var listenPlaces: [ListenPlace] {
        listen.map { listener in
            switch listener {
            case .socket(let path): return .unix(path: path, mode: unixSocketMode)
            case .address(let address), .secured(let address):
                let hasIPv4 = listen.contains { $0.address.map { $0.port == address.port && !$0.isIPv6 } ?? false }
                return .tcp(
                    host: address.host, port: address.port,
                    isIPv6Only: address.isIPv6 && address.port != 0 && hasIPv4)
            }
        }
    }

    /// The applications as the gateway serves them, each with its index.
    func apps(indices: [Int]) -> [App] {
        zip(apps, indices).map { app, index in
            App(
                id: app.id, credentials: app.credentials, index: index,
                ownsDatabase: databaseURL != nil && app.id == databaseApp, features: app.features, limits: app.limits)
        }
    }
}

extension GatewayConfiguration {
    init(_ settings: Settings) {
        self = settings.gateway
        listeners = zip(settings.listenPlaces, settings.listen).map { place, listener in
            ListenerConfiguration(place, usesTLS: listener.usesTLS)
        }
        apps = settings.apps(indices: Array(settings.apps.indices))
    }
}

extension StoreConfiguration {
    init(_ settings: Settings, _ url: String) {
        self = settings.store
        connectionString = url
    }
}

extension FeedConfiguration {
    init(_ settings: Settings, _ url: String, _ newestSchema: Int) {
        self = settings.feed
        connectionString = url
        schemaVersionKnown = max(Self.schemaVersionNeeded, Int64(newestSchema))
    }
}
