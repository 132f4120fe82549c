import Clock

/// A session that is to be let in.
struct Newcomer {
    let entry: ChannelEntry
    /// Its loop.
    let loop: Int
    /// From then on it is not asked for again.
    let until: Instant

    init(_ entry: ChannelEntry, _ loop: Int, askedAt now: Instant) {
        (self.entry, self.loop) = (entry, loop)
        until = now.advanced(by: ChannelWaits.entryPatience)
    }

    /// One for all subscribes of a connection to a channel.
    struct Place: Hashable {
        let loop: Int
        let session: SessionID
    }

    var place: Place { Place(loop: loop, session: entry.session) }
}
