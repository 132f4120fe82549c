import API
import Courier
import Feed
import Gateway
import Identity
import Reactor
import Store

/// Everything the hub is told, as plain values. See `SettingsTable` for what each means.
struct Settings: Sendable {
    /// Where clients connect; never empty.
    var listen: [Listener]
    /// Permissions of the unix-domain sockets among them.
    var unixSocketMode: UInt32
    /// Never empty.
    var apps: [ApplicationSettings]
    /// Connection string of the hub's role; nil makes it a plain Pusher server.
    var databaseURL: String?
    /// Id of the application whose users the database belongs to; set whenever `databaseURL` is.
    var databaseApp: String?
    /// Nil where no certificate is named.
    var tls: TLSSettings?
    var jwt: TokenPolicy
    /// Of the gateway, all but what is above.
    var gateway: GatewayConfiguration
    var webhooks: CourierConfiguration
    /// What is the same for all apps in Pusher's HTTP API.
    var api: PusherRoutes.Settings
    /// Of both, all but where the database is.
    var store: StoreConfiguration
    var feed: FeedConfiguration
    /// Where `/livez`, `/readyz` and `/metrics` are.
    var operations: OperationsAddress
    /// From SIGTERM to the end of the first connection.
    var drainPause: Duration
    var logLevel: LogLevelName
    var logFormat: LogFormat
    /// What the hub starts with, though somebody may be surprised by it.
    private(set) var warnings: [String] = []
    /// What may well be meant, but is not seen by itself.
    private(set) var notices: [String] = []
}

extension Settings {
    /// Reads the values and checks what concerns several settings at once.
    ///
    /// - Throws: a failure that names the settings concerned.
    init(_ effective: EffectiveSettings) throws(Failure) {
        listen = try effective.required(SettingsTable.listen)
        unixSocketMode = try effective.required(SettingsTable.unixSocketMode)
        apps = try effective.required(SettingsTable.apps)
        databaseURL = try effective.value(SettingsTable.databaseURL)
        databaseApp = try effective.value(SettingsTable.databaseApp)
        tls = try TLSSettings(effective)
        jwt = try TokenPolicy(effective)
        gateway = try GatewayConfiguration(effective)
        webhooks = try CourierConfiguration(effective)
        api = try PusherRoutes.Settings(effective)
        store = try StoreConfiguration(effective)
        feed = try FeedConfiguration(effective)
        operations = try effective.required(SettingsTable.operationsListen)
        drainPause = try effective.required(SettingsTable.drainPause)
        logLevel = try effective.required(SettingsTable.logLevel)
        logFormat = try effective.required(SettingsTable.logFormat)
        try checkApps(effective)
        try checkBodies(gateway.httpLimits.bodyBytes)
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
                \(effective.source(of: TLSSettings.certificateFiles)): tls.certificateFiles are given, and no address \
                of listen uses them; write it as tls:ADDRESS
                """, status: .configuration)
        }
        warnings = effective.warnings + apps.flatMap { $0.warnings(webhooks) } + raisedBounds(effective)
        if databaseApp != nil, databaseURL == nil, effective.profile == .serve {
            warnings.append(
                "\(effective.source(of: SettingsTable.databaseApp)): databaseApp has no effect without a database (DATABASE_URL)"
            )
        }
        if databaseURL != nil, jwt.keySetFile == nil, jwt.secret == nil {
            notices.append("no jwt.keysFile: tokens are refused; users sign in by your backend's signature alone")
        }
    }

    /// What an app may publish must fit into a body that is taken, or it is refused for a size that no one would look for.
    ///
    /// - Parameter bodyBytesMax: of a body; the hub's that runs, where apps are read anew.
    func checkBodies(_ bodyBytesMax: Int) throws(Failure) {
        let problems = apps.filter { $0.limits.bodyBytes > bodyBytesMax }.map { app in
            """
            \(MessageSettings.bodyBytesMax.row.key): \(bodyBytesMax) bytes do not hold what application "\(app.id)" may publish, \
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
                QueueSettings.sendQueuesBytesMax, gateway.limits.sendQueuesBytesMax, ofLoop: gateway.queuedBytesOfLoop,
                of: QueueSettings.sendQueueBytesMax),
            warning(
                QueueSettings.unfinishedBytesMax, gateway.limits.unfinishedBytesMax,
                ofLoop: gateway.unfinishedBytesOfLoop,
                of: MessageSettings.bodyBytesMax, MessageSettings.headBytesMax, MessageSettings.messageBytesMax),
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
