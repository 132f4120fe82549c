import Bytes
import Channels
import Metrics
import Pusher
import Reactor

/// Ordinary channels on a loop: those whose home it is, and those that its sessions are in.
extension ClientLoop {
    // MARK: To a home

    /// A session of this loop comes, goes, or has an event for the others.
    func request(_ request: ChannelRequest) {
        let target = hubContext.home(of: request.key)
        let app = request.key.app
        switch request {
        case .relay:
            // Its sender waits for nothing, and would fill the mailboxes of loops that are slower than it is.
            guard !metrics.publishes.isFull(for: app, max: publishesUnderWayMax) else {
                return metrics.engine.droppedClientEvent()
            }
        case .enter(let entry) where entry.isRepeated:
            // It was answered before, and may be asked for any number of times.
            guard !metrics.publishes.isFull(for: app, max: publishesUnderWayMax) else {
                guard let session = connection(entry.session)?.session else { return }
                return hub.leftUnanswered(entry, session)
            }
        case .enter, .exit:
            break
        }
        guard target != number else { return received(request, from: number) }
        if request.isInBacklog { metrics.publishes.add(of: app) }
        hubContext.mailboxes[target].post(.request(request, from: number))
    }

    // MARK: At home

    func received(_ request: ChannelRequest, from loop: Int) {
        if mayMakeRoom(for: request) { makeRoom(for: request, from: loop) } else { atHome(request, from: loop) }
    }

    func atHome(_ request: ChannelRequest, from loop: Int) {
        atChannelHome { home, now, effects in home.received(request, from: loop, now: now, &effects) }
    }

    /// Something of this home's channels may be due.
    func channelsDue() {
        atChannelHome { home, now, effects in home.tick(now: now, &effects) }
    }

    /// Gives the home an input, and does what it decides. What is performed may come back here: its effects then follow
    /// those that wait, so that no answer and no broadcast overtakes another.
    func atChannelHome<Result>(
        _ input: (inout ChannelHome, _ now: UInt64, inout ChannelHome.Effects) -> Result
    ) -> Result {
        let result = input(&channelHome, loop.now.nanoseconds, &channelEffects)
        guard !isPerformingChannelEffects else { return result }
        isPerformingChannelEffects = true
        var next = 0
        while next < channelEffects.count {
            perform(channelEffects[next])
            next += 1
        }
        isPerformingChannelEffects = false
        channelEffects.removeAll(keepingCapacity: channelEffects.capacity <= Self.effectsKept)
        setChannelAlarm()
        return result
    }

    private func setChannelAlarm() {
        guard let channelAlarm, !awaitsChannelTurn else { return }
        let due = channelHome.nextDue
        if let due, due <= loop.now.nanoseconds {
            // More is due than is done in one turn; others have theirs first.
            awaitsChannelTurn = true
            mailbox.post(.channelsDue)
        } else if due != channelsDueAt {
            channelsDueAt = due
            loop.setDeadline(channelAlarm, due.map { Instant(nanoseconds: $0) })
        }
    }

    private func perform(_ effect: ChannelHome.Effect) {
        switch effect {
        case .answer(let target, let answer):
            guard target != number else { return received(answer) }
            if let app = answer.appInBacklog { metrics.publishes.add(of: app) }
            hubContext.mailboxes[target].post(.answer(answer))
        case .broadcast(let loops, let key, let frame, let except, let isEvent):
            let variants = compression?.variants(of: frame)
            for target in hubContext.mailboxes.indices where loops.contains(loop: target) {
                if target == number {
                    deliver(frame, variants, to: key, except: except)
                } else {
                    if isEvent { metrics.publishes.add(of: key.app) }
                    hubContext.mailboxes[target].post(
                        .publish(key, frame, except: except, variants, isEvent: isEvent))
                }
            }
        case .webhook(let app, let event):
            hubContext.webhooks?.post(event, of: app)
        }
    }

    // MARK: From a home

    func received(_ answer: ChannelAnswer) {
        switch answer {
        case .entered(let entered):
            if let connection = connection(entered.session), let session = connection.session {
                let hasRoom = !connection.isCrowded(limits)
                return engage(connection) { $0.entered(entered, session, hasRoom: hasRoom, &$1) }
            }
        case .refused(let id, let serial, let refusal):
            if let connection = connection(id), let session = connection.session {
                if let bound = refusal.bound {
                    metrics.reached(bound == .app ? .appChannels : .channels, connection.address)
                }
                return engage(connection) { $0.refused(session, serial: serial, refusal, &$1) }
            }
        }
        if let exit = hub.answeredTooLate(answer) { request(.exit(exit)) }
    }

    /// Queues the frame to every subscriber that this loop has of the channel, but to that one. `variants`: nil where nobody
    /// needs the frame compressed.
    func deliver(_ frame: SharedBytes, _ variants: FrameVariants?, to key: ChannelKey, except: Exclusion?) {
        guard let channel = hub.channel(key) else { return }
        // A copy: one that is closed leaves the channel.
        let subscribers = channel.subscribers
        let excluded = except.flatMap { session($0, in: subscribers) } ?? .nobody
        if let only = subscribers.only, only != excluded { deliver(frame, variants, to: only) }
        if excluded == .nobody {
            for id in subscribers.many { deliver(frame, variants, to: id) }
        } else {
            for id in subscribers.many where id != excluded { deliver(frame, variants, to: id) }
        }
        // A sender may have left meanwhile.
        let isOneLeftOut = excluded != .nobody && subscribers.contains(excluded)
        let told = subscribers.count - (isOneLeftOut ? 1 : 0)
        metrics.fanout.record(UInt64(told))
        metrics.channelDeliveries.add(told)
        apps.app(index: key.app)?.counts.deliveries.add(told)
    }

    /// Which of these it is; nil where it is none of them.
    private func session(_ exclusion: Exclusion, in subscribers: SubscriberList) -> SessionID? {
        switch exclusion {
        case .session(let id, let loop): loop == number ? id : nil
        case .socket(let socketID):
            subscribers.first { id in
                loop.unretainedSource(slot: id.slot, generation: id.generation)?._withUnsafeGuaranteedRef {
                    unsafeDowncast($0, to: Connection.self).session?.socketID == socketID
                } ?? false
            }
        }
    }

    /// Who reads too slowly is closed: there is no log to go on from. But first the socket gets what it takes, for a burst
    /// in one tick says nothing about the reader.
    @inline(__always)
    private func deliver(_ frame: SharedBytes, _ variants: FrameVariants?, to id: SessionID) {
        guard let source = loop.unretainedSource(slot: id.slot, generation: id.generation) else { return }
        source._withUnsafeGuaranteedRef { source in
            let connection = unsafeDowncast(source, to: Connection.self)
            if connection.isOverfull(limits), connection.isTooSlow(limits) { return }
            if let variants {
                connection.queue(variant(of: frame, variants, for: connection), on: loop)
            } else {
                connection.queue(frame, on: loop)
            }
        }
    }
}

extension HubContext {
    /// The loop that is the ordinary channel's home.
    func home(of key: ChannelKey) -> Int { key.home(of: mailboxes.count) }
}
