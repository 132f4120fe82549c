import Clock

/// What is about to be gone from a shard: a user without a connection, or one of whom only the app's backend still has to
/// hear that he is gone, or a channel without anybody. Stands for nothing once somebody has come back.
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
