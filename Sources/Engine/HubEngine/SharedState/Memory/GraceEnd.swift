import Clock

/// The end of a grace period in a shard: for a user without a connection, or for an empty channel. Stale once somebody has
/// come back.
struct GraceEnd {
    let key: ChannelKey
    /// Nil for the channel itself.
    let user: String?
    let number: UInt64
    let due: Instant

    func stands(in channel: ChannelState?) -> Bool {
        guard let channel else { return false }
        guard let user else { return channel.vacating == number }
        return channel.members.awaits(number, of: user)
    }
}
