import Bytes
import Clock
import Metrics
import Pusher

/// The last events of cache channels, within a bound.
///
/// Beyond the bound, the app that holds most loses its oldest event, but never its last one, however large that is.
struct ChannelCache {
    /// An entry in the eviction order. Stale once its channel has a newer event.
    struct Entry {
        let key: ChannelKey
        let number: UInt64
        /// When it is forgotten.
        let due: Instant
    }

    private let channels: ChannelStates
    private let limits: ShardLimits
    private let metrics: EngineMetrics
    /// By the app's index.
    private(set) var order: SharedOrder<Int, Entry>

    init(of channels: ChannelStates, _ limits: ShardLimits, _ metrics: EngineMetrics) {
        self.channels = channels
        self.limits = limits
        self.metrics = metrics
        order = SharedOrder(bound: limits.cacheBytesMax, spared: 1)
    }

    /// Keeps the event, which the channel's last change has told.
    mutating func keep(
        _ publication: Publication, _ messages: SharedMessages, _ channel: ChannelState, now: Instant
    ) {
        drop(channel)
        let cached = KeptEvent(
            publication: publication, messages: messages, entry: channel.sequence,
            due: now.advanced(by: limits.cacheTime))
        channel.cached = cached
        metrics.cachedBytes.add(cached.size)
        let entry = Entry(key: channel.key, number: cached.entry, due: cached.due)
        order.append(entry, of: channel.key.app, size: cached.size)
        while let oldest = order.popExcess() { forget(oldest) }
        order.sweep(of: channel.key.app) { [channels] in channels[$0.key]?.cached?.entry == $0.number }
    }

    /// Forgets one expired event. False if there is none.
    mutating func forgetNext(now: Instant) -> Bool {
        guard let entry = order.popFirst(if: { $0.due <= now }) else { return false }
        forget(entry)
        return true
    }

    private mutating func forget(_ entry: Entry) {
        guard let channel = channels[entry.key], channel.cached?.entry == entry.number else { return }
        drop(channel)
        channels.removeIfUnused(channel)
    }

    private mutating func drop(_ channel: ChannelState) {
        guard let cached = channel.cached else { return }
        channel.cached = nil
        order.leave(of: channel.key.app, size: cached.size)
        metrics.cachedBytes.add(-cached.size)
    }
}
