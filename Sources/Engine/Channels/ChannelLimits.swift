import Clock

/// The engine's bounds. Each is tested at the bound and one past it.
package struct ChannelLimits: Sendable {
    /// Channels that one connection may be subscribed to.
    package var subscriptionsPerSessionMax = 1_000
    /// Places that one connection may name in a `sync:resume`, and have waiting for their subscribes: each is looked for among
    /// those it has.
    package var placesPerSessionMax = 100
    /// Guarded subscribes that one connection may have waiting for its identity, and places that it may name before it.
    package var parkedPerSessionMax = 20
    /// Streams of topics that are not published that one user may be in, on all connections of a loop; one more is refused.
    package var unpublishedPerUserMax = 1_000
    /// Tokens in a row that are refused one connection; it is closed with the last of them.
    package var refusedTokensMax = 10
    /// Resumes of one connection that are decided one right after the other, a connection's worth of channels; more wait. Each
    /// costs the hub a page, however little it costs the client.
    package var resumesAtOnceMax = 100
    /// After which time there is one more.
    package var resumeInterval = Duration.milliseconds(100)
    /// Actions that one connection may have unanswered; one more is answered `retry`.
    package var actionsPerSessionMax = 256
    /// Of the homes of ordinary channels.
    package var homes = HomeLimits()
    /// Of the homes of streams.
    package var streams = StreamLimits()

    package init() {}

    var resumeRate: Rate { Rate(nanoseconds: resumeInterval.wholeNanoseconds, burst: resumesAtOnceMax) }

    /// Bytes of an epoch that a client may name.
    static let epochBytes = 128
    /// The largest offset that a client may name: what JavaScript counts to.
    static let offsetMax: Int64 = 1 << 53
}

/// The bounds of one home of streams. A hub has a home for each loop, which share what is for all streams. Each is tested at the bound and one past it.
package struct StreamLimits: Sendable, Equatable {
    /// Recent events kept of one stream.
    package var windowEvents = 256
    /// And their bytes, with what it costs to keep them.
    package var windowBytes = 256 << 10
    /// The same over all streams.
    package var windowTotalBytes = 64 << 20
    /// Events that a `sync:resume` may be behind; beyond, the client is told to fetch a snapshot.
    package var replayEvents: Int64 = 1_000
    /// Events of one page.
    package var pageEvents = 256
    /// Bytes of the events of one page, unless its first is larger.
    package var pageBytes = 256 << 10
    /// Pages of the log that may be awaited for one stream; one more client that resumes is told that the store is unavailable.
    package var readersPerStreamMax = 1_000
    /// After which time, about, a page that no client asked for is asked for again where the log was out of reach. Twice as
    /// long each time, and at most as long as the second says.
    package var readPause = Duration.milliseconds(250)
    package var readPauseMax = Duration.seconds(4)
    /// How long a stream that nobody wants is kept, for a device that comes back.
    package var linger = Duration.seconds(30)
    /// Streams kept so; with one more, the oldest goes.
    package var lingeringMax = 100_000

    package init() {}
}
