import Clock

/// The engine's bounds. Each is tested at the bound and one past it.
package struct ChannelLimits: Sendable {
    /// Channels that one connection may be subscribed to.
    package var subscriptionsPerSessionMax = 1_000
    /// Positions of one connection's `sync:resume` that may wait for their subscribes. Lookups are linear.
    package var positionsPerSessionMax = 100
    /// Guarded subscribes, or positions, that one connection may have waiting for its identity.
    package var parkedPerSessionMax = 20
    /// Streams of unpublished topics that one user may be in, over all connections of a loop. One more is refused.
    package var unpublishedPerUserMax = 1_000
    /// Tokens of one connection that may be refused in a row. The last of them closes the connection.
    package var refusedTokensMax = 10
    /// Resumes of one connection decided back to back; more wait. Each costs the hub a page, and the client nothing.
    package var resumesAtOnceMax = 100
    /// One more resume is allowed after this time.
    package var resumeInterval = Duration.milliseconds(100)
    /// Actions that one connection may have in flight. One more is answered `retry`.
    package var actionsPerSessionMax = 256
    /// Bounds of the shards of ordinary channels.
    package var shards = ShardLimits()
    /// Bounds of the shards of streams.
    package var streams = StreamLimits()

    /// The defaults.
    package init() {}

    var resumeRate: Rate { Rate(nanoseconds: resumeInterval.wholeNanoseconds, burst: resumesAtOnceMax) }

    /// Bytes of an epoch that a client may name.
    static let epochBytes = 128
    /// The largest offset that a client may name: JavaScript counts exactly up to it.
    static let offsetMax: Int64 = 1 << 53
}

/// The bounds of one shard of streams, one shard for each loop. Each is tested at the bound and one past it.
package struct StreamLimits: Sendable, Equatable {
    /// Recent events kept for one stream.
    package var windowEvents = 256
    /// Bytes of those events, including what keeping them costs.
    package var windowBytes = 256 << 10
    /// Bytes of the windows of all streams, including what keeping them costs.
    package var windowTotalBytes = 64 << 20
    /// Events that a `sync:resume` may be behind. Beyond it the client is told to fetch a snapshot.
    package var replayEvents: Int64 = 1_000
    /// Events of one page.
    package var pageEvents = 256
    /// Bytes of the events of one page, unless its first event is larger.
    package var pageBytes = 256 << 10
    /// Readers of one stream's log that may wait at once. One more resume is told that the store is unavailable.
    package var readersPerStreamMax = 1_000
    /// The first backoff, about, for a page that no client asked for, while the log is out of reach. It doubles each time.
    package var readPause = Duration.milliseconds(250)
    /// The longest such backoff.
    package var readPauseMax = Duration.seconds(4)
    /// How long a stream without subscribers is kept, for a device that comes back.
    package var linger = Duration.seconds(30)
    /// Streams kept without subscribers. With one more, the oldest is dropped.
    package var lingeringMax = 100_000

    /// The defaults.
    package init() {}
}
