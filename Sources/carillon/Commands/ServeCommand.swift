import ArgumentParser
import Logging

/// `carillon serve`: the hub in production.
struct ServeCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Run the hub in production.",
        discussion: "It needs the setting apps at least. With DATABASE_URL, run `carillon migrate` first.")

    static let settingsHelp = SettingsHelp.all(.serve)

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
        if settings.databaseURL == nil {
            logger.notice(
                """
                no DATABASE_URL: serving as a plain Pusher-compatible server, without user streams; channels named \
                user.… are ordinary public channels
                """)
        }
        try HubProcess.run(
            settings: settings, logger: logger, stop: stop, hangUp: hangUp, reloading: (effective, sources),
            onListening: { addresses in
                let endpoints = addresses.clients.map { ($0.usesTLS ? "tls:" : "") + $0.endpoint.description }
                var metadata: Logger.Metadata = ["address": "\(endpoints.joined(separator: ","))"]
                if let operations = addresses.operations { metadata["operations"] = "\(operations)" }
                logger.info("listening", metadata: metadata)
            },
            onReady: { _ in logger.info("ready") })
    }
}
