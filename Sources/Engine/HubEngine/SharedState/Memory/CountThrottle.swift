import Bytes
import Clock
import Metrics
import Pusher

/// Throttles how often subscriber counts and cache misses are told, however fast clients come and go.
struct CountThrottle {
    typealias News = MemoryChannels.News

    /// The quiet period of a channel that has told something. Stale once its channel names another one.
    private struct Silence {
        let key: ChannelKey
        let number: UInt64
        let due: Instant
    }

    private let channels: ChannelStates
    private let limits: ShardLimits
    private let metrics: EngineMetrics
    /// Channels with few subscribers and with many whose count was told a moment ago, and channels whose miss was. By the
    /// app's index, each in the order of the ends.
    private var prompt: SharedOrder<Int, Silence>
    private var long: SharedOrder<Int, Silence>
    private var misses: SharedOrder<Int, Silence>
    private var lastNumber: UInt64 = 0

    init(of channels: ChannelStates, _ limits: ShardLimits, _ metrics: EngineMetrics) {
        self.channels = channels
        self.limits = limits
        self.metrics = metrics
        prompt = SharedOrder(bound: limits.silencesMax)
        long = SharedOrder(bound: limits.silencesMax)
        misses = SharedOrder(bound: limits.silencesMax)
    }

    /// When the first quiet period ends; in the far future if there is none.
    @inline(__always) var nextDue: Instant {
        min(prompt.first?.due ?? .max, long.first?.due ?? .max, misses.first?.due ?? .max)
    }

    /// Ends one quiet period that is over. False if none is.
    mutating func endNext(now: Instant, _ news: inout News) -> Bool {
        let isOver = { (silence: Silence) in silence.due <= now }
        if let silence = prompt.popFirst(if: isOver) ?? long.popFirst(if: isOver) {
            endCountSilence(silence, staysSilent: true, now: now, &news)
        } else if let silence = misses.popFirst(if: isOver) {
            endMissSilence(silence)
        } else {
            return false
        }
        return true
    }

    private mutating func nextNumber() -> UInt64 {
        lastNumber &+= 1
        return lastNumber
    }

    // MARK: Counts

    func tellsCounts(_ channel: ChannelState, _ app: App) -> Bool {
        app.features.subscriptionCounts && !channel.name.kind.isPresence
    }

    /// Whether the count was told so recently that a change has to wait.
    private func isSilent(_ channel: ChannelState, now: Instant) -> Bool {
        guard channel.countSilence != 0 else { return false }
        // A channel that now has few subscribers does not wait as long as one with many.
        return !channel.isSilentForLong || channel.total > limits.promptCountsMax
            || now < channel.countToldAt.advanced(by: limits.promptInterval)
    }

    /// Whether a newcomer is told the count alone, because the others are not told now.
    func owesNewcomer(_ channel: ChannelState, _ app: App, now: Instant) -> Bool {
        tellsCounts(channel, app) && isSilent(channel, now: now)
    }

    mutating func changed(_ channel: ChannelState, _ app: App, now: Instant, _ news: inout News) {
        guard tellsCounts(channel, app) else { return }
        guard isSilent(channel, now: now) else {
            return tellCount(channel, app, staysSilent: true, now: now, &news)
        }
        channel.owesCount = true
        guard channel.isSilentForLong, channel.total <= limits.promptCountsMax else { return }
        endCountSilence(channel)
        beginCountSilence(channel, now: now, &news)
    }

    private mutating func tellCount(
        _ channel: ChannelState, _ app: App, staysSilent: Bool, now: Instant, _ news: inout News
    ) {
        endCountSilence(channel)
        channel.owesCount = false
        channel.countToldAt = now
        if channel.total > 0 { channels.tell(.count(channel.total), channel, &news) }
        let isHeard = channel.total > 0 || app.features.webhooks.contains(.subscriptionCount)
        if app.features.webhooks.contains(.subscriptionCount) {
            news.append(.webhook(app: app.index, .subscriptionCount(channel.name, channel.total)))
        }
        if staysSilent, isHeard { beginCountSilence(channel, now: now, &news) }
    }

    private mutating func beginCountSilence(_ channel: ChannelState, now: Instant, _ news: inout News) {
        channel.isSilentForLong = channel.total > limits.promptCountsMax
        let silences = channel.isSilentForLong ? \Self.long : \.prompt
        let due = now.advanced(by: channel.isSilentForLong ? limits.countInterval : limits.promptInterval)
        channel.countSilence = nextNumber()
        self[keyPath: silences].append(
            Silence(key: channel.key, number: channel.countSilence, due: due), of: channel.key.app)
        while let oldest = self[keyPath: silences].popExcess() {
            endCountSilence(oldest, staysSilent: false, now: now, &news)
        }
        self[keyPath: silences].sweep(of: channel.key.app) { [channels] in
            channels[$0.key]?.countSilence == $0.number
        }
    }

    private mutating func endCountSilence(_ channel: ChannelState) {
        guard channel.countSilence != 0 else { return }
        if channel.isSilentForLong { long.leave(of: channel.key.app) } else { prompt.leave(of: channel.key.app) }
        channel.countSilence = 0
    }

    /// A quiet period is over: tells a count that changed in it.
    private mutating func endCountSilence(
        _ silence: Silence, staysSilent: Bool, now: Instant, _ news: inout News
    ) {
        guard let channel = channels[silence.key], channel.countSilence == silence.number else { return }
        if channel.owesCount, let app = channels.app(of: channel), tellsCounts(channel, app) {
            tellCount(channel, app, staysSilent: staysSilent, now: now, &news)
        } else {
            endCountSilence(channel)
            channel.owesCount = false
        }
        channels.removeIfUnused(channel)
    }

    // MARK: Cache misses

    mutating func missed(_ channel: ChannelState, _ app: App, now: Instant, _ news: inout News) {
        metrics.cacheMisses.add()
        guard app.features.webhooks.contains(.cacheChannels), channel.missSilence == 0 else { return }
        news.append(.webhook(app: app.index, .cacheMiss(channel.name)))
        channel.missSilence = nextNumber()
        let due = now.advanced(by: limits.missInterval)
        misses.append(Silence(key: channel.key, number: channel.missSilence, due: due), of: channel.key.app)
        while let oldest = misses.popExcess() { endMissSilence(oldest) }
        misses.sweep(of: channel.key.app) { [channels] in channels[$0.key]?.missSilence == $0.number }
    }

    /// An event is kept again: the next miss is news.
    mutating func endMissSilence(_ channel: ChannelState) {
        guard channel.missSilence != 0 else { return }
        channel.missSilence = 0
        misses.leave(of: channel.key.app)
    }

    private mutating func endMissSilence(_ silence: Silence) {
        guard let channel = channels[silence.key], channel.missSilence == silence.number else { return }
        endMissSilence(channel)
        channels.removeIfUnused(channel)
    }
}
