import Clock
import HubEngine
import Pusher

/// What the state in a shard's memory knows.
extension ChannelShard {
    var channelCount: Int { memory?.channelCount ?? 0 }
    var cachedBytes: Int { memory?.cachedBytes ?? 0 }
    var cacheEntryCount: Int { memory?.cacheEntryCount ?? 0 }
    var departureEntryCount: Int { memory?.departureEntryCount ?? 0 }

    func facts(of key: ChannelKey, now: Instant) -> ChannelFacts { memory?.facts(of: key, now: now) ?? ChannelFacts() }

    func users(in key: ChannelKey) -> [String] { memory?.users(in: key) ?? [] }

    func channels(of app: App, prefix: String, max: Int, now: Instant) -> [String: ChannelFacts] {
        let call = ChannelCall.list(app: app.index, prefix: prefix, most: max)
        return if case .list(let channels) = memory?.asked(call, now: now) { channels } else { [:] }
    }
}

extension MemoryChannels {
    func asked(_ call: ChannelCall, now: Instant) -> ChannelReply? {
        var news = ContiguousArray<ChannelNews>()
        return self.call(call, 0, from: .only, now: now, &news)
    }

    func facts(of key: ChannelKey, now: Instant) -> ChannelFacts {
        if case .facts(let facts) = asked(.facts(key), now: now) { facts } else { ChannelFacts() }
    }

    func users(in key: ChannelKey) -> [String] {
        if case .users(let users) = asked(.users(key), now: .min) { users } else { [] }
    }
}
