import Sync

/// Decides when to read which topics are published: on every connect before any position, with every poll, and when
/// `sync.enroll` tells of one. Performs no I/O.
///
/// Topics are only added while the hub runs: streams of one that is no longer published stay watched, and nothing comes.
///
/// Worst interleaving: a table is published and written while a subscribe to its topic is let in without being watched. The
/// subscribe was told offset 0 of `PublishedTopics.epoch`; the events have numbers above that. When the topic is known the
/// stream is watched, its position is read later than that commit, and what lies between is read from the log
/// (`FeedTests.aTopicIsToldWhenItIsPublished`, `UnpublishedTests.nothingIsMissedFromPublishingOn`).
package struct TopicWatch {
    private var isConnected = false
    private var isWoken = false
    /// Whether an answer is awaited.
    package private(set) var isBusy = false
    private var known: PublishedTopics?
    /// Whether they were ever read.
    package var areKnown: Bool { known != nil }

    package init() {}

    /// A connection is there.
    package mutating func connected() {
        disconnected()
        isConnected = true
        isWoken = true
    }

    /// The connection is gone, and with it the answer under way.
    package mutating func disconnected() {
        isConnected = false
        isBusy = false
    }

    /// A topic may have been published.
    package mutating func wake() {
        isWoken = true
    }

    /// Whether they are to be read now; the answer is awaited then.
    package mutating func begins() -> Bool {
        guard isConnected, !isBusy, isWoken else { return false }
        // Before the read, whose snapshot may be older than what wakes next.
        isWoken = false
        isBusy = true
        return true
    }

    /// They were read. What is to be told; nil where nothing has changed.
    package mutating func received(_ topics: PublishedTopics) -> PublishedTopics? {
        isBusy = false
        let all = known?.union(topics) ?? topics
        guard all != known else { return nil }
        known = all
        return all
    }
}
