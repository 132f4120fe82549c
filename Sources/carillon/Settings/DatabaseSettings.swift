import Clock
import Feed
import Store

/// How actions are written to the database, and snapshots read.
enum StoreSettings {
    static let userActionsPerSecond = Setting.count(
        "limits.actionsPerSecond", "100", 0...1_000_000,
        "Actions that one user may send each second on the long run; 0 is no bound.")

    static let userActionsBurst = Setting.count(
        "limits.actionsBurst", "1000", 1...1_000_000, "Actions that one user may send at once after a silence.")

    static let deviceActionsPerSecond = Setting.count(
        "limits.deviceActionsPerSecond", "50", 0...1_000_000,
        "Actions that one device may send a second, where they name their device; 0 is no bound.")

    static let deviceActionsBurst = Setting.count(
        "limits.deviceActionsBurst", "500", 1...1_000_000, "Actions that one device may send at once after a silence.")

    static let connections = Setting.count(
        "store.connections", "4", 1...64, "Connections to the database on which actions are applied.")

    static let queryConnections = Setting.count(
        "store.queryConnections", "2", 1...16, "Connections to the database on which snapshots are read.")

    static let lockTimeout = Setting.time(
        "store.lockTimeout", "300ms", .milliseconds(10) ... .seconds(5),
        "Time an action waits for rows that another writer has locked, before its device is told to send it again.")

    static let retainDays = Setting(
        "store.retainEvents", takes: "days", fallback: "7",
        "Days after which events are deleted, in the hour that follows; 0 leaves that to a job of yours.",
        parse: SettingValues.count(0...3650))

    static let rateRows = [
        userActionsPerSecond.row, userActionsBurst.row, deviceActionsPerSecond.row, deviceActionsBurst.row,
    ]

    static let rows = [connections.row, queryConnections.row, lockTimeout.row, retainDays.row]
}

/// How the database's changes are read.
enum FeedSettings {
    static let pollInterval = Setting.time(
        "feed.pollInterval", "1.5s", .milliseconds(100) ... .seconds(60),
        "The database is asked this often even if no notification came.")

    static let positionCheckInterval = Setting.time(
        "feed.positionCheckInterval", "30s", .seconds(1) ... .seconds(3600),
        "In this time every watched stream is compared with the database once.")

    static let heartbeatInterval = Setting.time(
        "feed.heartbeatInterval", "10s", .milliseconds(100) ... .seconds(600),
        "How often the listening connection is checked.")

    static let heartbeatTimeout = Setting.time(
        "feed.heartbeatTimeout", "5s", .milliseconds(100) ... .seconds(600),
        "Time that check may take before the connection is made anew.")

    static let rows = [pollInterval.row, positionCheckInterval.row, heartbeatInterval.row, heartbeatTimeout.row]
}

extension StoreConfiguration {
    /// All but where the database is.
    init(_ effective: EffectiveSettings) throws(Failure) {
        self.init(connectionString: "")
        connections = try effective.required(StoreSettings.connections)
        queryConnections = try effective.required(StoreSettings.queryConnections)
        lockTimeout = try effective.required(StoreSettings.lockTimeout)
        retainDays = try effective.required(StoreSettings.retainDays)
        userRate = Rate(
            perSecond: try effective.required(StoreSettings.userActionsPerSecond),
            burst: try effective.required(StoreSettings.userActionsBurst))
        deviceRate = Rate(
            perSecond: try effective.required(StoreSettings.deviceActionsPerSecond),
            burst: try effective.required(StoreSettings.deviceActionsBurst))
    }

    init(_ settings: Settings, _ url: String) {
        self = settings.store
        connectionString = url
    }
}

extension FeedConfiguration {
    /// All but where the database is, and what this program knows of it.
    init(_ effective: EffectiveSettings) throws(Failure) {
        self.init(connectionString: "")
        pollInterval = try effective.required(FeedSettings.pollInterval)
        positionCheckInterval = try effective.required(FeedSettings.positionCheckInterval)
        heartbeatInterval = try effective.required(FeedSettings.heartbeatInterval)
        heartbeatTimeout = try effective.required(FeedSettings.heartbeatTimeout)
        streamsPerUserMax = try effective.required(SubscriptionSettings.streamsPerUserMax)
    }

    init(_ settings: Settings, _ url: String, _ newestSchema: Int) {
        self = settings.feed
        connectionString = url
        schemaVersionKnown = max(Self.schemaVersionNeeded, Int64(newestSchema))
    }
}
