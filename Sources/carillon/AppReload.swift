import Courier
import Gateway
import Logging
import Metrics
import Reactor

/// Re-reads the applications on SIGHUP while connections stay open.
///
/// All settings are read again, above all the file: command line and environment cannot change. Changes to applications take
/// effect. Other changed settings are named in the log, because they need a restart.
final class AppReload: Sendable {
    private let sources: SettingsSources
    private let gateway: Gateway
    private let courier: Courier
    private let pushes: Pushes?
    private let counts: CounterTable
    private let logger: Logger
    private let started: EffectiveSettings
    /// Bytes of a request's body that the running hub takes.
    private let bodyBytesMax: Int
    /// The id of the app that the database belongs to.
    private let owner: String?
    /// The applications served now, and the warnings already logged.
    private let served: Locked<(apps: [ApplicationSettings], warnings: [String])>
    /// Whether the log already names another source of the apps. That is no error: SIGHUP may be for certificates.
    private let hasToldOfOtherSource = Locked(false)

    static let results = ["ok", "failed"]

    /// - Parameters:
    ///   - started: the settings at the hub's start.
    ///   - settings: the same settings as values.
    ///   - sources: where to read them again.
    ///   - counts: reloads by result.
    init(
        _ started: EffectiveSettings, _ settings: Settings, from sources: SettingsSources, gateway: Gateway,
        courier: Courier, pushes: Pushes? = nil, counts: CounterTable, logger: Logger
    ) {
        self.started = started
        bodyBytesMax = settings.gateway.httpLimits.bodyBytes
        owner = settings.database.app
        served = Locked((settings.apps, settings.warnings))
        self.sources = sources
        self.gateway = gateway
        self.courier = courier
        self.pushes = pushes
        self.counts = counts
        self.logger = logger
    }

    /// Reads everything again. On any error, nothing changes. Called only on the signal thread.
    func reload() {
        do {
            let effective = try EffectiveSettings(sources, profile: started.profile)
            let settings = try Settings(effective)
            if let other = Self.otherSource(of: effective) {
                let isNews = hasToldOfOtherSource.withLock { told in
                    defer { told = true }
                    return !told
                }
                if isNews {
                    logger.info("SIGHUP: \(other) is set: the file's apps are not read; restart to change them")
                }
            } else {
                try take(settings)
                counts["ok"].add()
                tell(of: settings)
            }
            let waiting = Self.changed(from: started, to: effective, ownerStays: settings.database.app == owner)
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
        // A change here needs a restart.
        settings.database.url = started.values.database.url
        // So does a longer body.
        try settings.checkBodies(ofRunningHub: bodyBytesMax)
        let apps = settings.apps(indices: gateway.apps.indices(of: settings.apps.map(\.id)))
        _ = try gateway.apps.replaced(by: apps)
        // Before the loops, which send events that only the new webhooks want.
        courier.replace(settings.apps.map(WebhookApp.init))
        if let app = settings.apps.first(where: { $0.id == owner }) {
            pushes?.replace(app.credentials)
        }
        try gateway.replaceApps(apps)
    }

    /// The option or variable that sets the apps in place of the file, and so cannot change; nil when the file sets them.
    static func otherSource(of effective: EffectiveSettings) -> String? {
        let apps = SettingsTable[\.apps]
        guard let entry = effective.entries[apps.key], entry.file == nil else { return nil }
        return entry.source.hasSuffix(apps.option) ? apps.option : apps.environment
    }

    private func tell(of settings: Settings) {
        let before = served.withLock { served in
            defer { served = (settings.apps, settings.warnings) }
            return served
        }
        let difference = AppDifference(from: before.apps, to: settings.apps)
        logger.notice("SIGHUP: apps read anew", metadata: difference.metadata(countingAll: settings.apps.count))
        for warning in settings.warnings where !before.warnings.contains(warning) { logger.warning("\(warning)") }
    }

    /// Keys of changed settings, except those that are re-read.
    ///
    /// - Parameter ownerStays: whether the database belongs to the same app. A hub of one app knows which one without the
    ///   setting, and needs the setting when a second app comes.
    static func changed(
        from started: EffectiveSettings, to effective: EffectiveSettings, ownerStays: Bool
    ) -> [String] {
        let owner = SettingsTable[\.database.app]
        return SettingsTable.all.map(\.key).filter { key in
            key != SettingsTable[\.apps].key && started.entries[key]?.text != effective.entries[key]?.text
                && !(key == owner.key && ownerStays)
        }
    }
}

/// The ids of the applications that a reload added, changed and removed.
struct AppDifference: Equatable {
    private(set) var came: [String] = []
    private(set) var changed: [String] = []
    private(set) var went: [String] = []

    /// The most ids of each kind to name; beyond that, their number.
    static let namedMax = 20

    init(from before: [ApplicationSettings], to after: [ApplicationSettings]) {
        let known = Dictionary(uniqueKeysWithValues: before.map { ($0.id, $0) })
        for app in after {
            guard let old = known[app.id] else {
                came.append(app.id)
                continue
            }
            if old != app { changed.append(app.id) }
        }
        let stay = Set(after.map(\.id))
        went = before.map(\.id).filter { !stay.contains($0) }
    }

    func metadata(countingAll count: Int) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["apps": "\(count)"]
        for (name, ids) in [("came", came), ("changed", changed), ("went", went)] where !ids.isEmpty {
            let more = ids.count - Self.namedMax
            let named = ids.prefix(Self.namedMax).joined(separator: ", ")
            metadata[name] = "\(more > 0 ? "\(named) and \(more) more" : named)"
        }
        return metadata
    }
}
