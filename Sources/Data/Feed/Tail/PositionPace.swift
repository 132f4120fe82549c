import Clock

/// Decides when positions are asked for, so that a crowd that comes at once costs few queries.
///
/// A query is followed by a rest, the longer the more streams it asked about. During the rest only a full query is sent.
/// So a stream that comes alone waits hardly. While more than a thousand come each second, a query asks about 500 or more.
/// The rest is over when nobody has come for a while: the last of a crowd do not wait in vain.
///
/// Worst interleavings, each with its test in `PositionPaceTests`:
/// - Streams come one by one for ever, each just before the rest would end: the rest has an end of its own.
/// - A crowd is followed by one stream: it waits no longer than `positionQuiet`.
struct PositionPace {
    private var restsUntil = Instant(nanoseconds: 0)
    private var lastCame = Instant(nanoseconds: 0)

    /// A stream was watched.
    mutating func came(at now: Instant) { lastCame = now }

    /// A query for so many positions is sent.
    mutating func asked(_ count: Int, at now: Instant) {
        restsUntil = now.advanced(by: min(FeedLimits.positionRest * count, FeedLimits.positionRestMax))
    }

    /// How long fewer streams than a query holds still wait; nil where they are asked about now.
    func rest(at now: Instant) -> Duration? {
        let end = min(restsUntil, lastCame.advanced(by: FeedLimits.positionQuiet))
        return end > now ? end.duration(since: now) : nil
    }
}
