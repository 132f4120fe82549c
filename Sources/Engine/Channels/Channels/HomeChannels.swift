import Pusher

/// The ordinary channels of one home, by app: what is asked about one app's costs nothing for those of others. And the apps as
/// they are now, as far as they were seen.
final class HomeChannels {
    private var perApp: ContiguousArray<[ChannelKey: HomeChannel]> = []
    private(set) var count = 0
    /// By index.
    private var apps: ContiguousArray<App?> = []
    private let loops: Int
    private let limits: HomeLimits
    private let metrics: EngineMetrics

    init(loops: Int, _ limits: HomeLimits, _ metrics: EngineMetrics) {
        self.loops = loops
        self.limits = limits
        self.metrics = metrics
    }

    private(set) subscript(key: ChannelKey) -> HomeChannel? {
        get { key.app < perApp.count ? perApp[key.app][key] : nil }
        set {
            while perApp.count <= key.app { perApp.append([:]) }
            let before = perApp[key.app].count
            perApp[key.app][key] = newValue
            count += perApp[key.app].count - before
        }
    }

    /// The channels of one app.
    subscript(app: App) -> [ChannelKey: HomeChannel] { app.index < perApp.count ? perApp[app.index] : [:] }

    /// The channel, made where it is not held.
    ///
    /// - Parameter subscriptions: how many channels the connection is in that asks; nil: the app's backend does.
    /// - Throws: why it is not to be made.
    func held(_ key: ChannelKey, of app: App, subscriptions: Int?) throws(SubscriptionRefusal) -> HomeChannel {
        if let channel = self[key] { return channel }
        do throws(SubscriptionRefusal) {
            try metrics.channels.enter(
                app, subscriptions: subscriptions, most: limits.channelsMax, few: limits.fewChannels)
        } catch {
            app.counts.refused(.channels)
            throw error
        }
        let channel = HomeChannel(key, loops: loops)
        self[key] = channel
        return channel
    }

    func removeIfUnused(_ channel: HomeChannel) {
        // A departure that is ended early may have been the one that was entered just now.
        guard channel.isUnused, self[channel.key] === channel, let app = app(of: channel) else { return }
        self[channel.key] = nil
        metrics.channels.leave(app)
    }

    // MARK: Apps

    /// The app's value has changed: it counts at once.
    func replace(_ app: App) {
        while apps.count <= app.index { apps.append(nil) }
        apps[app.index] = app
    }

    /// The app as it is now, for a loop may have heard of a change later than this home; seen from here on.
    func known(_ app: App) -> App {
        if app.index < apps.count, let known = apps[app.index] { return known }
        replace(app)
        return app
    }

    func app(of channel: HomeChannel) -> App? {
        channel.key.app < apps.count ? apps[channel.key.app] : nil
    }
}
