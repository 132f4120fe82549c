import Bytes
import Clock
import Metrics
import Pusher
import Sync

/// Sessions in users' streams: how they join, and how they catch up when they name a position or were too slow.
///
/// One mechanism serves both. A subscription that is behind has a cursor and gets pages from the shard, each asked for when
/// the connection has taken the one before. A position that a client names is a cursor too. A page that ends where the shard
/// stood when it answered makes the subscription live: the shard's next event follows that answer by the same mailbox.
package final class StreamSubscriptions {
    /// What the engine wants done.
    package typealias Effects = SessionEngine.Effects

    private let sessions: SessionTable
    private let channels: SubscribedChannels
    /// Streams whose topic no published table feeds.
    package let unpublished: UnpublishedStreams
    private let limits: ChannelLimits
    private let metrics: EngineMetrics
    private var knownEpoch = KnownEpoch()
    /// A session with more subscriptions is not searched for each position of a message. Most have two.
    private static let subscriptionsSearchedMax = 16

    init(
        of sessions: SessionTable, in channels: SubscribedChannels, _ limits: ChannelLimits, _ metrics: EngineMetrics
    ) {
        self.sessions = sessions
        self.channels = channels
        unpublished = UnpublishedStreams(in: channels, limits, metrics)
        self.limits = limits
        self.metrics = metrics
    }

    // MARK: Coming and going

    func enter(_ stream: StreamName, _ session: Session, _ effects: inout Effects) {
        if let channel = channels[stream] { return enter(channel, of: stream, session, &effects) }
        var stream = stream
        if let identity = session.identity, identity.owns(stream.stream) {
            stream = StreamName(form: stream.form, stream: stream.stream.sharing(identity.user))
        }
        enter(channels.insert(stream), of: stream, session, &effects)
    }

    /// Adds a subscription that awaits the shard of `stream`, whose channel is given.
    func enter(_ channel: LocalChannel, of stream: StreamName, _ session: Session, _ effects: inout Effects) {
        if unpublished.contains(channel, of: stream) {
            return unpublished.enter(channel, of: stream, session, &effects)
        }
        channel.joining += 1
        session.subscribe(to: channel)
        metrics.subscriptions(1, channel, of: session.app)
        let isBack = session.hasNamed(stream)
        effects.append(
            .join(StreamJoin(name: stream, session: session.id, serial: session.lastSerial, isBack: isBack)))
    }

    /// Removes a subscription, already out of the session's list, from its channel.
    func leave(_ subscription: Subscription, of session: Session, _ effects: inout Effects) {
        let channel = subscription.channel
        metrics.subscriptions(-1, channel, of: session.app)
        var isAwaitingShard = false
        switch subscription.standing {
        case .joining:
            channel.joining -= 1
            isAwaitingShard = true
        case .live(let subscriber): channels.takeOut(subscriber, of: channel)
        case .behind(let replay):
            isAwaitingShard = replay.isAsking
            channel.subscribers.removeBehind(session.id)
            session.behindCount -= 1
        }
        guard let name = channel.stream else { return }
        if channel.isEmpty {
            channels.remove(name)
            if channel.isUnpublished { unpublished.countsOut(name) } else { effects.append(.leave(name)) }
        } else if isAwaitingShard {
            effects.append(.forget(name))
        }
    }

    /// Answers a repeated subscribe with the session's own position: what it will be sent follows from there.
    func repeated(_ subscription: Subscription, _ effects: inout Effects) {
        let channel = subscription.channel
        guard let stream = channel.stream else { return }
        switch subscription.standing {
        case .joining: break
        case .behind(let replay): effects.append(.send(.succeeded(stream, at: replay.cursor)))
        case .live:
            // Known wherever somebody is live.
            guard let position = channel.position else { return }
            effects.append(.send(.succeeded(stream, at: position, isPublished: !channel.isUnpublished)))
        }
    }

    /// These topics are published. Returns the sessions that are behind now, and must be asked whether they have room.
    package func published(_ topics: PublishedTopics) -> [SessionID] {
        unpublished.published(topics).flatMap { channel in
            Array(channel.subscribers).filter { fellBehind($0, in: channel) }
        }
    }

    /// The stream is not watched after all. A session that was let in before its topic was published is told too.
    package func joinRefused(
        _ session: Session, serial: UInt32, _ refusal: StreamRefusal, _ effects: inout SessionEngine.Effects
    ) {
        guard let index = session.subscriptions.firstIndex(where: { $0.serial == serial }) else { return }
        let reason: SubscriptionRefusal
        switch refusal {
        // pusher-js never retries a channel that was refused, but it reconnects after this code.
        case .hubFull: return effects.append(.close(.overCapacity))
        case .userFull: reason = .tooManyStreams
        case .notNameable: reason = .notNameable
        }
        let subscription = session.subscriptions.remove(at: index)
        leave(subscription, of: session, &effects)
        guard let stream = subscription.channel.stream else { return }
        let position = session.takePosition(stream) ?? subscription.owed
        effects.refuse(stream, reason, owed: position, metrics)
        session.tidy()
    }

    // MARK: Named positions

    /// `sync:resume`: for each channel, the position that the client has. Streams it is in are replayed from there at once,
    /// the others when they are subscribed to: a client that signs in or asks its backend first may name positions early.
    func resume(_ data: [UInt8], _ session: Session, _ hasRoom: Bool, _ now: Instant, _ effects: inout Effects) {
        let request: ResumeRequest
        do throws(ResumeRequest.Fault) {
            // Closures of arrays do not pass typed errors on.
            let result: Result<ResumeRequest, ResumeRequest.Fault> = data.withUnsafeBytes { text in
                do throws(ResumeRequest.Fault) {
                    return .success(try ResumeRequest(text, most: limits.positionsPerSessionMax))
                } catch {
                    return .failure(error)
                }
            }
            request = try result.get()
        } catch {
            return effects.complain(error.message)
        }
        let channels = request.channels.map {
            (name: $0.name, stream: stream($0.name, of: session), position: $0.position)
        }
        var named = session.namedPositions
        named.reserveCapacity(named.count + channels.count)
        for case (_, let stream?, let position) in channels where session.awaits(stream) {
            named.removeAll { $0.stream == stream }
            named.append(NamedPosition(stream: stream, position: position))
        }
        guard named.count <= limits.positionsPerSessionMax else {
            return effects.complain("sync:resume names more channels than may wait for their subscribes")
        }
        guard session.identity != nil || named.count <= limits.parkedPerSessionMax else {
            return effects.complain("sync:resume names too many channels before the sign-in")
        }
        session.namedPositions = named
        for (name, stream, position) in channels {
            if let stream, let index = session.index(of: stream) {
                let channel = session.subscriptions[index].channel
                if channel.isUnpublished {
                    unpublished.resume(channel, from: position, &effects)
                    continue
                }
                replay(index, of: session, from: position)
            } else if stream.map(session.awaits) != true {
                effects.lose(.plain(name), at: position, .forbidden, metrics)
            }
        }
        if hasRoom { askResumes(of: session, now, &effects) }
    }

    /// Keeps the positions of a `sync:resume` in the usual spelling, for a client that is back.
    ///
    /// False, with nothing done, where the session does not await each of the channels, has named one before, is behind
    /// somewhere or in many channels, and where a limit is reached.
    func resume(common data: UnsafeRawBufferPointer, _ session: Session) -> Bool {
        guard session.app.ownsDatabase, !session.isBehind, session.isJoining,
            session.subscriptions.count <= Self.subscriptionsSearchedMax, var positions = CommonPositions(data)
        else { return false }
        let most = min(
            limits.positionsPerSessionMax, session.identity == nil ? limits.parkedPerSessionMax : .max)
        var named = session.namedPositions
        while let (name, epoch, offset) = positions.next() {
            guard named.count < most, let stream = session.awaited(name),
                !named.contains(where: { $0.stream == stream })
            else { return false }
            let shared = knownEpoch.epoch(named: epoch, perhaps: named.last?.position.epoch)
            if named.isEmpty { named.reserveCapacity(2) }
            named.append(NamedPosition(stream: stream, position: StreamPosition(in: shared, offset: offset)))
        }
        guard positions.isComplete else { return false }
        session.madeDetail().namedPositions = named
        return true
    }

    /// The stream of that name, if the session's app has streams and the name is a stream's.
    private func stream(_ name: ChannelName, of session: Session) -> StreamName? {
        session.app.ownsDatabase ? try? StreamName.parse(name.string) : nil
    }

    /// Replays from `position`, in place of what a subscription was being sent. A joining one waits for its answer.
    private func replay(_ index: Int, of session: Session, from position: StreamPosition) {
        switch session.subscriptions[index].standing {
        case .joining:
            return
        case .live(let subscriber):
            let channel = session.subscriptions[index].channel
            channels.takeOut(subscriber, of: channel)
            fallBehind(index, of: session, Replay(channel, cursor: position, isResume: true))
        case .behind(let replay) where replay.isAsking:
            replay.named = position
        case .behind(let replay):
            replay.cursor = position
            replay.isResume = true
        }
    }

    /// Asks about the named positions within the session's allowance. `drained` asks about the rest.
    private func askResumes(of session: Session, _ now: Instant, _ effects: inout Effects) {
        for index in session.subscriptions.indices {
            guard case .behind(let replay) = session.subscriptions[index].standing, replay.isResume, !replay.isAsking
            else { continue }
            guard session.resumeAllowance.take(limits.resumeRate, at: now) else { return }
            ask(.resume(from: replay.cursor), replay, index, of: session, &effects)
        }
    }

    // MARK: The shard's answers

    /// The stream's shard has answered. An answer to a request that was cancelled or replaced finds nothing.
    ///
    /// - Parameter hasRoom: whether the connection takes a page now. If not, the page is asked for again later.
    package func joined(
        _ joined: StreamJoined, _ session: Session, hasRoom: Bool, now: Instant, _ effects: inout Effects
    ) {
        guard let index = session.subscriptions.indexOfFirst(where: { $0.serial == joined.serial }) else { return }
        defer { session.tidy() }
        if let channel = session.subscriptions[index].awaited {
            return letIn(to: channel, joined, index, of: session, hasRoom, now, &effects)
        }
        let subscription = session.subscriptions[index]
        let channel = subscription.channel
        switch (subscription.standing, joined.outcome) {
        case (.behind(let replay), _) where replay.named != nil:
            replay.isAsking = false
            replay.cursor = replay.named ?? replay.cursor
            replay.isResume = true
            replay.named = nil
            if hasRoom { askResumes(of: session, now, &effects) }
        case (.behind(let replay), .recovered(let replayed, let page)):
            metrics.recovered(replayed)
            effects.append(.send(.resumed(channel.label, at: joined.position, replayed: replayed)))
            take(page, hasRoom, replay, index, of: session, at: joined.position, &effects)
        case (.behind(let replay), .page(let page)):
            take(page, hasRoom, replay, index, of: session, at: joined.position, &effects)
        case (.behind, .lost(let loss)):
            lost(loss, index, of: session, at: joined.position, &effects)
        case (.behind(let replay), .fresh):
            // The shard did not know the stream before. The events between are asked for next.
            replay.isAsking = false
            if !replay.isResume, replay.cursor == joined.position {
                goLive(index, subscription, of: session, at: joined.position)
            } else if hasRoom {
                askResumes(of: session, now, &effects)
            }
        case (.joining, _), (.live, _):
            break
        }
    }

    /// The answer to a subscribe: the session is in the channel, from now on or from the position that its client named.
    private func letIn(
        to channel: LocalChannel, _ joined: StreamJoined, _ index: Int, of session: Session, _ hasRoom: Bool,
        _ now: Instant, _ effects: inout Effects
    ) {
        guard let stream = channel.stream else { return }
        channel.joining -= 1
        knownEpoch.came(joined.position.epoch)
        let named = session.takePosition(stream)
        // `!=` is generic, and finds `==` by the witness table. `==` is called directly.
        if let named, !(named == joined.position) {
            effects.append(.send(.succeeded(stream, at: joined.position)))
            fallBehind(index, of: session, Replay(channel, cursor: named, isResume: true))
            if hasRoom { askResumes(of: session, now, &effects) }
            return
        }
        if named == nil {
            effects.append(.send(.succeeded(stream, at: joined.position)))
        } else {
            // Nothing was missed, as the shard would say: both answers leave by one write, and no loop is woken again.
            metrics.recovered(0)
            effects.append(.send(.rejoined(stream, at: joined.position)))
        }
        channel.position = joined.position
        let standing = channel.append(session.id)
        session.subscriptions[index] = Subscription(of: channel, standing, serial: joined.serial)
    }

    private func take(
        _ page: StreamPage?, _ hasRoom: Bool, _ replay: Replay, _ index: Int, of session: Session,
        at position: StreamPosition, _ effects: inout Effects
    ) {
        replay.isAsking = false
        replay.isResume = false
        if let page {
            // Asked for once more when there is room.
            guard hasRoom else { return }
            effects.append(.share(page.messages))
            replay.cursor = StreamPosition(in: position.epoch, offset: page.last)
        }
        if replay.cursor.offset == position.offset {
            goLive(index, session.subscriptions[index], of: session, at: position)
        }
    }

    private func lost(
        _ loss: ResumeLoss, _ index: Int, of session: Session, at position: StreamPosition, _ effects: inout Effects
    ) {
        let subscription = session.subscriptions[index]
        effects.lose(subscription.channel.label, at: position, loss, metrics)
        goLive(index, subscription, of: session, at: position)
    }

    /// The connection has little left to send. Named positions are asked about, and one stream that is behind gets its next
    /// page; one such page is in flight at a time.
    package func drained(_ session: Session, now: Instant, _ effects: inout Effects) {
        guard session.isBehind else { return }
        askResumes(of: session, now, &effects)
        let count = session.subscriptions.count
        let first = Int(session.detail?.nextTurn ?? 0)
        var next: Int?
        for step in 0..<count {
            let index = (first + step) % count
            guard case .behind(let replay) = session.subscriptions[index].standing, !replay.isResume else { continue }
            if replay.isAsking { return }
            next = next ?? index
        }
        guard let next, case .behind(let replay) = session.subscriptions[next].standing else { return }
        session.madeDetail().nextTurn = UInt32(truncatingIfNeeded: next &+ 1)
        ask(.next(after: replay.cursor), replay, next, of: session, &effects)
    }

    // MARK: Live and behind

    /// A live subscriber reads too slowly: it is fed by pages from now on. False where it is gone.
    package func fellBehind(_ id: SessionID, in channel: LocalChannel) -> Bool {
        guard channel.stream != nil, let position = channel.position, let session = sessions[id],
            let index = session.index(of: channel), case .live(let subscriber) = session.subscriptions[index].standing
        else { return false }
        channels.takeOut(subscriber, of: channel)
        fallBehind(index, of: session, Replay(channel, cursor: position, isResume: false))
        return true
    }

    /// The stream continues at `position`, and the events between are lost for all its sessions: all are live from there.
    /// The returned message tells them. Answers in flight to any of them are void.
    package func reset(_ channel: LocalChannel, to position: StreamPosition, _ loss: ResumeLoss) -> Messages {
        for id in channel.subscribers.takeBehind() {
            guard let session = sessions[id], let index = session.index(of: channel) else { continue }
            session.subscriptions[index].serial = session.nextSerial()
            session.subscriptions[index].standing = channel.append(id)
            session.behindCount -= 1
        }
        channel.position = position
        metrics.resets.add(channel.memberCount)
        return .resumed(channel.label, at: position, lost: loss)
    }

    private func fallBehind(_ index: Int, of session: Session, _ replay: Replay) {
        session.subscriptions[index].standing = .behind(replay)
        replay.channel.subscribers.appendBehind(session.id)
        session.behindCount += 1
    }

    /// The shard and the session are both at `position`.
    ///
    /// - Parameter subscription: the one at `index`.
    private func goLive(
        _ index: Int, _ subscription: Subscription, of session: Session, at position: StreamPosition
    ) {
        let channel = subscription.channel
        if case .behind = subscription.standing {
            channel.subscribers.removeBehind(session.id)
            session.behindCount -= 1
        }
        channel.position = position
        session.subscriptions[index] = subscription.with(channel.append(session.id))
    }

    private func ask(
        _ purpose: StreamJoin.Purpose, _ replay: Replay, _ index: Int, of session: Session, _ effects: inout Effects
    ) {
        replay.isAsking = true
        let serial = session.nextSerial()
        session.subscriptions[index].serial = serial
        guard let name = session.subscriptions[index].channel.stream else { return }
        effects.append(.join(StreamJoin(name: name, session: session.id, serial: serial, purpose: purpose)))
    }
}
