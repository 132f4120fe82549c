import Clock
import Metrics
import Pusher

/// The last events of the cache channels of one shard.
struct ChannelCache {
    private let channels: HomeChannels
    private let limits: HomeLimits
    private let metrics: EngineMetrics
    private(set) var order: CacheOrder
    private var lastNumber: UInt64 = 0

    init(of channels: HomeChannels, _ limits: HomeLimits, _ metrics: EngineMetrics) {
        self.channels = channels
        self.limits = limits
        self.metrics = metrics
        order = CacheOrder(bytesMax: limits.cacheBytesMax)
    }

    mutating func keep(
        _ publication: Publication, _ messages: SharedMessages, _ channel: HomeChannel, now: Instant
    ) {
        drop(channel)
        lastNumber &+= 1
        let cached = KeptEvent(
            event: publication.event, data: publication.data, messages: messages, entry: lastNumber,
            due: now.advanced(by: limits.cacheTime))
        channel.cached = cached
        metrics.cachedBytes.add(cached.size)
        order.append(CacheOrder.Entry(key: channel.key, number: cached.entry, due: cached.due), size: cached.size)
        while let oldest = order.popExcess() { forget(oldest) }
        order.sweep(of: channel.key.app) { [channels] in channels[$0.key]?.cached?.entry == $0.number }
    }

    /// Forgets one expired event. False where there is none.
    mutating func forgetNext(now: Instant) -> Bool {
        guard let entry = order.popFirst(dueBy: now) else { return false }
        forget(entry)
        return true
    }

    private mutating func forget(_ entry: CacheOrder.Entry) {
        guard let channel = channels[entry.key], channel.cached?.entry == entry.number else { return }
        drop(channel)
        channels.removeIfUnused(channel)
    }

    private mutating func drop(_ channel: HomeChannel) {
        guard let cached = channel.cached else { return }
        channel.cached = nil
        order.remove(size: cached.size, of: channel.key.app)
        metrics.cachedBytes.add(-cached.size)
    }
}
