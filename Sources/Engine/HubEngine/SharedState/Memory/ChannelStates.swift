import Pusher

/// The ordinary channels of one shard, by app: looking at one app's costs nothing for others'. Also the current apps.
final class ChannelStates {
    private var perApp: ContiguousArray<[ChannelKey: ChannelState]> = []
    private(set) var count = 0
    /// Of the last change. Of all channels, so that one that is made again does not count from the beginning.
    private(set) var lastSequence: UInt64 = 0
    private var lastVersion: UInt64 = 0
    let apps: KnownApps
    private let limits: ShardLimits
    private let metrics: EngineMetrics

    init(_ apps: KnownApps, _ limits: ShardLimits, _ metrics: EngineMetrics) {
        self.apps = apps
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

    func ofApp(_ index: Int) -> [ChannelKey: ChannelState] { index < perApp.count ? perApp[index] : [:] }

    /// The channel, made where it does not exist.
    ///
    /// - Parameter subscriptions: channels that the asking connection is in; nil: the app's backend asks.
    /// - Throws: why it is not made.
    func held(_ key: ChannelKey, of app: App, subscriptions: Int?) throws(EntryRefusal) -> ChannelState {
        if let channel = self[key] { return channel }
        do throws(EntryRefusal) {
            try metrics.channels.enter(
                app, subscriptions: subscriptions, most: limits.channelsMax, few: limits.fewChannels)
        } catch {
            app.counts.refused(.channels)
            throw error
        }
        let channel = ChannelState(key, at: lastSequence)
        self[key] = channel
        return channel
    }

    func removeIfUnused(_ channel: ChannelState) {
        // A departure that is ended early may be the one queued just now.
        guard channel.isUnused, self[channel.key] === channel, let app = app(of: channel) else { return }
        self[channel.key] = nil
        metrics.channels.leave(app)
    }

    /// Each app's, for a look at all.
    var all: some Sequence<ChannelState> { perApp.lazy.flatMap(\.values) }

    func app(of channel: ChannelState) -> App? { apps[channel.key.app] }

    // MARK: Changes

    /// Makes the change the channel's next one. Hubs are told if they have connections in it.
    func tell(_ what: ChannelChange.What, _ channel: ChannelState, _ news: inout MemoryChannels.News) {
        let (follows, sequence) = advance(channel)
        guard channel.total > 0 else { return }
        news.append(.change(ChannelChange(key: channel.key, follows: follows, sequence: sequence, what: what)))
    }

    /// The sequence of the channel's next change, and of the one before.
    func advance(_ channel: ChannelState) -> (follows: UInt64, sequence: UInt64) {
        let follows = channel.sequence
        lastSequence &+= 1
        channel.sequence = lastSequence
        return (follows, lastSequence)
    }

    /// Another list of members is told from now on.
    func membersChanged(_ channel: ChannelState) {
        lastVersion &+= 1
        channel.listVersion = lastVersion
    }
}
