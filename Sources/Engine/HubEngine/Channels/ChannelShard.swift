import Bytes
import Clock
import Metrics
import Pusher

/// The shard of ordinary channels that one loop owns. It knows their subscribers on all loops (counts, users and loops),
/// their last events, and what apps' backends are told.
///
/// A session becomes a subscriber on its loop when the shard's answer arrives, never before. A loop gets answers and
/// broadcasts through one mailbox, in the order in which the shard decides them. So a newcomer gets the cached event and
/// everything published after it, once and in order. It is told the present members, then of each who joins or leaves, and
/// never of itself. A loop reports the leave of each admitted session once.
///
/// Worst interleavings, each with its test in `ChannelShardTests`, and all of them in `ChannelHistories`:
/// - A session leaves while its answer is in flight. Its loop finds no session for the answer, and reports the leave then.
///   The leave of a refused session is never reported (`aSubscribeTakenBackIsTakenBackAtShard`).
/// - pusher-js subscribes, unsubscribes and subscribes at once. The second answer makes it live, the first is given back,
///   and its user was there all the time (`subscribeUnsubscribeSubscribe`).
/// - A user's connection ends and another comes, on any loop, in either order. The user never counts as gone
///   (`PresenceTests.aUserWhoComesBackWasNeverGone`).
/// - A grace period ends when the user has come back and left again. Departures are numbered
///   (`PresenceTests.anOldDepartureEndsNothing`).
/// - A session joins and leaves as fast as it can. Counts, cache misses and members are reported with pauses, and the last
///   state always (`ChannelCountTests.aQuicklyChangingCountIsToldAtIntervals` and others).
package struct ChannelShard {
    /// Effects are appended, and performed by the caller in order.
    package typealias Effects = ContiguousArray<Effect>

    /// What the shard wants done, in order.
    package enum Effect: Sendable {
        /// Send the answer to the loop.
        case answer(loop: Int, ChannelAnswer)
        /// Send the messages to the channel's subscribers on each loop of the set, except one. `isEvent`: a backend or a
        /// client sent it; otherwise it tells of subscribers coming and going.
        case broadcast(loops: LoopSet, ChannelKey, Broadcast, except: Exclusion?, isEvent: Bool)
        /// Tell the app's backend.
        case webhook(App, WebhookEvent)
    }

    private let limits: ShardLimits
    private let metrics: EngineMetrics
    private let channels: ChannelStates
    private var attendance: Attendance
    private var counts: CountThrottle
    private var cache: ChannelCache

    /// The shard of one of `loops` loops. `limits` are the shard's own.
    package init(loops: Int, limits: ShardLimits = ShardLimits(), metrics: EngineMetrics = EngineMetrics()) {
        self.limits = limits
        self.metrics = metrics
        channels = ChannelStates(loops: loops, limits, metrics)
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
    package func replace(_ app: App) { channels.replace(app) }

    /// Whether the newcomer would be refused because connected members take all the room.
    package func isFull(for entry: ChannelEntry) -> Bool { attendance.isFull(for: entry) }

    // MARK: Inputs

    /// A loop's message about one of its sessions.
    package mutating func received(_ request: ChannelRequest, from loop: Int, now: Instant, _ effects: inout Effects) {
        switch request {
        case .enter(let entry): enter(entry, from: loop, now: now, &effects)
        case .exit(let exit): self.exit(exit, from: loop, now: now, &effects)
        case .relay(let relay): self.relay(relay, from: loop, &effects)
        }
    }

    private mutating func enter(_ entry: ChannelEntry, from loop: Int, now: Instant, _ effects: inout Effects) {
        let app = channels.known(entry.app)
        let channel: ChannelState
        do throws(SubscriptionRefusal) {
            channel = try channels.held(entry.key, of: app, subscriptions: entry.subscriptionCount)
        } catch {
            return effects.append(.answer(loop: loop, .refused(entry.session, serial: entry.serial, error)))
        }
        if entry.isRepeated {
            if let member = entry.member, channel.members.says(member, attendance.bounds(app)) {
                channel.membersChanged()
            }
            effects.append(.answer(loop: loop, .entered(answer(to: entry, channel, app, now: now, &effects))))
            return
        }
        if let member = entry.member, !attendance.makesRoom(for: member, channel, app, &effects) {
            app.counts.refused(.presenceMembers)
            effects.append(
                .answer(loop: loop, .refused(entry.session, serial: entry.serial, .tooManyMembers)))
            return channels.removeIfUnused(channel)
        }
        if channel.total == 0 { attendance.occupied(channel, app, &effects) }
        if let member = entry.member { attendance.arrived(member, channel, app, now: now, &effects) }
        channel.add(loop)
        let answer = answer(to: entry, channel, app, now: now, &effects)
        effects.append(.answer(loop: loop, .entered(answer)))
        counts.changed(channel, app, now: now, &effects)
    }

    private mutating func exit(_ exit: ChannelExit, from loop: Int, now: Instant, _ effects: inout Effects) {
        guard let channel = channels[exit.key], let app = channels.app(of: channel), channel.subtract(loop) else {
            return
        }
        if let user = exit.userID, channel.members.leave(user) {
            attendance.left(user, channel, app, mayReturn: exit.mayReturn, now: now, &effects)
        }
        counts.changed(channel, app, now: now, &effects)
        if channel.total == 0 { attendance.vacated(channel, app, now: now, &effects) }
        attendance.trimDepartures(of: exit.key.app, &effects)
        channels.removeIfUnused(channel)
    }

    private mutating func relay(_ relay: ChannelRelay, from loop: Int, _ effects: inout Effects) {
        guard let channel = channels[relay.key] else { return }
        let messages = relay.data.withUnsafeBytes {
            Messages.clientEvent(relay.event, relay.key.name, data: $0, userID: relay.userID)
        }
        effects.broadcast(.passing(messages), channel, except: .session(relay.sender, loop: loop), isEvent: true)
        if let event = relay.webhook { effects.append(.webhook(channels.known(relay.app), event)) }
    }

    // MARK: Answers

    private mutating func answer(
        to entry: ChannelEntry, _ channel: ChannelState, _ app: App, now: Instant, _ effects: inout Effects
    ) -> ChannelEntered {
        var cached = ChannelEntered.Cached.noCache
        if channel.name.kind.isCache {
            cached = channel.cached.flatMap { $0.due > now ? .event($0.messages) : nil } ?? .miss
        }
        if case .miss = cached, !entry.isRepeated { counts.missed(channel, app, now: now, &effects) }
        // The count is sent here only where it is not about to be told to everybody.
        return ChannelEntered(
            key: channel.key, session: entry.session, serial: entry.serial, userID: entry.member?.id,
            isRepeated: entry.isRepeated, count: counts.owesNewcomer(channel, app, now: now) ? channel.total : nil,
            members: channel.name.kind.isPresence ? membersTold(channel) : nil, cached: cached)
    }

    private func membersTold(_ channel: ChannelState) -> SharedMessages {
        // The list is not written and compressed for every entry: a client may ask again and again without a signature, and
        // users add connections or come back. A list that has just changed is likely to change with the next entry.
        if let told = channel.membersTold { return told }
        let told = SharedMessages(.entered(channel.name, members: channel.members.list()))
        if channel.isListTold { channel.membersTold = told }
        channel.isListTold = true
        return told
    }

    // MARK: Backends

    /// Publishes to a channel. Returns what is known of the channel afterwards.
    package mutating func publish(
        _ publication: Publication, of app: App, now: Instant, _ effects: inout Effects
    ) -> ChannelFacts {
        let app = channels.known(app)
        let key = ChannelKey(app.index, publication.channel)
        metrics.published.add()
        app.counts.published.add()
        let isKept = publication.channel.kind.isCache && limits.cacheBytesMax > 0
        let known: ChannelState?
        do throws(SubscriptionRefusal) {
            known = isKept ? try channels.held(key, of: app, subscriptions: nil) : channels[key]
        } catch {
            // Nobody is in it, and there is no room to keep the event.
            known = nil
        }
        guard let channel = known else { return facts(of: key, now: now) }
        guard isKept || !channel.loops.isEmpty else { return facts(of: key, now: now) }
        let except = publication.except.map { Exclusion.socket($0) }
        if isKept {
            let messages = SharedMessages(.published(publication))
            effects.broadcast(.kept(messages), channel, except: except, isEvent: true)
            counts.endMissSilence(channel)
            cache.keep(publication, messages, channel, now: now)
        } else {
            effects.broadcast(.passing(.published(publication)), channel, except: except, isEvent: true)
        }
        return facts(of: key, now: now)
    }

    /// What is known of a channel.
    package func facts(of key: ChannelKey, now: Instant) -> ChannelFacts {
        facts(of: key, channels[key], now: now)
    }

    private func facts(of key: ChannelKey, _ channel: ChannelState?, now: Instant) -> ChannelFacts {
        var facts = ChannelFacts()
        facts.subscriptionCount = channel?.total ?? 0
        if key.name.kind.isPresence { facts.userCount = channel?.members.count ?? 0 }
        if let cached = channel?.cached, cached.due > now {
            let seconds = cached.due.duration(since: now).secondsRoundedUp
            facts.cached = CachedEvent(name: cached.event, data: cached.data, secondsLeft: seconds)
        }
        return facts
    }

    /// The loops with subscribers in the channel.
    package func loops(in key: ChannelKey) -> LoopSet { channels[key]?.loops ?? [] }

    /// The app's occupied channels of this shard whose names begin with `prefix`; stops above `max`.
    package func channels(of app: App, prefix: String, max: Int, now: Instant) -> [String: ChannelFacts] {
        var found: [String: ChannelFacts] = [:]
        for (key, channel) in channels[app] where key.name.string.utf8.starts(with: prefix.utf8) {
            let facts = facts(of: key, channel, now: now)
            guard facts.isOccupied else { continue }
            found[key.name.string] = facts
            if found.count > max { break }
        }
        return found
    }

    /// The ids of the users in a channel.
    package func users(in key: ChannelKey) -> [String] { channels[key]?.members.ids ?? [] }

    // MARK: With time

    /// The earliest time at which `tick` has work; nil if nothing waits.
    package var nextDue: Instant? {
        // Called at each input, so it allocates no array.
        let due = min(attendance.nextDue, counts.nextDue, cache.order.first?.due ?? .max)
        return due == .max ? nil : due
    }

    /// Does due work, within the limits of one turn: thousands may leave at once, and each leave is told to all who stay.
    package mutating func tick(now: Instant, _ effects: inout Effects) {
        var (told, seen) = (0, effects.count)
        for _ in 0..<limits.dueAtOnceMax {
            guard told < limits.toldAtOnceMax,
                attendance.endNext(now: now, &effects) || counts.endNext(now: now, &effects)
                    || cache.forgetNext(now: now)
            else { return }
            for case .broadcast(_, let key, _, _, _) in effects[seen...] { told += channels[key]?.total ?? 0 }
            seen = effects.count
        }
    }
}

extension ChannelShard.Effects {
    mutating func broadcast(
        _ messages: consuming Broadcast, _ channel: ChannelState, except: Exclusion? = nil, isEvent: Bool = false
    ) {
        guard !channel.loops.isEmpty else { return }
        append(.broadcast(loops: channel.loops, channel.key, messages, except: except, isEvent: isEvent))
    }
}
