/// The bounds of this target.
package enum FeedLimits {
    /// Rows of one page of the tail, a bulk or a replay. An event has at most about 10 KB (`sql/`), a page about 10 MB.
    package static let pageRows = 1_000
    /// Streams whose positions one statement reads.
    package static let positionsPerQuery = 1_000
    /// Streams watched at a time unless configured otherwise; one more is refused.
    package static let streamsMax = 1_000_000
    /// Streams of one user watched at a time unless configured otherwise; one more is refused.
    package static let streamsPerUserMax = 1_000
    /// A user's first streams, up to this many, have their positions read before the further streams of any user.
    package static let streamsInFront = 16
    /// After a query for positions, fewer than a full one are asked for only when this time for each of its streams has
    /// passed, at most `positionRestMax`; or when no stream has come for `positionQuiet`.
    static let positionRest = Duration.milliseconds(2)
    static let positionRestMax = Duration.milliseconds(500)
    static let positionQuiet = Duration.milliseconds(25)
    /// Published topics known by name; with one more, every topic counts as published.
    package static let topicsMax = 1_000
    /// Messages queued for the loops above which the feed stops reading until they catch up.
    package static let backlogMax = 10_000
    /// Messages queued for the loops above which the feed stops reading pages of a bulk. Less than `backlogMax`, because
    /// live events of others queue behind those pages.
    package static let bulkBacklogMax = 1_000
    /// A read of the tail that takes longer is followed by a rest of at most `tailRestMax`.
    static let tailQuick = Duration.microseconds(500)
    static let tailRestMax = Duration.milliseconds(5)
    /// Reads of the log of each kind, pages and confirmations, that may wait; one more is answered `busy`. A stream has one
    /// at a time: 15,000 devices that are back at once, and have missed something on two channels, fit in.
    package static let readsMax = 50_000
    /// Reads of each kind that may wait for one user's streams. Each stream has one at a time.
    package static let readsPerUserMax = 200
    /// Reads of the log in flight on one connection.
    package static let readDepth = 16
    /// Pages in a row before a waiting confirmation has its turn.
    static let pagesInARow = 7
    /// Failures of one read on a living server after which it is answered `busy`.
    static let readFailuresMax = 3
    /// Connections that may be lost under a read; one more loss is answered `busy`.
    static let readLossesMax = 10
    /// Events of one page of the log, and the bytes of data after which the page takes no more.
    package static let readRows = 256
    /// Bytes of data after which a page takes no further event.
    package static let readBytes = 262_144
    /// Revocations that one statement reads.
    package static let revocationRows = 1_000
    /// Problems of published tables that one check takes, a few per table; the rest wait until these are solved.
    package static let publishedProblems = 100
    /// The greatest length of the probe's token. Only one byte more of a payload is compared: a server may send any payload.
    package static let probeBytes = 16
}
