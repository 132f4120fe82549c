/// The bounds of this target, in one place.
package enum FeedLimits {
    /// Rows of one page of the tail, of a bulk or of a replay, and so events of one call of the sink. Events are at most about
    /// 10 KB each (`sql/`), so a page is at most about 10 MB.
    package static let pageRows = 1_000
    /// Streams whose positions one statement reads.
    package static let positionsPerQuery = 1_000
    /// Streams watched at a time unless configured otherwise; one more is refused.
    package static let streamsMax = 1_000_000
    /// Streams of one user watched at a time unless configured otherwise; one more is refused.
    package static let streamsPerUserMax = 1_000
    /// A user's streams up to this one have their positions read before those of users who have more.
    package static let streamsInFront = 16
    /// Published topics that are told apart; with one more, all topics count as published.
    package static let topicsMax = 1_000
    /// Messages that the loops may have before them; above it the feed stops reading until they have caught up.
    package static let backlogMax = 10_000
    /// Messages that the loops may have before them; above it the feed stops reading pages of a bulk until they have caught
    /// up. It is less than `backlogMax`, because live events of others come behind those pages.
    package static let bulkBacklogMax = 1_000
    /// A read of the tail that takes longer is followed by a rest, which is no longer than this.
    static let tailQuick = Duration.microseconds(500)
    static let tailRestMax = Duration.milliseconds(5)
    /// Reads of the log of each kind, pages and confirmations, that may wait; one more is answered `busy`.
    package static let readsMax = 20_000
    /// The same of one user's streams. Each stream has one at a time.
    package static let readsPerUserMax = 200
    /// Reads of the log sent before the first of them is answered.
    package static let readDepth = 16
    /// Pages in a row after which a confirmation that waits has its turn.
    static let pagesInARow = 7
    /// Failures of one read on a living server after which it is answered `busy`.
    static let readFailuresMax = 3
    /// Connections that may be lost under a read; with one more it is answered `busy`.
    static let readLossesMax = 10
    /// Events of one page of the log, and the bytes of data after which it takes no further one.
    package static let readRows = 256
    package static let readBytes = 262_144
    /// Revocations that one statement reads.
    package static let revocationRows = 1_000
    /// Problems of published tables that a check takes; there are a few for each table, and further ones wait for these.
    package static let publishedProblems = 100
    /// Alerts of the listening connection are small, but a server may send any number in one read: of their payloads,
    /// this many bytes are compared.
    package static let probeBytes = 16
}
