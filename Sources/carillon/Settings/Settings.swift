import API
import Gateway
import Reactor

/// Everything the hub is told, as plain values. See `SettingsTable` for what each means.
struct Settings: Sendable {
    /// Where clients connect; never empty.
    var listen: [Listener]
    /// Permissions of the unix-domain sockets among them.
    var unixSocketMode: UInt32
    /// Whose X-Forwarded-For is believed.
    var trustedProxies: TrustedPeers
    /// Event loops; 0 is one for each core.
    var loops: Int
    /// Never empty.
    var apps: [ApplicationSettings]
    /// Connection string of the hub's role; nil makes it a plain Pusher server.
    var databaseURL: String?
    /// Id of the application whose users the database belongs to; set whenever `databaseURL` is.
    var databaseApp: String?
    /// Lower-case origins; `*` is any.
    var allowedOrigins: [String]
    /// Nil where no certificate is named.
    var tls: TLSSettings?
    var jwt: TokenSettings
    var timeouts: TimeoutSettings
    var limits: LimitSettings
    var channels: ChannelSettings
    var webhooks: WebhookSettings
    /// What is the same for all apps in Pusher's HTTP API.
    var api: PusherRoutes.Settings
    var compression: MessageCompression
    var store: StoreSettings
    var feed: FeedSettings
    /// Where `/livez`, `/readyz` and `/metrics` are.
    var operations: OperationsAddress
    /// From SIGTERM to the end of the first connection.
    var drainPause: Duration
    var logLevel: LogLevelName
    var logFormat: LogFormat
    var strictProtocol: Bool
    /// What the hub starts with, though somebody may be surprised by it.
    private(set) var warnings: [String] = []
    /// What may well be meant, but is not seen by itself.
    private(set) var notices: [String] = []
}

/// How tokens of users are verified.
struct TokenSettings: Sendable, Hashable {
    /// HS256, for development.
    var secret: String?
    /// Path of a JWKS file.
    var keysFile: String?
    var issuer: String?
    var audience: String?
    var leeway: Duration
}

/// How long the hub waits for clients.
struct TimeoutSettings: Sendable, Hashable {
    var activity: Duration
    var pong: Duration
    var handshake: Duration
    var message: Duration
    var unacked: Duration
}

/// Bounds on what clients may use; each the largest number allowed.
struct LimitSettings: Sendable, Hashable {
    var messageBytesMax: Int
    var messageFragmentsMax: Int
    /// 0 is no bound.
    var messagesPerSecond: Int
    var messagesBurst: Int
    /// 0 is no bound.
    var controlFramesPerSecond: Int
    var controlFramesBurst: Int
    /// 0 is no bound.
    var requestBytesPerSecondMin: Int
    var headBytesMax: Int
    var bodyBytesMax: Int
    var channelsPerConnectionMax: Int
    var channelsMax: Int
    var parkedSubscribesMax: Int
    var streamsPerUserMax: Int
    var connectionsMax: Int
    var connectionsPerAddressMax: Int
    var tlsHandshakesMax: Int
    var tlsHandshakesWaitingMax: Int
    /// 0 is no bound.
    var addressConnectsPerSecond: Int
    var addressConnectsBurst: Int
    var sendQueueBytesMax: Int
    var sendQueuesBytesMax: Int
    var unfinishedBytesMax: Int
    var pullQueueBytesMax: Int
    var stalledTimeout: Duration
    var replayEventsMax: Int
    var windowEventsMax: Int
    var windowBytesMax: Int
    var windowTotalBytesMax: Int
    var linger: Duration
    /// 0 is no bound.
    var userActionsPerSecond: Int
    var userActionsBurst: Int
    /// 0 is no bound.
    var deviceActionsPerSecond: Int
    var deviceActionsBurst: Int
}

/// How ordinary channels are kept.
struct ChannelSettings: Sendable, Hashable {
    var leaveGrace: Duration
    var webhookPause: Duration
    var cacheTime: Duration
    var cacheBytesMax: Int
}

/// Which messages are compressed for clients that offer it, and how.
struct MessageCompression: Sendable, Hashable {
    var isOn: Bool
    /// Bytes of the smallest.
    var threshold: Int
    /// zlib's, 1 to 9.
    var level: Int
}

/// How actions are written to the database, and snapshots read.
struct StoreSettings: Sendable, Hashable {
    var connections: Int
    var queryConnections: Int
    var lockTimeout: Duration
    /// Days; 0 is never.
    var retainDays: Int
}

/// How the database's changes are read.
struct FeedSettings: Sendable, Hashable {
    var pollInterval: Duration
    var positionCheckInterval: Duration
    var heartbeatInterval: Duration
    var heartbeatTimeout: Duration
}

extension Settings {
    /// Reads the values and checks what concerns several settings at once.
    ///
    /// - Throws: a failure that names the settings concerned.
    init(_ effective: EffectiveSettings) throws(Failure) {
        listen = try effective.required(SettingsTable.listen)
        unixSocketMode = try effective.required(SettingsTable.unixSocketMode)
        trustedProxies = try effective.required(SettingsTable.trustedProxies)
        loops = try effective.required(SettingsTable.loops)
        apps = try effective.required(SettingsTable.apps)
        databaseURL = try effective.value(SettingsTable.databaseURL)
        databaseApp = try effective.value(SettingsTable.databaseApp)
        allowedOrigins = try effective.required(SettingsTable.allowedOrigins)
        tls = try TLSSettings(effective)
        jwt = try TokenSettings(effective)
        timeouts = TimeoutSettings(
            activity: try effective.required(SettingsTable.activityTimeout),
            pong: try effective.required(SettingsTable.pongTimeout),
            handshake: try effective.required(SettingsTable.handshakeTimeout),
            message: try effective.required(SettingsTable.messageTimeout),
            unacked: try effective.required(SettingsTable.unackedTimeout))
        limits = try LimitSettings(effective)
        channels = ChannelSettings(
            leaveGrace: try effective.required(SettingsTable.leaveGrace),
            webhookPause: try effective.required(SettingsTable.webhookLeaveGrace),
            cacheTime: try effective.required(SettingsTable.cacheTime),
            cacheBytesMax: try effective.required(SettingsTable.cacheBytesMax))
        webhooks = try WebhookSettings(effective)
        api = PusherRoutes.Settings()
        api.refusesReplays = try effective.required(SettingsTable.refuseReplays)
        api.idempotencyKeysMax = try effective.required(SettingsTable.idempotencyKeysMax)
        api.idempotencyTime = try effective.required(SettingsTable.idempotencyTime)
        compression = MessageCompression(
            isOn: try effective.required(SettingsTable.compression),
            threshold: try effective.required(SettingsTable.compressionThreshold),
            level: try effective.required(SettingsTable.compressionLevel))
        store = StoreSettings(
            connections: try effective.required(SettingsTable.storeConnections),
            queryConnections: try effective.required(SettingsTable.storeQueryConnections),
            lockTimeout: try effective.required(SettingsTable.storeLockTimeout),
            retainDays: try effective.required(SettingsTable.storeRetainEvents))
        feed = FeedSettings(
            pollInterval: try effective.required(SettingsTable.pollInterval),
            positionCheckInterval: try effective.required(SettingsTable.positionCheckInterval),
            heartbeatInterval: try effective.required(SettingsTable.heartbeatInterval),
            heartbeatTimeout: try effective.required(SettingsTable.heartbeatTimeout))
        operations = try effective.required(SettingsTable.operationsListen)
        drainPause = try effective.required(SettingsTable.drainPause)
        logLevel = try effective.required(SettingsTable.logLevel)
        logFormat = try effective.required(SettingsTable.logFormat)
        strictProtocol = try effective.required(SettingsTable.strictProtocol)
        try checkApps(effective)
        try checkBodies(limits.bodyBytesMax)
        try checkListeners(effective)
        if tls == nil, let secured = listen.first(where: \.usesTLS) {
            throw Failure(
                """
                \(effective.source(of: SettingsTable.listen)): listen names \(secured), and no tls.certificateFiles are \
                given; name certificates and their tls.keyFiles, or leave tls: out
                """, status: .configuration)
        }
        if tls != nil, !listen.contains(where: \.usesTLS) {
            throw Failure(
                """
                \(effective.source(of: SettingsTable.tlsCertificateFiles)): tls.certificateFiles are given, and no address \
                of listen uses them; write it as tls:ADDRESS
                """, status: .configuration)
        }
        warnings = effective.warnings + apps.flatMap { $0.warnings(webhooks) } + raisedBounds(effective)
        if databaseApp != nil, databaseURL == nil, effective.profile == .serve {
            warnings.append(
                "\(effective.source(of: SettingsTable.databaseApp)): databaseApp has no effect without a database (DATABASE_URL)"
            )
        }
        if databaseURL != nil, jwt.keysFile == nil, jwt.secret == nil {
            notices.append("no jwt.keysFile: tokens are refused; users sign in by your backend's signature alone")
        }
    }

    /// What an app may publish must fit into a body that is taken, or it is refused for a size that no one would look for.
    ///
    /// - Parameter bodyBytesMax: of a body; the hub's that runs, where apps are read anew.
    func checkBodies(_ bodyBytesMax: Int) throws(Failure) {
        let problems = apps.filter { $0.limits.bodyBytes > bodyBytesMax }.map { app in
            """
            \(SettingsTable.bodyBytesMax.row.key): \(bodyBytesMax) bytes do not hold what application "\(app.id)" may publish, \
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
        func warning(_ bound: Setting<Int>, _ given: Int, ofLoop share: Int, of one: Setting<Int>...) -> String? {
            let givers = (one + [bound, SettingsTable.loops]).map { effective.source(of: $0) }
            guard share > given / gateway.loops, givers.contains(where: { $0 != "default" }) else { return nil }
            let reasons = one.map(\.row.key).joined(separator: ", ")
            return """
                \(effective.source(of: bound)): \(bound.row.key) of \(SettingValues.brief(bytes: given)) is raised to \
                \(SettingValues.brief(bytes: share * gateway.loops)): each of \(gateway.loops) loops has room for what one \
                connection may hold (\(reasons)), \(SettingValues.brief(bytes: share))
                """
        }
        return [
            warning(
                SettingsTable.sendQueuesBytesMax, limits.sendQueuesBytesMax, ofLoop: gateway.queuedBytesOfLoop,
                of: SettingsTable.sendQueueBytesMax),
            warning(
                SettingsTable.unfinishedBytesMax, limits.unfinishedBytesMax, ofLoop: gateway.unfinishedBytesOfLoop,
                of: SettingsTable.bodyBytesMax, SettingsTable.headBytesMax, SettingsTable.messageBytesMax),
        ].compactMap { $0 }
    }

    private func checkListeners(_ effective: EffectiveSettings) throws(Failure) {
        for (index, one) in listen.enumerated() {
            if let other = listen[..<index].first(where: { $0.collides(with: one) }) {
                throw Failure(
                    "\(effective.source(of: SettingsTable.listen)): listen names \(other) and \(one), which are one place",
                    status: .configuration)
            }
            if let pages = operations.address, let address = one.address, pages.collides(with: address) {
                throw Failure(
                    """
                    \(effective.source(of: SettingsTable.operationsListen)): operations.listen \(pages) and listen \(one) \
                    are one port; each needs its own
                    """, status: .configuration)
            }
        }
    }

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

    private mutating func checkApps(_ effective: EffectiveSettings) throws(Failure) {
        guard !apps.isEmpty else {
            throw Failure(
                "\(effective.source(of: SettingsTable.apps)): apps is empty; a hub serves at least one application",
                status: .configuration)
        }
        if let id = databaseApp {
            guard apps.contains(where: { $0.id == id }) else {
                throw Failure(
                    "\(effective.source(of: SettingsTable.databaseApp)): databaseApp \"\(id)\" is no id in apps "
                        + "(\(apps.map(\.id).joined(separator: ", ")))", status: .configuration)
            }
        } else if databaseURL != nil || effective.profile == .development {
            guard apps.count == 1 else {
                throw Failure(
                    "databaseApp is not set: with several apps, say to whose users the database belongs "
                        + "(\(SettingsTable.databaseApp.row.option), \(SettingsTable.databaseApp.row.environment))",
                    status: .configuration)
            }
            databaseApp = apps[0].id
        }
    }
}

extension LimitSettings {
    init(_ effective: EffectiveSettings) throws(Failure) {
        messageBytesMax = try effective.required(SettingsTable.messageBytesMax)
        messageFragmentsMax = try effective.required(SettingsTable.messageFragmentsMax)
        messagesPerSecond = try effective.required(SettingsTable.messagesPerSecond)
        messagesBurst = try effective.required(SettingsTable.messagesBurst)
        controlFramesPerSecond = try effective.required(SettingsTable.controlFramesPerSecond)
        controlFramesBurst = try effective.required(SettingsTable.controlFramesBurst)
        requestBytesPerSecondMin = try effective.required(SettingsTable.requestBytesPerSecondMin)
        headBytesMax = try effective.required(SettingsTable.headBytesMax)
        bodyBytesMax = try effective.required(SettingsTable.bodyBytesMax)
        channelsPerConnectionMax = try effective.required(SettingsTable.channelsPerConnectionMax)
        channelsMax = try effective.required(SettingsTable.channelsMax)
        parkedSubscribesMax = try effective.required(SettingsTable.parkedSubscribesMax)
        streamsPerUserMax = try effective.required(SettingsTable.streamsPerUserMax)
        connectionsMax = try effective.required(SettingsTable.connectionsMax)
        connectionsPerAddressMax = try effective.required(SettingsTable.connectionsPerAddressMax)
        tlsHandshakesMax = try effective.required(SettingsTable.tlsHandshakesMax)
        tlsHandshakesWaitingMax = try effective.required(SettingsTable.tlsHandshakesWaitingMax)
        addressConnectsPerSecond = try effective.required(SettingsTable.addressConnectsPerSecond)
        addressConnectsBurst = try effective.required(SettingsTable.addressConnectsBurst)
        sendQueueBytesMax = try effective.required(SettingsTable.sendQueueBytesMax)
        sendQueuesBytesMax = try effective.required(SettingsTable.sendQueuesBytesMax)
        unfinishedBytesMax = try effective.required(SettingsTable.unfinishedBytesMax)
        pullQueueBytesMax = try effective.required(SettingsTable.pullQueueBytesMax)
        stalledTimeout = try effective.required(SettingsTable.stalledTimeout)
        replayEventsMax = try effective.required(SettingsTable.replayEventsMax)
        windowEventsMax = try effective.required(SettingsTable.windowEventsMax)
        windowBytesMax = try effective.required(SettingsTable.windowBytesMax)
        windowTotalBytesMax = try effective.required(SettingsTable.windowTotalBytesMax)
        linger = try effective.required(SettingsTable.linger)
        userActionsPerSecond = try effective.required(SettingsTable.userActionsPerSecond)
        userActionsBurst = try effective.required(SettingsTable.userActionsBurst)
        deviceActionsPerSecond = try effective.required(SettingsTable.deviceActionsPerSecond)
        deviceActionsBurst = try effective.required(SettingsTable.deviceActionsBurst)
    }
}

extension TokenSettings {
    init(_ effective: EffectiveSettings) throws(Failure) {
        secret = try effective.value(SettingsTable.jwtSecret)
        keysFile = try effective.value(SettingsTable.jwtKeysFile)
        issuer = try effective.value(SettingsTable.jwtIssuer)
        audience = try effective.value(SettingsTable.jwtAudience)
        leeway = try effective.required(SettingsTable.jwtLeeway)
    }
}
