import Bytes
import Channels
import Feed
import Metrics
import Pusher
import Reactor
import Sync
import Synchronization

/// What was last seen of a connection that has still to take what it is sent.
struct PullProgress {
    /// `WriteQueue.sentCount`.
    let sentCount: UInt32
    /// What the kernel, and TLS, have of that and the peer has not. Of who reads little the socket is writable but once in
    /// many seconds, when half of what it may hold has gone.
    let untaken: UInt32
    /// When one of them was seen to change, or nothing was queued.
    let since: Instant

    /// What is to be seen now.
    init(_ connection: Connection, at now: Instant) {
        sentCount = connection.output.sentCount
        untaken =
            Socket.unacknowledged(connection.descriptor) &+ UInt32(clamping: connection.tls?.unsentBytes ?? 0)
        since = now
    }

    /// Whether the peer has taken anything since `earlier`.
    func isBeyond(_ earlier: PullProgress) -> Bool {
        sentCount != earlier.sentCount || untaken != earlier.untaken
    }
}

/// Streams on a loop: those whose home it is, and those that its sessions are in.
extension ClientLoop {
    /// How often streams that linger and connections that take nothing are looked at, while there are any.
    private static let sweepInterval = Duration.seconds(1)

    // MARK: To a home

    /// A session of this loop asks its stream's home to be let in, or for what it missed.
    func join(_ join: StreamJoin) {
        let target = hubContext.home(of: join.name.stream)
        if target == number {
            atHome { $0.join(join, from: number, &$1) }
        } else {
            hubContext.mailboxes[target].post(.join(join, from: number))
        }
    }

    /// A session of this loop has left the channel with a request unanswered.
    func forget(_ session: SessionID, _ name: StreamName) {
        let target = hubContext.home(of: name.stream)
        if target == number {
            atHome { home, _ in home.forget(session, name, from: number) }
        } else {
            hubContext.mailboxes[target].post(.forget(session, name, from: number))
        }
    }

    /// This loop has nobody left under the name.
    func leave(_ name: StreamName) {
        let target = hubContext.home(of: name.stream)
        if target == number {
            left(name, from: number)
        } else {
            hubContext.mailboxes[target].post(.leave(name, from: number))
        }
    }

    // MARK: At home

    func left(_ name: StreamName, from loop: Int) {
        let now = self.loop.now.nanoseconds
        atHome { $0.leave(name, from: loop, now: now, &$1) }
        if home.lingeringCount > 0 { setSweep() }
    }

    func received(_ outputs: [FeedOutput]) {
        defer { hubContext.backlog.subtract(outputs) }
        let now = loop.now.nanoseconds
        for output in outputs {
            switch output {
            case .event(let event):
                atHome { $0.received(event, &$1) }
            case .positioned(let stream, let serial, let position):
                atHome { $0.positioned(stream, at: position, watch: serial, &$1) }
            case .refused(let stream, let serial, let refusal):
                atHome { $0.refused(stream, watch: serial, refusal, &$1) }
            case .reset(let stream, let position):
                atHome { $0.reset(stream, to: position, &$1) }
            case .page(let read, let events):
                atHome { $0.page(read, events, now: now, &$1) }
            case .unreadable(let read, let failure):
                atHome { $0.unreadable(read, failure, now: now, &$1) }
            case .revoked(let revocations):
                revoked(revocations)
            case .revocationsCurrent(let isCurrent):
                hub.isRevocationCurrent = isCurrent
            case .topics(let topics):
                published(topics)
            case .degraded(let isDegraded):
                degraded(isDegraded)
            case .status:
                break
            }
        }
        setPauseAlarm()
        measure(outputs)
    }

    /// Pages that no client asked for are asked for again when their pauses are over.
    func pausesDue() {
        let now = loop.now.nanoseconds
        pauseAlarmAt = nil
        atHome { $0.endPauses(now: now, &$1) }
        setPauseAlarm()
    }

    private func setPauseAlarm() {
        guard let due = home.nextPauseEnd, due < pauseAlarmAt ?? .max else { return }
        pauseAlarmAt = due
        pauseAlarm?.set(after: .nanoseconds(Int64(clamping: due - min(due, loop.now.nanoseconds))))
    }

    /// All are handed on: how long after their commits is that?
    private func measure(_ outputs: [FeedOutput]) {
        let now = Instant.read()
        for case .event(let event) in outputs where event.committedAt > 0 {
            metrics.latency.record(now.duration(since: Instant(nanoseconds: event.committedAt)))
        }
    }

    func atHome(_ input: (inout StreamHome, inout ContiguousArray<StreamHome.Effect>) -> Void) {
        // Taken out, for what is performed may come back here, and is then answered before the rest is performed. That
        // does no harm: only answers make sessions ask for more, and of one stream all broadcasts of an input stand
        // before its answers, so none is overtaken.
        var effects = exchange(&homeEffects, with: [])
        input(&home, &effects)
        // Moved out from the end, not copied.
        effects.reverse()
        while let effect = effects.popLast() { perform(effect) }
        if effects.capacity <= Self.effectsKept { homeEffects = effects }
    }

    private func perform(_ effect: StreamHome.Effect) {
        switch effect {
        case .watch(let stream, let serial):
            hubContext.requestFeed(.watch(stream, serial: serial))
        case .unwatch(let stream):
            hubContext.requestFeed(.unwatch(stream))
        case .read(let read):
            hubContext.requestFeed(.read(read))
        case .joined(let target, let joined):
            if target == number {
                self.joined(joined)
            } else {
                hubContext.mailboxes[target].post(.joined(joined))
            }
        case .refused(let target, let session, let serial, let refusal):
            if target == number {
                joinRefused(session, serial, refusal)
            } else {
                hubContext.mailboxes[target].post(.joinRefused(session, serial: serial, refusal))
            }
        case .broadcast(let loops, let name, let offset, let frame):
            let variants = compression?.variants(of: frame)
            for target in hubContext.mailboxes.indices where loops.contains(loop: target) {
                if target == number {
                    deliver(frame, variants, at: offset, to: name)
                } else {
                    hubContext.backlog.addBroadcast()
                    hubContext.mailboxes[target].post(.broadcast(name, offset: offset, frame, variants))
                }
            }
        case .reset(let loops, let name, let position, let loss):
            for target in hubContext.mailboxes.indices where loops.contains(loop: target) {
                if target == number {
                    reset(name, to: position, loss)
                } else {
                    hubContext.mailboxes[target].post(.reset(name, position, loss))
                }
            }
        }
    }

    // MARK: From a home

    func joined(_ joined: StreamJoined) {
        guard let connection = connection(joined.session), let session = connection.session else { return }
        let hasRoom = !connection.isCrowded(limits)
        engage(connection) { $0.joined(joined, session, hasRoom: hasRoom, &$1) }
        if session.isBehind { pull(connection) }
    }

    func joinRefused(_ id: SessionID, _ serial: UInt32, _ refusal: StreamRefusal) {
        guard let connection = connection(id), let session = connection.session else { return }
        switch refusal {
        case .hubFull: metrics.reached(.streams, connection.address)
        case .userFull: metrics.reached(.streamsPerUser, connection.address)
        case .notNameable: break
        }
        engage(connection) { $0.joinRefused(session, serial: serial, refusal, &$1) }
    }

    /// The feed tells which topics are published: who is in a stream of a new one gets what it has, and what comes.
    private func published(_ topics: PublishedTopics) {
        for id in hub.published(topics) {
            if let connection = connection(id) { pull(connection) }
        }
    }

    /// Queues the frame to every subscriber that this loop has of the stream. Whoever has too much queued already is fed by
    /// pages from here on. `variants`: nil where nobody needs the frame compressed.
    func deliver(_ frame: SharedBytes, _ variants: FrameVariants?, at offset: Int64, to name: StreamName) {
        guard let channel = hub.channel(name) else { return }
        var slow: [SessionID] = []
        // A copy: one whose socket is found broken leaves the channel.
        let subscribers = channel.subscribers
        if let only = subscribers.only { deliver(frame, variants, to: only, &slow) }
        for id in subscribers.many { deliver(frame, variants, to: id, &slow) }
        // Before the channel moves on: what they were handed last is the event before this one.
        for id in slow {
            guard hub.fellBehind(id, in: channel), let connection = connection(id) else { continue }
            metrics.pullModeEntries.add()
            pull(connection)
        }
        channel.advanced(to: offset)
        count(channel.subscribers.count, of: name)
    }

    @inline(__always)
    private func deliver(
        _ frame: SharedBytes, _ variants: FrameVariants?, to id: SessionID, _ slow: inout [SessionID]
    ) {
        // A channel's subscribers are sessions of this loop, and a session's id is its connection's. The generation is
        // compared although a session leaves its channels before its slot is free: what stands here is health data, and a
        // slip in that bookkeeping must not hand it to a stranger.
        guard let source = loop.unretainedSource(slot: id.slot, generation: id.generation) else { return }
        source._withUnsafeGuaranteedRef { source in
            let connection = unsafeDowncast(source, to: Connection.self)
            if connection.isCrowded(limits), connection.isSlow(limits) {
                slow.append(id)
            } else if let variants {
                connection.queue(variant(of: frame, variants, for: connection), on: loop)
            } else {
                connection.queue(frame, on: loop)
            }
        }
    }

    /// The frame as the connection wants it.
    func variant(of frame: SharedBytes, _ variants: FrameVariants, for connection: Connection) -> SharedBytes {
        guard let compression, let window = connection.deflateWindow else { return frame }
        return compression.frame(frame, variants, window)
    }

    /// An event has been queued to so many subscribers of the stream.
    private func count(_ subscribers: Int, of name: StreamName) {
        metrics.fanout.record(UInt64(subscribers))
        if let counter = topicCounters.first(where: { $0.stream.hasSameTopic(as: name.stream) })?.counter {
            return counter.add(subscribers)
        }
        let counter = metrics.deliveries[name.stream.topic]
        counter.add(subscribers)
        if topicCounters.count < TopicCounters.topicsMax { topicCounters.append((name.stream, counter)) }
    }

    /// Tells everybody in the stream that it goes on at `position`.
    func reset(_ name: StreamName, to position: StreamPosition, _ loss: ResumeLoss) {
        guard let channel = hub.channel(name) else { return }
        let frame = hub.reset(channel, to: position, loss)
        for id in channel.subscribers { connection(id)?.queue(frame) }
    }

    // MARK: Those who are behind

    /// The connection is fed by pages: at the end of the tick it gets the next, if it has room, and it is watched for
    /// whether it takes anything.
    func pull(_ connection: Connection) {
        connection.isPulled = true
        loop.markDirty(connection)
        if pulling[connection.sessionID] == nil {
            pulling[connection.sessionID] = PullProgress(connection, at: loop.now)
            setSweep()
        }
    }

    private func setSweep() {
        guard !isSweepSet else { return }
        isSweepSet = true
        sweep?.set(after: min(Self.sweepInterval, timeouts.stalled))
    }

    /// The time has come to look.
    func swept() {
        isSweepSet = false
        let now = loop.now
        atHome { $0.sweep(now: now.nanoseconds, &$1) }
        for (id, progress) in pulling {
            guard let connection = connection(id), connection.session?.isBehind == true else {
                pulling[id] = nil
                continue
            }
            // Places that it named too often wait for their time.
            loop.markDirty(connection)
            let seen = PullProgress(connection, at: now)
            if connection.output.isEmpty || seen.isBeyond(progress) {
                pulling[id] = seen
            } else if now.duration(since: progress.since) >= timeouts.stalled {
                // Its pings are not answered either, but a peer may answer them and read nothing else for ever.
                pulling[id] = nil
                metrics.overloaded(.stalled, connection.address)
                connection.slow()
            }
        }
        if home.lingeringCount > 0 || !pulling.isEmpty { setSweep() }
    }
}

extension StreamLimits {
    /// What is one home's, where the bounds are the hub's.
    func share(of loops: Int) -> StreamLimits {
        var share = self
        share.windowTotalBytes = max(1, windowTotalBytes / loops)
        share.lingeringMax = lingeringMax / loops
        return share
    }
}
