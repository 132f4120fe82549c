import Bytes
import Clock
import Metrics
import Pusher

/// The shard of ordinary channels that one loop owns: their subscribers on all loops of this hub. Who else is in a channel,
/// and in which order things happen there, says the state that all hubs share (`SharedChannels`).
///
/// A session becomes a subscriber on its loop when the shard's answer arrives, never before. A loop gets answers and
/// broadcasts through one mailbox, in the order in which the shard decides them. An answer carries the channel's sequence at
/// which it was decided: the newcomer gets the cached event and every change above that, once and in order. It is told the
/// present members, then of each who joins or leaves, and never of itself. A loop reports the leave of each admitted session
/// once.
///
/// Worst interleavings, each with its test in `ChannelShardTests`, and all of them in `ChannelHistories`:
/// - A session leaves while its answer is in flight. Its loop finds no session for the answer, and reports the leave then.
///   The leave of a refused session is never reported (`aSubscribeTakenBackIsTakenBackAtShard`).
/// - pusher-js subscribes, unsubscribes and subscribes at once. The second answer makes it live, the first is given back,
///   and its user was there all the time (`subscribeUnsubscribeSubscribe`).
/// - The answer to a newcomer says less than what the others were told meanwhile (`ChannelCourse`).
package struct ChannelShard {
    /// Effects are appended, and performed by the caller in order.
    package typealias Effects = ContiguousArray<Effect>

    /// What the shard wants done, in order.
    package typealias Effect = ChannelEffect

    let limits: ShardLimits
    let state: SharedChannelsVersion
    let metrics: EngineMetrics
    /// The apps by which bytes name them.
    package let apps: KnownApps
    var locals: LocalChannels
    private var news = NewsQueue()
    /// The sender of the event that is relayed now.
    private var sender: ChannelChange.Sender?
    /// Calls whose replies come later.
    var waits = ChannelWaits()
    var unasserted = UnassertedChannels()

    /// The shard of one of `loops` loops. `limits` are the shard's own.
    ///
    /// - Parameter link: to the state, where that is not in this hub's memory.
    package init(
        loops: Int, limits: ShardLimits = ShardLimits(), metrics: EngineMetrics = EngineMetrics(),
        link: LinkedChannels? = nil
    ) {
        locals = LocalChannels(loops: loops, link)
        (self.limits, self.metrics) = (limits, metrics)
        apps = link?.apps ?? KnownApps()
        state = link.map { .linked($0) } ?? .memory(MemoryChannels(apps, limits, metrics))
    }

    /// The state, where it is in this hub's memory.
    package var memory: MemoryChannels? { state.memory }
    /// Channels with subscribers here, or with sessions that wait.
    package var localCount: Int { locals.count }

    /// The app's value has changed: the new one counts at once.
    package func replace(_ app: App) { apps.replace(app) }

    /// Whether the newcomer would be refused because connected members take all the room.
    package func isFull(for entry: ChannelEntry) -> Bool {
        guard let member = entry.member else { return false }
        if let memory { return memory.isFull(for: member, in: entry.key, of: entry.app) }
        let most = apps.known(entry.app).limits.presenceMembersMax
        return locals[entry.key]?.course?.isFull(for: member, most) ?? false
    }

    // MARK: Inputs

    /// A loop's message about one of its sessions.
    package mutating func received(_ request: ChannelRequest, from loop: Int, now: Instant, _ effects: inout Effects) {
        switch request {
        case .enter(let entry): enter(entry, from: loop, now: now, &effects)
        case .withdraw(let withdrawal):
            guard let newcomer = locals[withdrawal.key]?.course?.withdraw(withdrawal, from: loop) else { break }
            refuse(newcomer.entry, from: loop, .unavailable, &effects)
        case .exit(let exit): self.exit(exit, from: loop, now: now, &effects)
        case .relay(let relay): self.relay(relay, from: loop, now: now, &effects)
        }
    }

    private mutating func enter(_ entry: ChannelEntry, from loop: Int, now: Instant, _ effects: inout Effects) {
        _ = apps.known(entry.app)
        guard case .memory(let memory) = state else { return ask(for: entry, from: loop, now: now, &effects) }
        switch memory.enter(entry.key, Entering(entry), now: now, &news.items) {
        case .success(let entered):
            take(upTo: entered.sequence, &effects)
            let local = locals.held(entry.key)
            letIn(entry, from: loop, entered, local, &effects)
            take(&effects)
            locals.removeIfUnused(local)
        case .failure(let refusal):
            take(&effects)
            refuse(entry, from: loop, refusal, &effects)
        }
    }

    func letIn(
        _ entry: ChannelEntry, from loop: Int, _ entered: Entered, _ local: LocalSubscribers,
        missed: ContiguousArray<SharedMessages> = [], _ effects: inout Effects
    ) {
        if !entry.isRepeated { local.add(loop) }
        let answer = ChannelEntered(entry, entered, local, missed: missed)
        effects.append(.answer(loop: loop, .entered(answer)))
    }

    func refuse(_ entry: ChannelEntry, from loop: Int, _ refusal: EntryRefusal, _ effects: inout Effects) {
        effects.append(.answer(loop: loop, .refused(entry.session, serial: entry.serial, refusal.told)))
    }

    private mutating func exit(_ exit: ChannelExit, from loop: Int, now: Instant, _ effects: inout Effects) {
        guard let local = locals[exit.key], local.subtract(loop) else { return }
        local.course?.left(exit.userID)
        if case .memory(let memory) = state {
            memory.exit(exit, now: now, &news.items)
            take(&effects)
        } else {
            _ = call(.exit(exit), .silent(exit.key), now)
        }
        locals.removeIfUnused(local)
    }

    private mutating func relay(_ relay: ChannelRelay, from loop: Int, now: Instant, _ effects: inout Effects) {
        guard locals[relay.key] != nil else { return }
        sender = ChannelChange.Sender(socketID: relay.event.sender, exclusion: .session(relay.sender, loop: loop))
        if case .memory(let memory) = state {
            memory.relay(relay.key, relay.event, relay.webhook, &news.items)
            take(&effects)
        } else {
            _ = call(.relay(relay.key, relay.event, relay.webhook), nil, now)
        }
        sender = nil
    }

    // MARK: Questions

    /// Publishes to a channel. The reply is what is known of the channel afterwards.
    package mutating func publish(
        _ publication: Publication, of app: App, now: Instant, _ effects: inout Effects
    ) -> ChannelAsked {
        let app = apps.known(app)
        metrics.published.add()
        app.counts.published.add()
        let key = ChannelKey(app.index, publication.channel)
        guard case .memory(let memory) = state else { return ask(.publish(key, publication), now: now, &effects) }
        // The change is told without being made: its copies cost.
        let published = memory.publish(key, publication, of: app, now: now)
        if published.sequence > 0, let local = locals[key], !local.loops.isEmpty {
            let broadcast = published.messages.map { Broadcast.kept($0) } ?? .passing(.published(publication))
            let except = publication.except.map { Exclusion.socket($0) }
            effects.append(.broadcast(loops: local.loops, key, broadcast, except: except, isEvent: true))
        }
        return .reply(.facts(published.facts))
    }

    /// Asks the state something that no session waits for.
    package mutating func ask(_ call: ChannelCall, now: Instant, _ effects: inout Effects) -> ChannelAsked {
        guard let reply = self.call(call, .question, now) else { return .later(waits.lastNumber) }
        take(&effects)
        return .reply(reply)
    }

    /// The loops with subscribers in the channel.
    package func loops(in key: ChannelKey) -> LoopSet { locals[key]?.loops ?? [] }

    // MARK: With time

    /// The earliest time at which `tick` has work; nil if nothing waits.
    package var nextDue: Instant? {
        memory.map(\.nextDue) ?? [waits.nextDue, unasserted.nextDue].compactMap(\.self).min()
    }

    /// Does due work, within the limits of one turn.
    package mutating func tick(now: Instant, _ effects: inout Effects) {
        switch state {
        case .memory(let memory):
            _ = memory.call(.due, 0, from: .only, now: now, &news.items)
            take(&effects)
        case .linked:
            for _ in 0..<limits.dueAtOnceMax {
                guard let number = waits.popDue(now: now) else { break }
                replied(number, .unavailable(.unknown), now: now, &effects)
            }
            for key in unasserted.popDue(now: now, most: limits.dueAtOnceMax) { assert(key, now: now) }
        }
    }

    // MARK: The state

    /// The reply, if the state is here; otherwise it is waited for. `wait`: nil for what nobody misses.
    mutating func call(
        _ call: ChannelCall, _ wait: @autoclosure () -> ChannelWaits.Wait?, _ now: Instant
    ) -> ChannelReply? {
        switch state {
        case .memory(let memory): return memory.call(call, 0, from: .only, now: now, &news.items)
        case .linked(let link):
            let number = waits.next()
            if let wait = wait() { waits.add(wait, number, due: now.advanced(by: ChannelWaits.patience)) }
            return link.call(call, number, from: link.hub, now: now, &news.items)
        }
    }

    /// Does what the state has told, up to a change above `sequence`.
    private mutating func take(upTo sequence: UInt64 = .max, _ effects: inout Effects) {
        while let item = news.next(upTo: sequence) {
            switch consume item {
            case .change(let change): locals[change.key]?.tell(change, by: sender, &effects)
            case .webhook(let index, let event): if let app = apps[index] { effects.append(.webhook(app, event)) }
            case .reply, .latest: break
            }
        }
    }
}
