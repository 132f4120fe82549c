import API
import ArgumentParser
import Console
import FoundationEssentials
import Glibc
import Logging
import Postgres
import Reactor

/// `carillon dev`: a hub with its own database, without configuration.
struct DevCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Try Carillon: run a hub with a private PostgreSQL and a small demonstration.",
        discussion: """
            Nothing needs to be configured. Ctrl-C stops all that it has started. Several hubs listen on ports that follow \
            each other, and share ordinary channels by a private Redis, if this machine has redis-server or valkey-server.
            """)

    static let settingsHelp = SettingsHelp.all(.development)

    @Option(help: "Folder of the private PostgreSQL and of what `token` and `tail` need to find this hub.")
    var dir = ".carillon"

    @Option(help: ArgumentHelp("Number of hubs.", valueName: "count"))
    var hubs = 1

    @OptionGroup var arguments: SettingsArguments

    func validate() throws {
        guard (1...DevelopmentHubs.countMax).contains(hubs) else {
            throw ValidationError("--hubs must be from 1 to \(DevelopmentHubs.countMax)")
        }
    }

    func run() throws {
        let hangUp = HangUp()
        let stop = try StopSignal.install(hangUp: hangUp)
        StopSignal.ignoreBrokenPipes()
        let effective = try arguments.effective(.development)
        var settings = try Settings(effective)
        try Self.checkReachable(settings)
        try settings.checkFree()
        for number in 2..<max(2, hubs + 1) {
            let address = try DevelopmentHubs.address(number, settings)
            try ListenEndpoint.tcp(host: address.host, port: address.port).checkFree(for: SettingsTable[\.listen])
        }
        let folder = try DevelopmentFolder.make(dir)
        let lock = try FolderLock(file: folder.lockFile)
        defer { withExtendedLifetime(lock) {} }
        say("carillon dev in \(folder.path)")
        if settings.database.url != nil {
            say("  DATABASE_URL is not used: dev has a database of its own")
        }
        let cluster = try DevelopmentCluster(directory: folder.path) {
            say("PostgreSQL has ended; Ctrl-C and start again")
        }
        // Also after an error: nothing that was started outlives the hub.
        defer { cluster.stop() }
        try prepareDatabase(cluster, folder)
        guard !stop.isSet else { return }

        settings.database.url = cluster.hubURL
        if settings.jwt.secret == nil { settings.jwt.secret = try folder.secret() }
        let others = DevelopmentHubs(in: folder)
        defer { others.stop() }
        var hasOwnRedis = false
        if hubs > 1 {
            if settings.group.url == nil {
                settings.group.url = try others.startRedis()
                hasOwnRedis = settings.group.url != nil
            }
            say(
                settings.group.url == nil
                    ? "  no Redis here (apt install redis-server): each hub has ordinary channels of its own"
                    : "  hubs share ordinary channels by Redis")
            try others.start(hubs - 1, as: settings, effective)
        }
        let dose = demonstrationDose(cluster)
        let logger = LogOutput.logger("carillon", level: settings.log.level, format: settings.log.format)
        try HubProcess.run(
            settings: settings, logger: logger, stop: stop, hangUp: hangUp, demonstration: demonstration(of: settings),
            console: Console(settings.console, version: Carillon.version, logger: logger)
        ) { addresses in
            guard let clients = addresses.reachable else { return }
            let running = try others.addresses(unless: stop)
            try folder.writeHub(record(of: settings, at: clients, addresses))
            say("ready on ws://\(clients) (app key \(databaseApp(of: settings)?.key ?? ""))")
            if let secured = addresses.secured { say("  and on wss://\(secured)") }
            for hub in running { say("  \(hub.name) on ws://\(hub.address), its log: \(relative(hub.log))") }
            if let operations = addresses.operations {
                say("  http://\(operations.reachable) has /console, /livez, /readyz and /metrics")
            }
            invite(folder: folder, dose: dose, at: clients, hasOwnRedis: hasOwnRedis)
        }
        say("stopping PostgreSQL")
    }

    /// Requires a plain TCP listener: `carillon tail` and the file for local clients need one.
    static func checkReachable(_ settings: Settings) throws(Failure) {
        guard !settings.listen.contains(where: { $0.address != nil && !$0.usesTLS }) else { return }
        let given = settings.listen.map(\.description).joined(separator: ",")
        throw Failure(
            """
            listen: carillon dev needs a TCP address without TLS beside \(given), for clients of this machine such as carillon \
            tail: \(SettingsTable[\.listen].option) \(given),127.0.0.1:6001 (carillon serve needs none)
            """, status: .configuration)
    }

    private func prepareDatabase(_ cluster: DevelopmentCluster, _ folder: DevelopmentFolder) throws(Failure) {
        let isNew = try cluster.start()
        say(
            "  PostgreSQL \(cluster.programs.majorVersion) \(isNew ? "made" : "found") in \(cluster.folders.base), started"
        )
        let migrator = try Migrator(url: cluster.superuserURL, files: try SQLFileSet.embedded())
        let status = try migrator.migrate { say("  " + $0) }
        say("  database at migration \(status.lines.last?.version ?? 0)")
        try cluster.widenOwner()
        try migrator.demonstrate()
        say("  demonstration: users demo and demo2, with doses for today")
        try folder.writeDatabaseURL(cluster.ownerURL)
    }

    private func databaseApp(of settings: Settings) -> ApplicationSettings? {
        settings.apps.first { $0.id == settings.database.app }
    }

    private func record(
        of settings: Settings, at clients: ListenAddress, _ addresses: HubAddresses
    ) -> HubRecord {
        let app = databaseApp(of: settings)
        return HubRecord(
            url: "ws://\(clients)", secureURL: addresses.secured.map { "wss://\($0)" },
            operationsURL: addresses.operations.map { "http://\($0.reachable)" },
            appID: app?.id ?? "", appKey: app?.key ?? "", appSecret: app?.secret ?? "",
            jwtSecret: settings.jwt.secret ?? "", jwtIssuer: settings.jwt.issuer, jwtAudience: settings.jwt.audience)
    }

    /// A dose of the user demo to mark as taken: the next scheduled one from today on, if possible.
    private func demonstrationDose(_ cluster: DevelopmentCluster) -> String? {
        let connection = try? BlockingConnection(cluster.ownerURL)
        let rows = try? connection?.query(
            """
            select id from care.dose_occurrence where user_id = 'demo'
            order by (status = 'scheduled' and local_date >= (now() at time zone tz)::date) desc,
                     (status = 'scheduled') desc, scheduled_at limit 1
            """)
        return rows?.first?.first ?? nil
    }

    /// How long a token of the demonstration's page is good.
    private static let passTime = Duration.seconds(600)

    /// The page at `/demo`; nil where no app owns the database.
    private func demonstration(of settings: Settings) -> DemonstrationRoutes? {
        guard let app = databaseApp(of: settings), let secret = settings.jwt.secret else { return nil }
        let (issuer, audience) = (settings.jwt.issuer, settings.jwt.audience)
        return DemonstrationRoutes(key: app.key, user: "demo", zone: "Europe/Berlin") {
            let token = try DevelopmentToken(
                user: "demo", issuer: issuer, audience: audience, lifetime: Self.passTime, now: Date())
            return .init(token: try await token.signed(secret: secret), seconds: Int(Self.passTime.components.seconds))
        }
    }

    private func invite(folder: DevelopmentFolder, dose: String?, at clients: ListenAddress, hasOwnRedis: Bool) {
        // As it was typed, even a name found in PATH: that works in another terminal, too.
        let program = shellWord(CommandLine.arguments.first ?? "carillon")
        let option = dir == ".carillon" ? "" : " --dir \(shellWord(dir))"
        let url = shellWord(relative(folder.databaseURLFile))
        say("open in a browser on this machine: http://\(clients)/demo")
        say("or try, in another terminal:")
        say("  \(program) tail --user demo\(option)")
        if let dose {
            say(
                "  psql \"$(cat \(url))\" -c \"UPDATE care.dose_occurrence SET status = 'taken', taken_at = now() "
                    + "WHERE id = '\(dose)'\"")
        }
        if hasOwnRedis {
            say("  CARILLON_REDIS_URL=\"$(cat \(shellWord(relative(folder.redisURLFile))))\" \(program) cluster")
        }
        say("Ctrl-C stops all that it has started")
    }

    private func relative(_ path: String) -> String {
        let here = FileManager.default.currentDirectoryPath + "/"
        return path.hasPrefix(here) ? String(path.dropFirst(here.count)) : path
    }

    private func shellWord(_ text: String) -> String {
        let plain = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_./=@:,".contains($0)) }
        return plain && !text.isEmpty ? text : "'" + text.replacing("'", with: "'\\''") + "'"
    }
}
