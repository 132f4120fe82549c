import Bytes
import Metrics
import Pusher
import Sync

/// Streams of topics that no table is published for, and streams that are not watched.
///
/// Names are easily made up. So a subscribe to an unpublished topic is answered at once, with offset 0 of the epoch in
/// which its stream will begin, and no home, feed or database hears of it. Once the topic is published, a session that is in such
/// a stream is behind at that offset: its home is asked what follows, as for a slow client, and watches the stream.
///
/// Worst interleavings, each with its test in `UnpublishedTests`:
/// - events are committed before the hub knows of the topic, or while the first position is read: they have offsets above
///   0, so pages of the log bring them (`nothingIsMissedFromPublishingOn`);
/// - the topic was published and withdrawn before this hub started, and its streams have events: who was told offset 0 gets
///   all of them, or is told to fetch a snapshot where the log does not reach back (`anOldStreamIsReplayed`);
/// - the database begins another epoch before the topic is published: the stream is of another life, and that is told as a
///   reset (`anotherEpochIsAReset`).
extension Hub {
    /// Whether the channel is a stream's of a topic that is not published. One that was entered before that was known is not.
    func isUnpublished(_ channel: Channel, of stream: StreamName) -> Bool {
        if channel.isUnpublished { return true }
        guard let topics, channel.isEmpty else { return false }
        return !topics.contains(stream.stream)
    }

    /// Makes the session one that is in a stream which is not watched.
    func enterUnpublished(_ channel: Channel, of stream: StreamName, _ session: Session, _ effects: inout Effects) {
        guard let start = channel.isUnpublished ? channel.position : topics?.start else { return }
        if !channel.isUnpublished {
            guard countsIn(stream) else { return refuseUnpublished(stream, session, &effects) }
        }
        channel.position = start
        channel.isUnpublished = true
        metrics.subscriptions(1, channel, of: session.app)
        let serial = session.nextSerial()
        session.subscriptions.append(Subscription(of: channel, channel.append(session.id), serial: serial))
        effects.append(.send(.succeeded(stream, at: start, isPublished: false)))
        if let position = takePlace(stream, of: session) {
            resumeUnpublished(channel, from: position, &effects)
        }
    }

    /// A stream that is not watched has somebody in it now. False where its user has as many such as may be.
    private func countsIn(_ stream: StreamName) -> Bool {
        let user = Self.code(ofUser: stream)
        let others = unpublishedOfUsers[user] ?? 0
        guard others < limits.unpublishedPerUserMax else { return false }
        unpublishedOfUsers[user] = others + 1
        return true
    }

    /// It has nobody in it any more, or is watched from now on.
    func countsOut(_ stream: StreamName) {
        let user = Self.code(ofUser: stream)
        let left = (unpublishedOfUsers[user] ?? 1) - 1
        unpublishedOfUsers[user] = left > 0 ? left : nil
    }

    private static func code(ofUser stream: StreamName) -> UInt64 { stream.stream.withUser { KeyedHash.hash($0) } }

    private func refuseUnpublished(_ stream: StreamName, _ session: Session, _ effects: inout Effects) {
        remove(stream)
        metrics.refusedStreams.add()
        tellRefused(stream, .tooManyStreams, owed: takePlace(stream, of: session), &effects)
    }

    /// Tells that the stream is refused, and answers the place that the client named in it.
    private func tellRefused(
        _ stream: StreamName, _ reason: SubscriptionRefusal, owed position: StreamPosition?, _ effects: inout Effects
    ) {
        effects.append(.send(.refused(stream, reason)))
        guard let position else { return }
        metrics.lost(.storeUnavailable)
        effects.append(.send(.resumed(.stream(stream), at: position, lost: .storeUnavailable)))
    }

    /// A client names the place that it has in a stream that is not watched.
    func resumeUnpublished(_ channel: Channel, from position: StreamPosition, _ effects: inout Effects) {
        guard let start = channel.position else { return }
        if position == start {
            metrics.recovered(0)
            effects.append(.send(.resumed(channel.label, at: start, replayed: 0)))
        } else {
            let loss: ResumeLoss = position.life == start.life ? .ahead : .streamReset
            metrics.lost(loss)
            effects.append(.send(.resumed(channel.label, at: start, lost: loss)))
        }
    }

    /// These topics are published. Returns the sessions that are behind now, and are to be asked whether they have room.
    package func published(_ topics: PublishedTopics) -> [SessionID] {
        self.topics = topics
        var behind: [SessionID] = []
        for table in [userStreams, privateStreams] {
            for channel in table.entries.lazy.map(\.channel) where channel.isUnpublished {
                guard let stream = channel.stream, topics.contains(stream.stream) else { continue }
                channel.isUnpublished = false
                countsOut(stream)
                for id in Array(channel.subscribers) where fellBehind(id, in: channel) { behind.append(id) }
            }
        }
        return behind
    }

    /// The stream is not watched after all. A session that was let in before its topic was published is told so, too.
    package func joinRefused(
        _ session: Session, serial: UInt32, _ refusal: StreamRefusal, _ effects: inout Effects
    ) {
        guard let place = session.subscriptions.firstIndex(where: { $0.serial == serial }) else { return }
        let reason: SubscriptionRefusal
        switch refusal {
        // pusher-js never asks again for a channel that was refused, but it comes back after this code.
        case .hubFull: return effects.append(.close(.overCapacity))
        case .userFull: reason = .tooManyStreams
        case .notNameable: reason = .notNameable
        }
        let subscription = session.subscriptions.remove(at: place)
        leave(subscription, of: session, mayReturn: false, &effects)
        guard let stream = subscription.channel.stream else { return }
        let position = takePlace(stream, of: session) ?? subscription.owed
        tellRefused(stream, reason, owed: position, &effects)
        session.tidy()
    }
}
