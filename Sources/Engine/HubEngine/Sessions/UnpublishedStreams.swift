import Bytes
import Metrics
import Pusher
import Sync

/// Streams of topics that no table is published for. They are not watched.
///
/// Names are easily made up. So a subscribe to an unpublished topic is answered at once, with offset 0 of the epoch in which
/// its stream will begin, and no shard, feed or database hears of it. Once the topic is published, a session in such a
/// stream is behind at that offset: its shard is asked what follows, as for a slow client, and watches the stream.
///
/// Worst interleavings, each with its test in `UnpublishedTests`:
/// - Events are committed before the hub knows of the topic, or while the first position is read. They have offsets above 0,
///   so pages of the log bring them (`nothingIsMissedFromPublishingOn`).
/// - The topic was published and withdrawn before this hub started, and its streams have events. A client that was told
///   offset 0 gets all of them, or is told to fetch a snapshot where the log does not reach back (`anOldStreamIsReplayed`).
/// - The database begins another epoch before the topic is published, which is told as a reset (`anotherEpochIsAReset`).
package final class UnpublishedStreams {
    private let channels: SubscribedChannels
    private let limits: ChannelLimits
    private let metrics: EngineMetrics
    /// The published topics; nil until they are known, and then all streams are watched.
    private var topics: PublishedTopics?
    /// Unpublished streams that each user is in here, by a keyed hash of the id.
    private var countsOfUsers: [UInt64: Int] = [:]

    init(in channels: SubscribedChannels, _ limits: ChannelLimits, _ metrics: EngineMetrics) {
        self.channels = channels
        self.limits = limits
        self.metrics = metrics
    }

    /// Users in unpublished streams.
    package var userCount: Int { countsOfUsers.count }

    /// Whether the channel is a stream of an unpublished topic. One that was entered before the topics were known is not.
    func contains(_ channel: LocalChannel, of stream: StreamName) -> Bool {
        if channel.isUnpublished { return true }
        return channel.isEmpty && Self.isUnpublished(stream, &topics)
    }

    /// `inout`, because a property would be copied before it is asked.
    private static func isUnpublished(_ stream: StreamName, _ topics: inout PublishedTopics?) -> Bool {
        topics?.contains(stream.stream) == false
    }

    /// Adds a live subscription to a stream that is not watched.
    func enter(
        _ channel: LocalChannel, of stream: StreamName, _ session: Session, _ effects: inout SessionEngine.Effects
    ) {
        guard let start = channel.isUnpublished ? channel.position : topics?.start else { return }
        if !channel.isUnpublished {
            guard countsIn(stream) else {
                channels.remove(stream)
                metrics.refusedStreams.add()
                let position = session.takePosition(stream)
                return effects.refuse(stream, .tooManyStreams, owed: position, metrics)
            }
        }
        channel.position = start
        channel.isUnpublished = true
        metrics.subscriptions(1, channel, of: session.app)
        let serial = session.nextSerial()
        session.subscriptions.append(Subscription(of: channel, channel.append(session.id), serial: serial))
        effects.append(.send(.succeeded(stream, at: start, isPublished: false)))
        if let position = session.takePosition(stream) { resume(channel, from: position, &effects) }
    }

    /// A stream that is not watched has its first session. False where its user has as many as allowed.
    private func countsIn(_ stream: StreamName) -> Bool {
        let user = Self.code(ofUser: stream)
        let others = countsOfUsers[user] ?? 0
        guard others < limits.unpublishedPerUserMax else { return false }
        countsOfUsers[user] = others + 1
        return true
    }

    /// The stream is empty, or watched from now on.
    func countsOut(_ stream: StreamName) {
        let user = Self.code(ofUser: stream)
        let left = (countsOfUsers[user] ?? 1) - 1
        countsOfUsers[user] = left > 0 ? left : nil
    }

    private static func code(ofUser stream: StreamName) -> UInt64 { stream.stream.withUser { KeyedHash.hash($0) } }

    /// A client names its position in a stream that is not watched.
    func resume(_ channel: LocalChannel, from position: StreamPosition, _ effects: inout SessionEngine.Effects) {
        guard let start = channel.position else { return }
        if position == start {
            metrics.recovered(0)
            effects.append(.send(.resumed(channel.label, at: start, replayed: 0)))
        } else {
            let loss: ResumeLoss = position.epoch == start.epoch ? .ahead : .streamReset
            effects.lose(channel.label, at: start, loss, metrics)
        }
    }

    /// These topics are published. Returns the channels whose streams are watched from now on.
    func published(_ topics: PublishedTopics) -> [LocalChannel] {
        self.topics = topics
        return channels.streams.filter { channel in
            guard channel.isUnpublished, let stream = channel.stream, topics.contains(stream.stream) else {
                return false
            }
            channel.isUnpublished = false
            countsOut(stream)
            return true
        }
    }
}
