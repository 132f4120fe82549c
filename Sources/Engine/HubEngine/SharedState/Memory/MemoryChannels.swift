import Bytes
import Clock
import Metrics
import Pusher

/// The shared state of ordinary channels in the memory of one process: the version of a hub that is alone, and the model for
/// all others. It replies at once.
///
/// Worst interleavings, each with its test in `SharedChannelsTests`, and all of them in `ChannelHistories`:
/// - A user's connection ends and another comes, to any hub, in either order. The user never counts as gone
///   (`PresenceTests.aUserWhoComesBackWasNeverGone`).
/// - A grace period ends when the user has come back and left again. Departures are numbered
///   (`PresenceTests.anOldDepartureEndsNothing`).
/// - A session joins and leaves as fast as it can. Counts, cache misses and members are reported with pauses, and the last
///   state always (`ChannelCountTests.aQuicklyChangingCountIsToldAtIntervals` and others).
/// - A hub dies while others think that it lives, and is reaped twice. What comes of it later is dropped.
package final class MemoryChannels: SharedChannels {
    typealias News = ContiguousArray<ChannelNews>

    private let limits: ShardLimits
    private let metrics: EngineMetrics
    private let apps: KnownApps
    private let channels: ChannelStates
    private var attendance: Attendance
    private var counts: CountThrottle
    private var cache: ChannelCache
    private var reaped: Set<HubID> = []

    /// No channels. `limits` are the bucket's own.
    package convenience init(limits: ShardLimits = ShardLimits(), metrics: EngineMetrics = EngineMetrics()) {
        self.init(KnownApps(), limits, metrics)
    }

    init(_ apps: KnownApps, _ limits: ShardLimits, _ metrics: EngineMetrics) {
        self.limits = limits
        self.metrics = metrics
        self.apps = apps
        channels = ChannelStates(apps, limits, metrics)
        attendance = Attendance(of: channels, limits, metrics)
        counts = CountThrottle(of: channels, limits, metrics)
        cache = ChannelCache(of: channels, limits, metrics)
    }

    /// Channels that somebody is in, or of which something is kept.
    package var channelCount: Int { channels.count }
    /// Bytes of all cached events, including what keeping them costs.
    package var cachedBytes: Int { cache.order.total }
    /// Entries in the eviction order of cached events.
    package var cacheEntryCount: Int { cache.order.slotCount }
    /// Entries in the departure queues.
    package var departureEntryCount: Int { attendance.departureEntryCount }

    /// The app's value has changed: the new one counts at once.
    package func replace(_ app: App) { apps.replace(app) }

    /// Whether the newcomer would be refused because connected members take all the room.
    func isFull(for member: PresenceMember, in key: ChannelKey, of app: App) -> Bool {
        attendance.isFull(for: member, in: key, of: app)
    }

    // MARK: Calls

    /// Carries out the call (`SharedChannels`). Calls about an app that is not known here, and of a hub that was reaped, are
    /// `unavailable`.
    package func call(
        _ call: ChannelCall, _ number: UInt64, from hub: HubID, now: Instant, _ news: inout ContiguousArray<ChannelNews>
    ) -> ChannelReply? {
        guard reaped.isEmpty || !reaped.contains(hub) else { return .unavailable(.notDone) }
        switch call {
        case .enter(let key, let entering):
            switch enter(key, entering, of: hub, now: now, &news) {
            case .success(let entered): return .entered(entered)
            case .failure(.unavailable): return .unavailable(.notDone)
            case .failure(let refusal): return .refused(refusal)
            }
        case .exit(let exit): self.exit(exit, of: hub, now: now, &news)
        case .publish(let key, let publication):
            guard let app = apps[key.app] else { return .unavailable(.notDone) }
            let published = publish(key, publication, of: app, now: now)
            if published.sequence > 0 {
                news.append(
                    .change(
                        ChannelChange(
                            key: key, follows: published.follows, sequence: published.sequence,
                            what: .published(publication, published.messages))))
            }
            return .facts(published.facts)
        case .relay(let key, let event, let webhook): relay(key, event, webhook, &news)
        case .facts(let key): return .facts(facts(of: key, channels[key], now: now))
        case .users(let key): return .users(channels[key]?.members.ids ?? [])
        case .list(let app, let prefix, let most): return .list(list(of: app, prefix, most, now: now))
        case .assert(let key, let attending): return assert(key, attending, of: hub, now: now, &news)
        case .reap(let dead): reap(dead, now: now, &news)
        case .due: due(now: now, &news)
        }
        return .done
    }

    // The calls of sessions and backends, which come most often: not by way of a `ChannelCall`, whose copies cost.

    func enter(
        _ key: ChannelKey, _ entering: Entering, of hub: HubID = .only, now: Instant, _ news: inout News
    ) -> Result<Entered, EntryRefusal> {
        guard let app = apps[key.app] else { return .failure(.unavailable) }
        let channel: ChannelState
        do throws(EntryRefusal) {
            channel = try channels.held(key, of: app, subscriptions: entering.subscriptions)
        } catch {
            return .failure(error)
        }
        if entering.isRepeated {
            if let member = entering.member, channel.members.says(member, attendance.bounds(app)) {
                attendance.says(member, channel, &news)
            }
            let entered = entered(
                channel, app, isRepeated: true, asksMembers: entering.asksMembers, of: hub, now: now, &news)
            // One that is new here was lost here: the hub asserts it.
            channels.removeIfUnused(channel)
            return .success(entered)
        }
        if let member = entering.member, !attendance.makesRoom(for: member, channel, app, &news) {
            app.counts.refused(.presenceMembers)
            channels.removeIfUnused(channel)
            return .failure(.tooManyMembers)
        }
        if channel.total == 0 { attendance.occupied(channel, app, &news) }
        if let member = entering.member { attendance.arrived(member, of: hub, channel, app, now: now, &news) }
        channel.add(1, of: hub)
        let entered = entered(
            channel, app, isRepeated: false, asksMembers: entering.asksMembers, of: hub, now: now, &news)
        counts.changed(channel, app, now: now, &news)
        return .success(entered)
    }

    func exit(_ exit: ChannelExit, of hub: HubID = .only, now: Instant, _ news: inout News) {
        guard let channel = channels[exit.key], let app = channels.app(of: channel), channel.count(of: hub) > 0 else {
            return
        }
        channel.add(-1, of: hub)
        if let user = exit.userID, channel.members.leave(user, of: hub) {
            attendance.left(user, channel, app, mayReturn: exit.mayReturn, now: now, &news)
        }
        counts.changed(channel, app, now: now, &news)
        if channel.total == 0 { attendance.vacated(channel, app, now: now, &news) }
        attendance.trimDepartures(of: exit.key.app, &news)
        channels.removeIfUnused(channel)
    }

    func relay(_ key: ChannelKey, _ event: RelayedEvent, _ webhook: WebhookEvent?, _ news: inout News) {
        guard let channel = channels[key], channel.total > 0 else { return }
        channels.tell(.relayed(event), channel, &news)
        if let webhook { news.append(.webhook(app: key.app, webhook)) }
    }

    /// What became of a publication.
    struct Published {
        /// The channel's, as they are afterwards.
        var facts: ChannelFacts
        /// The change's, and the one's before; 0: nobody is in the channel to be told.
        var sequence: UInt64 = 0
        var follows: UInt64 = 0
        /// What all are sent of an event that is kept.
        var messages: SharedMessages?
    }

    func publish(_ key: ChannelKey, _ publication: Publication, of app: App, now: Instant) -> Published {
        let isKept = key.name.kind.isCache && limits.cacheBytesMax > 0
        // Where nobody is in it, and there is no room for it, it keeps no event.
        let known = isKept ? try? channels.held(key, of: app, subscriptions: nil) : channels[key]
        guard let channel = known else { return Published(facts: facts(of: key, nil, now: now)) }
        guard isKept || channel.total > 0 else { return Published(facts: facts(of: key, channel, now: now)) }
        let (follows, sequence) = channels.advance(channel)
        let messages = isKept ? SharedMessages(.published(publication)) : nil
        if let messages {
            counts.endMissSilence(channel)
            cache.keep(publication, messages, channel, now: now)
        }
        let facts = facts(of: key, channel, now: now)
        guard channel.total > 0 else { return Published(facts: facts) }
        return Published(facts: facts, sequence: sequence, follows: follows, messages: messages)
    }

    // MARK: What is known

    private func entered(
        _ channel: ChannelState, _ app: App, isRepeated: Bool, asksMembers: Bool = true, of hub: HubID, now: Instant,
        _ news: inout News
    ) -> Entered {
        var entered = Entered(sequence: channel.sequence)
        if channel.name.kind.isCache {
            if let cached = channel.cached, cached.due > now {
                entered.cached = .event(cached.publication, cached.messages)
            } else {
                entered.cached = .miss
                if !isRepeated { counts.missed(channel, app, now: now, &news) }
            }
        }
        // The count is sent here only where it is not about to be told to everybody.
        if counts.owesNewcomer(channel, app, now: now) { entered.count = channel.total }
        if channel.name.kind.isPresence, asksMembers {
            entered.members = Entered.Members(
                list: channel.members.list(), version: channel.listVersion,
                each: hub == .only ? nil : channel.members.each)
        }
        return entered
    }

    private func facts(of key: ChannelKey, _ channel: ChannelState?, now: Instant) -> ChannelFacts {
        var facts = ChannelFacts()
        facts.subscriptionCount = channel?.total ?? 0
        if key.name.kind.isPresence { facts.userCount = channel?.members.count ?? 0 }
        if let cached = channel?.cached, cached.due > now {
            let seconds = cached.due.duration(since: now).secondsRoundedUp
            facts.cached = CachedEvent(
                name: cached.publication.event, data: cached.publication.data, secondsLeft: seconds)
        }
        return facts
    }

    private func list(of app: Int, _ prefix: String, _ most: Int, now: Instant) -> [String: ChannelFacts] {
        var found: [String: ChannelFacts] = [:]
        for (key, channel) in channels.ofApp(app) where key.name.string.utf8.starts(with: prefix.utf8) {
            var facts = facts(of: key, channel, now: now)
            guard facts.isOccupied else { continue }
            facts.cached = nil
            found[key.name.string] = facts
            if found.count > most { break }
        }
        return found
    }

    // MARK: Hubs

    /// The hub has this in the channel, whatever was known. Bounds on members do not count: they are connected.
    private func assert(
        _ key: ChannelKey, _ attending: Attending, of hub: HubID, now: Instant, _ news: inout News
    ) -> ChannelReply {
        guard let app = apps[key.app] else { return .unavailable(.notDone) }
        let isThere = attending.connections > 0
        guard let channel = isThere ? try? channels.held(key, of: app, subscriptions: nil) : channels[key] else {
            return isThere ? .refused(.channelsFull) : .entered(Entered(sequence: channels.lastSequence))
        }
        let before = channel.total
        if before == 0, isThere { attendance.occupied(channel, app, &news) }
        channel.add(attending.connections - channel.count(of: hub), of: hub)
        var rest = Dictionary(channel.members.users(of: hub).map { (TextKey($0), $0) }) { first, _ in first }
        for known in attending.members {
            rest[TextKey(known.member.id)] = nil
            let missing = known.connections - channel.members.connections(of: known.member.id, to: hub)
            for _ in 0..<max(0, missing) { attendance.arrived(known.member, of: hub, channel, app, now: now, &news) }
            leave(known.member.id, -missing, of: hub, channel, app, now: now, &news)
        }
        // Who leaves at the same time gives way in the order of ids.
        for user in rest.values.sorted() {
            let all = channel.members.connections(of: user, to: hub)
            leave(user, all, of: hub, channel, app, now: now, &news)
        }
        if channel.total != before { counts.changed(channel, app, now: now, &news) }
        if channel.total == 0, before > 0 { attendance.vacated(channel, app, now: now, &news) }
        var entered = entered(channel, app, isRepeated: true, of: hub, now: now, &news)
        if counts.tellsCounts(channel, app) { entered.count = channel.total }
        attendance.trimDepartures(of: key.app, &news)
        channels.removeIfUnused(channel)
        return .entered(entered)
    }

    private func leave(
        _ user: String, _ connections: Int, of hub: HubID, _ channel: ChannelState, _ app: App, now: Instant,
        _ news: inout News
    ) {
        for _ in 0..<max(0, connections) where channel.members.leave(user, of: hub) {
            attendance.left(user, channel, app, mayReturn: true, now: now, &news)
        }
    }

    private func reap(_ hub: HubID, now: Instant, _ news: inout News) {
        reaped.insert(hub)
        for channel in Array(channels.all) where channel.count(of: hub) > 0 {
            _ = assert(channel.key, Attending(), of: hub, now: now, &news)
        }
    }

    // MARK: With time

    /// The earliest time at which `ChannelCall.due` has work; nil if nothing waits.
    package var nextDue: Instant? {
        let due = Self.nextDue(&attendance, &counts, &cache)
        return due == .max ? nil : due
    }

    /// `inout`, because properties would be copied before they are asked, at each input: 40 reference counts.
    private static func nextDue(
        _ attendance: inout Attendance, _ counts: inout CountThrottle, _ cache: inout ChannelCache
    ) -> Instant {
        min(attendance.nextDue, counts.nextDue, cache.order.first?.due ?? .max)
    }

    /// Within the limits of one turn: thousands may leave at once, and each leave is told to all who stay.
    private func due(now: Instant, _ news: inout News) {
        var (told, seen) = (0, news.count)
        for _ in 0..<limits.dueAtOnceMax {
            guard told < limits.toldAtOnceMax,
                attendance.endNext(now: now, &news) || counts.endNext(now: now, &news) || cache.forgetNext(now: now)
            else { return }
            for case .change(let change) in news[seen...] { told += channels[change.key]?.total ?? 0 }
            seen = news.count
        }
    }
}
