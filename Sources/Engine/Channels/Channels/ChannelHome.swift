import Bytes
import Clock
import Metrics
import Pusher

/// The ordinary channels whose home is one loop: who is in them over all loops, by numbers, users and loops, what was
/// published last, and what their apps' backends are told.
///
/// A session becomes a subscriber on its loop when the answer comes, never before, and answers and broadcasts leave for a
/// loop by one mailbox in the order in which they are decided here. So a newcomer gets the cached event and all that is
/// published behind it, once and in order; is told who is there, and then of each who comes or goes; and never hears of
/// itself. A loop tells of each session that was let in and has left, once.
///
/// Worst interleavings, each with its test in `ChannelHomeTests`, and all of them in `ChannelHistories`:
/// - a session leaves while its answer is under way: its loop finds nobody to take the answer, and tells of the leave
///   then; a refused one is never told of (`aSubscribeTakenBackIsTakenBackAtHome`);
/// - pusher-js subscribes, unsubscribes and subscribes at once: the second answer makes it live, the first is given back,
///   and its user was there all the time (`subscribeUnsubscribeSubscribe`);
/// - a user's connection ends and another comes, on any loop, in either order: in neither is the user gone
///   (`PresenceTests.aUserWhoComesBackWasNeverGone`);
/// - the end of a grace is due when the user has come back and gone again: departures are numbered
///   (`PresenceTests.anOldDepartureEndsNothing`);
/// - a session comes and goes as fast as it can: counts, cache misses and who is there are told now and then, and the last
///   of it always (`ChannelCountTests.whoComesAndGoesQuicklyIsToldOfNowAndThen` and its like).
package struct ChannelHome {
    package typealias Effects = ContiguousArray<Effect>

    package enum Effect: Sendable {
        /// Send the answer to the loop.
        case answer(loop: Int, ChannelAnswer)
        /// Tell it to the channel's subscribers on each loop of the set, but to that one.
        /// `isEvent`: it is what a backend or a client has to say, and not of who comes and goes.
        case broadcast(loops: LoopSet, ChannelKey, Broadcast, except: Exclusion?, isEvent: Bool)
        /// Have the app's backend told.
        case webhook(App, WebhookEvent)
    }

    let limits: HomeLimits
    let metrics: EngineMetrics
    private let loops: Int
    var channels = ChannelTable()
    /// The apps as they are now, by index, as far as they were seen.
    private var apps: ContiguousArray<App?> = []
    /// Users who are about to be gone, and channels.
    var userDepartures: DepartureOrder
    var channelDepartures: DepartureOrder
    /// Channels with few subscribers and with many whose count was told a moment ago, and those that were missed.
    var promptSilences: Silences
    var longSilences: Silences
    var missSilences: Silences
    var cache: CacheOrder
    /// Those that were told of something by broadcasts, modulo 2^64.
    private(set) var subscribersTold: UInt64 = 0
    /// Numbers departures, silences and cached events.
    private var lastNumber: UInt64 = 0

    package init(loops: Int, limits: HomeLimits = HomeLimits(), metrics: EngineMetrics = EngineMetrics()) {
        self.loops = loops
        self.limits = limits
        self.metrics = metrics
        promptSilences = Silences(of: limits.promptInterval)
        longSilences = Silences(of: limits.countInterval)
        missSilences = Silences(of: limits.missInterval)
        cache = CacheOrder(bytesMax: limits.cacheBytesMax)
        userDepartures = DepartureOrder(countMax: limits.departuresMax)
        channelDepartures = DepartureOrder(countMax: limits.departuresMax)
    }

    /// Channels that somebody is in, or of which something is kept.
    package var channelCount: Int { channels.count }
    /// Of all cached events, with what it costs to keep them.
    package var cachedBytes: Int { cache.bytes }
    /// What their order takes, in entries.
    package var cacheEntryCount: Int { cache.entryCount }
    /// What departures take, in entries.
    package var departureEntryCount: Int { userDepartures.entryCount + channelDepartures.entryCount }

    /// The app's value has changed: it counts at once.
    package mutating func replace(_ app: App) {
        while apps.count <= app.index { apps.append(nil) }
        apps[app.index] = app
    }

    /// The app of a channel, as it is now: a loop may have heard of a change later than this home.
    private func current(_ app: App) -> App {
        app.index < apps.count ? apps[app.index] ?? app : app
    }

    func app(of channel: HomeChannel) -> App? {
        channel.key.app < apps.count ? apps[channel.key.app] : nil
    }

    mutating func nextNumber() -> UInt64 {
        lastNumber &+= 1
        return lastNumber
    }

    // MARK: Inputs

    /// A loop says something about one of its sessions.
    package mutating func received(_ request: ChannelRequest, from loop: Int, now: Instant, _ effects: inout Effects) {
        switch request {
        case .enter(let entry): enter(entry, from: loop, now: now, &effects)
        case .exit(let exit): self.exit(exit, from: loop, now: now, &effects)
        case .relay(let relay): self.relay(relay, from: loop, &effects)
        }
    }

    private mutating func enter(_ entry: ChannelEntry, from loop: Int, now: Instant, _ effects: inout Effects) {
        let app = known(entry.app)
        let channel: HomeChannel
        do throws(SubscriptionRefusal) {
            channel = try self.channel(entry.key, of: app, subscriptions: entry.subscriptionCount)
        } catch {
            app.counts.refused(.channels)
            return effects.append(.answer(loop: loop, .refused(entry.session, serial: entry.serial, error)))
        }
        if entry.isRepeated {
            if let member = entry.member, channel.members.says(member, bounds(app)) { channel.membersChanged() }
            effects.append(.answer(loop: loop, .entered(answer(to: entry, channel, app, now: now, &effects))))
            return
        }
        if let member = entry.member, !makesRoom(for: member, channel, app, &effects) {
            app.counts.refused(.presenceMembers)
            effects.append(
                .answer(loop: loop, .refused(entry.session, serial: entry.serial, .tooManyMembers)))
            return removeIfUnused(channel)
        }
        if channel.total == 0 { occupied(channel, app, &effects) }
        if let member = entry.member { arrived(member, channel, app, now: now, &effects) }
        channel.add(loop)
        let answer = answer(to: entry, channel, app, now: now, &effects)
        effects.append(.answer(loop: loop, .entered(answer)))
        countChanged(channel, app, now: now, &effects)
    }

    private mutating func exit(_ exit: ChannelExit, from loop: Int, now: Instant, _ effects: inout Effects) {
        guard let channel = channels[exit.key], let app = app(of: channel), channel.subtract(loop) else { return }
        if let user = exit.userID, channel.members.leave(user) {
            left(user, channel, app, mayReturn: exit.mayReturn, now: now, &effects)
        }
        countChanged(channel, app, now: now, &effects)
        if channel.total == 0 { vacated(channel, app, now: now, &effects) }
        trimDepartures(of: exit.key.app, &effects)
        removeIfUnused(channel)
    }

    private mutating func relay(_ relay: ChannelRelay, from loop: Int, _ effects: inout Effects) {
        guard let channel = channels[relay.key] else { return }
        let messages = relay.data.withUnsafeBytes {
            Messages.clientEvent(relay.event, relay.key.name, data: $0, userID: relay.userID)
        }
        broadcast(.passing(messages), channel, except: .session(relay.sender, loop: loop), isEvent: true, &effects)
        if let event = relay.webhook { effects.append(.webhook(known(relay.app), event)) }
    }

    // MARK: Occupied and vacant

    private mutating func occupied(_ channel: HomeChannel, _ app: App, _ effects: inout Effects) {
        if channel.vacating != 0 {
            channel.vacating = 0
            channelDepartures.end(of: channel.key.app)
        } else if channel.owesVacated {
            channel.owesVacated = false
        } else if app.features.webhooks.contains(.channelExistence) {
            effects.append(.webhook(app, .channelOccupied(channel.name)))
        }
    }

    private mutating func vacated(_ channel: HomeChannel, _ app: App, now: Instant, _ effects: inout Effects) {
        guard app.features.webhooks.contains(.channelExistence) else { return }
        guard limits.webhookPause > .zero else { return tellVacated(channel, app, &effects) }
        channel.vacating = nextNumber()
        channelDepartures.append(
            Departure(
                key: channel.key, user: nil, number: channel.vacating,
                due: now.advanced(by: limits.webhookPause)))
    }

    // MARK: Members

    /// Whether the newcomer would be refused for connections that the channel's members have.
    package func isFull(for entry: ChannelEntry) -> Bool {
        guard let member = entry.member, let channel = channels[entry.key] else { return false }
        return !channel.members.mayHaveRoom(for: member, bounds(entry.app))
    }

    private func bounds(_ app: App) -> MemberBounds {
        MemberBounds(countMax: current(app).limits.presenceMembersMax, bytesMax: limits.membersBytesMax)
    }

    /// Whether the user may come, with this to say: who has left gives way, the first of them first, if that is enough. Only
    /// users who are connected hold their places against a newcomer.
    private mutating func makesRoom(
        for member: PresenceMember, _ channel: HomeChannel, _ app: App, _ effects: inout Effects
    ) -> Bool {
        let bounds = bounds(app)
        guard channel.members.mayHaveRoom(for: member, bounds) else { return false }
        while !channel.members.hasRoom(for: member, bounds) {
            guard let user = channel.members.firstToLeave() else { return false }
            // The user is back, and stays.
            if user.hasSameBytes(as: member.id) { continue }
            userDepartures.end(of: channel.key.app)
            removed(user, channel, &effects)
            tellRemoved(user, channel, app, &effects)
        }
        return true
    }

    private mutating func arrived(
        _ member: PresenceMember, _ channel: HomeChannel, _ app: App, now: Instant, _ effects: inout Effects
    ) {
        let arrival = channel.members.arrive(member, settledAt: now.advanced(by: limits.leaveGrace))
        switch arrival {
        case .further(let isNews):
            if isNews { channel.membersChanged() }
        case .back(let isNews):
            userDepartures.end(of: channel.key.app)
            if isNews { channel.membersChanged() }
        case .first, .again, .anew:
            metrics.members.add(1)
            channel.membersChanged()
            if !channel.loops.isEmpty {
                broadcast(.passing(.memberAdded(channel.name, member)), channel, &effects)
            }
            if arrival != .first { userDepartures.end(of: channel.key.app) }
            if arrival != .again, app.features.webhooks.contains(.presence) {
                effects.append(.webhook(app, .memberAdded(channel.name, userID: member.id)))
            }
        }
    }

    /// The user's last session has left. Who says so itself is gone at once, but not if it had just done the same: everybody
    /// would be told of it as often as it likes. The app's backend hears of it after a pause in any case (Pusher's
    /// "Webhooks"), if the user is not back.
    private mutating func left(
        _ user: String, _ channel: HomeChannel, _ app: App, mayReturn: Bool, now: Instant, _ effects: inout Effects
    ) {
        let number = nextNumber()
        if limits.leaveGrace > .zero, mayReturn || channel.members.isUnsettled(user, now: now) {
            channel.members.linger(user, until: number)
        } else {
            removed(user, channel, &effects)
            channel.members.remember(user, until: number)
        }
        depart(user, number, channel, app, now: now, &effects)
    }

    mutating func removed(_ user: String, _ channel: HomeChannel, _ effects: inout Effects) {
        channel.members.remove(user)
        channel.membersChanged()
        metrics.members.add(-1)
        if !channel.loops.isEmpty {
            broadcast(.passing(.memberRemoved(channel.name, id: user)), channel, &effects)
        }
    }

    func tellRemoved(_ user: String, _ channel: HomeChannel, _ app: App, _ effects: inout Effects) {
        guard app.features.webhooks.contains(.presence) else { return }
        effects.append(.webhook(app, .memberRemoved(channel.name, userID: user)))
    }

    // MARK: Answers

    private mutating func answer(
        to entry: ChannelEntry, _ channel: HomeChannel, _ app: App, now: Instant, _ effects: inout Effects
    ) -> ChannelEntered {
        var cached = ChannelEntered.Cached.noCache
        if channel.name.kind.isCache {
            cached = channel.cached.flatMap { $0.due > now ? .event($0.messages) : nil } ?? .miss
        }
        if case .miss = cached, !entry.isRepeated { missed(channel, app, now: now, &effects) }
        // The count where it is not about to be told to everybody.
        return ChannelEntered(
            key: channel.key, session: entry.session, serial: entry.serial, userID: entry.member?.id,
            isRepeated: entry.isRepeated, count: owesNewcomerCount(channel, app, now: now) ? channel.total : nil,
            members: channel.name.kind.isPresence ? membersTold(channel) : nil, cached: cached)
    }

    private func membersTold(_ channel: HomeChannel) -> SharedMessages {
        // Who is in may ask again and again, without a signature, and users come by further connections or come back: the
        // list is not written and compressed each time. One that has just changed is likely to change with the next.
        if let told = channel.membersTold { return told }
        let told = SharedMessages(.entered(channel.name, members: channel.members.list()))
        if channel.isListTold { channel.membersTold = told }
        channel.isListTold = true
        return told
    }

    mutating func broadcast(
        _ messages: consuming Broadcast, _ channel: HomeChannel, except: Exclusion? = nil, isEvent: Bool = false,
        _ effects: inout Effects
    ) {
        guard !channel.loops.isEmpty else { return }
        subscribersTold &+= UInt64(channel.total)
        effects.append(.broadcast(loops: channel.loops, channel.key, messages, except: except, isEvent: isEvent))
    }

    // MARK: The table

    /// The app as it is now, seen from here on.
    mutating func known(_ app: App) -> App {
        if app.index < apps.count, let known = apps[app.index] { return known }
        replace(app)
        return app
    }

    /// The channel, made where it is not held.
    ///
    /// - Parameter subscriptions: how many channels the connection is in that asks; nil: the app's backend does.
    /// - Throws: why it is not to be made.
    mutating func channel(
        _ key: ChannelKey, of app: App, subscriptions: Int?
    ) throws(SubscriptionRefusal) -> HomeChannel {
        if let channel = channels[key] { return channel }
        try metrics.channels.enter(
            app, subscriptions: subscriptions, most: limits.channelsMax, few: limits.fewChannels)
        let channel = HomeChannel(key, loops: loops)
        channels[key] = channel
        return channel
    }

    mutating func removeIfUnused(_ channel: HomeChannel) {
        // A departure that is ended early may have been the one that was entered just now.
        guard channel.isUnused, channels[channel.key] === channel, let app = app(of: channel) else { return }
        channels[channel.key] = nil
        metrics.channels.leave(app)
    }
}
