import Bytes
import Clock
import Metrics
import Pusher

/// What an app's backend publishes, and what it asks.
extension ChannelHome {
    /// Publishes to a channel, and tells what is known of it afterwards.
    package mutating func publish(
        _ publication: Publication, of app: App, now: Instant, _ effects: inout Effects
    ) -> ChannelFacts {
        let app = known(app)
        let key = ChannelKey(app.index, publication.channel)
        metrics.published.add()
        app.counts.published.add()
        let isKept = publication.channel.kind.isCache && limits.cacheBytesMax > 0
        let known: HomeChannel?
        do throws(SubscriptionRefusal) {
            known = isKept ? try channel(key, of: app, subscriptions: nil) : channels[key]
        } catch {
            // Nobody is in it, and there is no room to keep the event.
            known = nil
            app.counts.refused(.channels)
        }
        guard let channel = known else { return facts(of: key, now: now) }
        guard isKept || !channel.loops.isEmpty else { return facts(of: key, now: now) }
        let except = publication.except.map { Exclusion.socket($0) }
        if isKept {
            let messages = SharedMessages(.published(publication))
            broadcast(.kept(messages), channel, except: except, isEvent: true, &effects)
            keep(publication, messages, channel, now: now)
        } else {
            broadcast(.passing(.published(publication)), channel, except: except, isEvent: true, &effects)
        }
        return facts(of: key, now: now)
    }

    /// What is known of a channel.
    package func facts(of key: ChannelKey, now: Instant) -> ChannelFacts {
        facts(of: key, channels[key], now: now)
    }

    private func facts(of key: ChannelKey, _ channel: HomeChannel?, now: Instant) -> ChannelFacts {
        var facts = ChannelFacts()
        facts.subscriptionCount = channel?.total ?? 0
        if key.name.kind.isPresence { facts.userCount = channel?.members.count ?? 0 }
        if let cached = channel?.cached, cached.due > now {
            let seconds = cached.due.duration(since: now).secondsRoundedUp
            facts.cached = CachedEvent(name: cached.event, data: cached.data, secondsLeft: seconds)
        }
        return facts
    }

    /// The loops that have somebody in the channel.
    package func loops(in key: ChannelKey) -> LoopSet { channels[key]?.loops ?? [] }

    /// The app's occupied channels here whose names begin with `prefix`.
    ///
    /// - Parameter isEnough: asked behind each that is found, whether no more are wanted.
    package func channels(
        of app: App, prefix: String, now: Instant, until isEnough: () -> Bool
    ) -> [String: ChannelFacts] {
        var found: [String: ChannelFacts] = [:]
        for (key, channel) in channels[app] where key.name.string.utf8.starts(with: prefix.utf8) {
            let facts = facts(of: key, channel, now: now)
            guard facts.isOccupied else { continue }
            found[key.name.string] = facts
            if isEnough() { break }
        }
        return found
    }

    /// The ids of the users in a channel.
    package func users(in key: ChannelKey) -> [String] { channels[key]?.members.ids ?? [] }

    // MARK: The cache

    private mutating func keep(
        _ publication: Publication, _ messages: SharedMessages, _ channel: HomeChannel, now: Instant
    ) {
        drop(channel)
        endMissSilence(channel)
        let cached = KeptEvent(
            event: publication.event, data: publication.data, messages: messages, entry: nextNumber(),
            due: now.advanced(by: limits.cacheTime))
        channel.cached = cached
        metrics.cachedBytes.add(cached.size)
        cache.append(CacheOrder.Entry(key: channel.key, number: cached.entry, due: cached.due), size: cached.size)
        while let oldest = cache.popExcess() { forget(oldest) }
        let channels = channels
        cache.sweep(of: channel.key.app) { channels[$0.key]?.cached?.entry == $0.number }
    }

    mutating func forget(_ entry: CacheOrder.Entry) {
        guard let channel = channels[entry.key], channel.cached?.entry == entry.number else { return }
        drop(channel)
        removeIfUnused(channel)
    }

    private mutating func drop(_ channel: HomeChannel) {
        guard let cached = channel.cached else { return }
        channel.cached = nil
        cache.remove(size: cached.size, of: channel.key.app)
        metrics.cachedBytes.add(-cached.size)
    }
}
