import Bytes

/// The topics that the database publishes, and the start position of streams without events.
package struct PublishedTopics: Sendable, Equatable {
    /// The epoch of streams without events.
    package let epoch: Epoch
    /// One stream for each topic, with an empty user; nil when all topics count as published.
    private let streams: [StreamID]?

    /// - Parameter topics: nil for all.
    package init(epoch: String, topics: [String]?) {
        self.init(in: Epoch(epoch), streams: topics?.map { StreamID(user: "", topic: $0) })
    }

    private init(in epoch: Epoch, streams: [StreamID]?) {
        self.epoch = epoch
        self.streams = streams
    }

    /// The position of a stream that never had an event.
    package var start: StreamPosition { StreamPosition(in: epoch, offset: 0) }

    /// Whether the stream's topic is published.
    package func contains(_ stream: StreamID) -> Bool {
        streams?.contains { $0.hasSameTopic(as: stream) } ?? true
    }

    /// All topics of both; the epoch is that of `others`.
    package func union(_ others: PublishedTopics) -> PublishedTopics {
        guard let streams, let news = others.streams else {
            return PublishedTopics(in: others.epoch, streams: nil)
        }
        return PublishedTopics(in: others.epoch, streams: streams + news.filter { !contains($0) })
    }
}
