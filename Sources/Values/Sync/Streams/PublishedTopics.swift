import Bytes

/// The topics that the database publishes, and where a stream begins that has no events.
package struct PublishedTopics: Sendable, Equatable {
    /// The epoch of streams without events.
    package let epoch: Epoch
    /// A stream of each, of no user; nil where all topics count as published.
    private let streams: [StreamID]?

    /// - Parameter topics: nil for all.
    package init(epoch: String, topics: [String]?) {
        self.init(in: Epoch(epoch), streams: topics?.map { StreamID(user: "", topic: $0) })
    }

    private init(in epoch: Epoch, streams: [StreamID]?) {
        self.epoch = epoch
        self.streams = streams
    }

    /// Where a stream is that never had an event.
    package var start: StreamPosition { StreamPosition(in: epoch, offset: 0) }

    /// Whether the stream's topic is one of them.
    package func contains(_ stream: StreamID) -> Bool {
        streams?.contains { $0.hasSameTopic(as: stream) } ?? true
    }

    /// These, and those that only `others` has; the epoch is that of `others`.
    package func union(_ others: PublishedTopics) -> PublishedTopics {
        guard let streams, let news = others.streams else {
            return PublishedTopics(in: others.epoch, streams: nil)
        }
        return PublishedTopics(in: others.epoch, streams: streams + news.filter { !contains($0) })
    }
}
