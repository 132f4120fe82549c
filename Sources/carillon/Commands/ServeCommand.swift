import ArgumentParser
import Console
import FoundationEssentials
import Logging

/// `carillon serve`: the hub in production.
struct ServeCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Run the hub in production.",
        discussion: """
            It needs the setting apps at least. With DATABASE_URL, run `carillon migrate` first. It takes listening sockets \
            from systemd.
            """)

    static let settingsHelp = SettingsHelp.all(.serve)

    @Flag(
        help: """
            Take the listening sockets of the hub that runs at control.socket. It closes its clients when this hub is ready; \
            until then it serves on. Where no hub runs, this one starts as usual.
            """)
    var takeOver = false

    @OptionGroup var arguments: SettingsArguments

    func run() throws {
        let hangUp = HangUp()
        let stop = try StopSignal.install(hangUp: hangUp)
        StopSignal.ignoreBrokenPipes()
        let sources = arguments.sources
        let effective = try EffectiveSettings(sources, profile: .serve)
        let settings = try Settings(effective)
        let logger = LogOutput.logger("carillon", level: settings.log.level, format: settings.log.format)
        hangUp.does { logger.notice("SIGHUP: the hub is only starting, and reads nothing anew") }
        if settings.database.url == nil {
            logger.notice(
                """
                no DATABASE_URL: serving as a plain Pusher-compatible server, without user streams; channels named \
                user.… are ordinary public channels
                """)
        }
        let given = try givenSockets(settings, effective, stop, logger)
        guard !stop.isSet else { return }
        try HubProcess.run(
            settings: settings, logger: logger, stop: stop, hangUp: hangUp, given: given,
            reloading: (effective, sources),
            console: settings.console.credential == nil
                ? nil : Console(settings.console, version: Carillon.version, logger: logger),
            onListening: { addresses in
                let endpoints = addresses.clients.map { ($0.usesTLS ? "tls:" : "") + $0.endpoint.description }
                var metadata: Logger.Metadata = ["address": "\(endpoints.joined(separator: ","))"]
                if let operations = addresses.operations { metadata["operations"] = "\(operations)" }
                logger.info("listening", metadata: metadata)
            },
            onReady: { _ in logger.info("ready") })
    }

    private func givenSockets(
        _ settings: Settings, _ effective: EffectiveSettings, _ stop: Latch, _ logger: Logger
    ) throws -> GivenSockets {
        var given = GivenSockets(systemd: try GivenSockets.systemd(ProcessInfo.processInfo.environment))
        if !given.systemd.isEmpty {
            logger.info("systemd gives sockets", metadata: ["sockets": "\(given.systemd)"])
        }
        guard takeOver else { return given }
        guard let path = settings.unixSockets.control else {
            throw effective.missing(SettingsTable[\.unixSockets.control])
        }
        given.predecessor = try Predecessor.ask(at: path, stop, logger)
        if let predecessor = given.predecessor {
            logger.info("taking over", metadata: ["process": "\(predecessor.process)"])
        } else {
            logger.info("no hub to take over from: starting as usual", metadata: ["control.socket": "\(path)"])
        }
        return given
    }
}
