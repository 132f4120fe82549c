import Pusher

/// The ordinary channels of one shard, by app: looking at one app's costs nothing for others'. Also the current apps.
final class ChannelStates {
    private var perApp: ContiguousArray<[ChannelKey: ChannelState]> = []
    private(set) var count = 0
    /// By index.
    private var apps: ContiguousArray<App?> = []
    private let loops: Int
    private let limits: ShardLimits
    private let metrics: EngineMetrics

    init(loops: Int, _ limits: ShardLimits, _ metrics: EngineMetrics) {
        self.loops = loops
        self.limits = limits
        self.metrics = metrics
    }

    private(set) subscript(key: ChannelKey) -> ChannelState? {
        get { key.app < perApp.count ? perApp[key.app][key] : nil }
        set {
            while perApp.count <= key.app { perApp.append([:]) }
            let before = perApp[key.app].count
            perApp[key.app][key] = newValue
            count += perApp[key.app].count - before
        }
    }

    subscript(app: App) -> [ChannelKey: ChannelState] { app.index < perApp.count ? perApp[app.index] : [:] }

    /// The channel, made where it does not exist.
    ///
    /// - Parameter subscriptions: channels that the asking connection is in; nil: the app's backend asks.
    /// - Throws: why it is not made.
    func held(_ key: ChannelKey, of app: App, subscriptions: Int?) throws(SubscriptionRefusal) -> ChannelState {
        if let channel = self[key] { return channel }
        do throws(SubscriptionRefusal) {
            try metrics.channels.enter(
                app, subscriptions: subscriptions, most: limits.channelsMax, few: limits.fewChannels)
        } catch {
            app.counts.refused(.channels)
            throw error
        }
        let channel = ChannelState(key, loops: loops)
        self[key] = channel
        return channel
    }

    func removeIfUnused(_ channel: ChannelState) {
        // A departure that is ended early may be the one queued just now.
        guard channel.isUnused, self[channel.key] === channel, let app = app(of: channel) else { return }
        self[channel.key] = nil
        metrics.channels.leave(app)
    }

    // MARK: Apps

    func replace(_ app: App) {
        while apps.count <= app.index { apps.append(nil) }
        apps[app.index] = app
    }

    /// The app's current value: `app` itself where none is known, since a loop may hear of a change later than this shard.
    func known(_ app: App) -> App {
        if app.index < apps.count, let known = apps[app.index] { return known }
        replace(app)
        return app
    }

    func app(of channel: ChannelState) -> App? {
        channel.key.app < apps.count ? apps[channel.key.app] : nil
    }
}
