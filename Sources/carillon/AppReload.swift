import Courier
import Gateway
import Logging
import Metrics
import Reactor

/// The applications, read anew on SIGHUP while connections stay.
///
/// All settings are read again, from the file above all: the command line and the environment are what they were. The
/// applications take effect; what else has changed is named in the log, for it needs a restart.
final class AppReload: Sendable {
    private let sources: SettingsSources
    private let gateway: Gateway
    private let courier: Courier
    private let counts: CounterTable
    private let logger: Logger
    /// What the hub has started with.
    private let started: EffectiveSettings

    /// Results of a reload, as metrics have them.
    static let results = ["ok", "failed"]

    /// - Parameters:
    ///   - started: what the hub has started with.
    ///   - sources: whom to ask again.
    ///   - counts: reloads by their result.
    init(
        _ started: EffectiveSettings, from sources: SettingsSources, gateway: Gateway, courier: Courier,
        counts: CounterTable, logger: Logger
    ) {
        self.started = started
        self.sources = sources
        self.gateway = gateway
        self.courier = courier
        self.counts = counts
        self.logger = logger
    }

    /// Reads everything again. Where anything is wrong, all stays as it was. On the thread of signals alone.
    func reload() {
        do {
            let effective = try EffectiveSettings(sources, profile: started.profile)
            let settings = try Settings(effective)
            try take(settings)
            counts["ok"].add()
            logger.notice("SIGHUP: apps read anew", metadata: ["apps": "\(settings.apps.count)"])
            let waiting = Self.changed(from: started, to: effective)
            if !waiting.isEmpty {
                logger.warning(
                    "SIGHUP: these settings have changed too, which takes a restart",
                    metadata: ["settings": "\(waiting.joined(separator: ", "))"])
            }
        } catch {
            counts["failed"].add()
            logger.error("SIGHUP: apps stay as they were", metadata: ["reason": "\(error)"])
        }
    }

    private func take(_ new: Settings) throws {
        var settings = new
        // Whether there is a database takes a restart.
        settings.databaseURL = started.entries[SettingsTable.databaseURL.row.key]?.text
        // So does a longer body.
        if let running = try started.value(SettingsTable.bodyBytesMax) { try settings.checkBodies(running) }
        let apps = settings.apps(indices: gateway.apps.indices(of: settings.apps.map(\.id)))
        _ = try gateway.apps.replaced(by: apps)
        // Before the loops, which tell of events that only the new webhooks want.
        courier.replace(settings.apps.map(WebhookApp.init))
        try gateway.replaceApps(apps)
    }

    /// Keys of settings whose text is another, but for those that are read anew.
    static func changed(from started: EffectiveSettings, to effective: EffectiveSettings) -> [String] {
        SettingsTable.rows.map(\.key).filter { key in
            key != SettingsTable.apps.row.key && started.entries[key]?.text != effective.entries[key]?.text
        }
    }
}
