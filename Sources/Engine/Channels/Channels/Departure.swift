import Clock

/// The end of a grace period in a shard: of a user without a connection, or of a channel without anybody. Stale once somebody
/// has come back.
struct Departure {
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
