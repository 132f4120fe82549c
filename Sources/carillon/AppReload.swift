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
    /// What is served now, and what has been warned of.
    private let served: Locked<(apps: [ApplicationSettings], warnings: [String])>
    /// Whether it was said that something else than the file has the apps: nothing is wrong with that, and SIGHUP may have
    /// been meant for certificates.
    private let hasToldOfOtherSource = Locked(false)

    /// Results of a reload, as metrics have them.
    static let results = ["ok", "failed"]

    /// - Parameters:
    ///   - started: what the hub has started with.
    ///   - settings: the same as values.
    ///   - sources: whom to ask again.
    ///   - counts: reloads by their result.
    init(
        _ started: EffectiveSettings, _ settings: Settings, from sources: SettingsSources, gateway: Gateway,
        courier: Courier, counts: CounterTable, logger: Logger
    ) {
        self.started = started
        served = Locked((settings.apps, settings.warnings))
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
        settings.databaseURL = started.values.databaseURL
        // So does a longer body.
        try settings.checkBodies(started.values.gateway.httpLimits.bodyBytes)
        let apps = settings.apps(indices: gateway.apps.indices(of: settings.apps.map(\.id)))
        _ = try gateway.apps.replaced(by: apps)
        // Before the loops, which tell of events that only the new webhooks want.
        courier.replace(settings.apps.map(WebhookApp.init))
        try gateway.replaceApps(apps)
    }

    /// What gives the apps in place of the file, and stays as it was when the hub was started; nil where the file does.
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

    /// Keys of settings whose text is another, but for those that are read anew.
    static func changed(from started: EffectiveSettings, to effective: EffectiveSettings) -> [String] {
        SettingsTable.all.map(\.key).filter { key in
            key != SettingsTable[\.apps].key && started.entries[key]?.text != effective.entries[key]?.text
        }
    }
}

/// Which applications a reload has brought, changed and taken away, by their ids.
struct AppDifference: Equatable {
    private(set) var came: [String] = []
    private(set) var changed: [String] = []
    private(set) var went: [String] = []

    /// Ids of one kind that are named; of more, their number.
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

    /// For the log.
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
