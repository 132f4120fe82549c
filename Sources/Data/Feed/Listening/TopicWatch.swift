import Sync

/// Decides when to read the published topics: on connect before any position, with each poll, and when `sync.enroll`
/// notifies. Performs no I/O.
///
/// Topics are only added while the hub runs: streams of an unpublished topic stay watched, and no event comes.
///
/// Worst interleaving: a table is published and written while a subscribe to its topic is accepted without a watch. The
/// subscriber was told offset 0 of `PublishedTopics.epoch`; the events have higher offsets. Once the topic is known, the
/// stream is watched, its position is read after that commit, and the events between are read from the log
/// (`FeedTests.aTopicIsToldWhenItIsPublished`, `UnpublishedTests.nothingIsMissedFromPublishingOn`).
package struct TopicWatch {
    private var isConnected = false
    private var isWoken = false
    /// Whether a query is in flight.
    package private(set) var isBusy = false
    private var known: PublishedTopics?
    /// Whether the topics were ever read.
    package var areKnown: Bool { known != nil }

    /// No topic is known, and no connection is up.
    package init() {}

    /// A connection is up.
    package mutating func connected() {
        disconnected()
        isConnected = true
        isWoken = true
    }

    /// The connection was lost, and with it the answer in flight.
    package mutating func disconnected() {
        isConnected = false
        isBusy = false
    }

    /// A topic may have been published.
    package mutating func wake() {
        isWoken = true
    }

    /// Whether to read the topics now; if true, the query counts as in flight.
    package mutating func begins() -> Bool {
        guard isConnected, !isBusy, isWoken else { return false }
        // Before the read, since its snapshot may be older than the next wake-up.
        isWoken = false
        isBusy = true
        return true
    }

    /// The topics were read. Returns what to deliver; nil if nothing changed.
    package mutating func received(_ topics: PublishedTopics) -> PublishedTopics? {
        isBusy = false
        let all = known?.union(topics) ?? topics
        guard all != known else { return nil }
        known = all
        return all
    }
}
