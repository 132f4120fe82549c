import Bytes

/// What a call may ask about channels: the parameter `info`, names separated by commas.
package struct ChannelInfo: OptionSet, Hashable, Sendable {
    /// One bit for each attribute.
    package let rawValue: UInt8

    /// The attributes of these bits.
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `user_count`: distinct users in a presence channel.
    package static let userCount = ChannelInfo(rawValue: 1)
    /// `subscription_count`: connections in a channel of any kind. Pusher's page shows it on presence channels, too.
    package static let subscriptionCount = ChannelInfo(rawValue: 2)
    /// `cache`: the last event of a cache channel.
    package static let cache = ChannelInfo(rawValue: 4)

    /// Nil when the list has an unknown name.
    package init?(list: UnsafeRawBufferPointer) {
        self = []
        var at = 0
        while at <= list.count {
            let end = list.firstIndex(of: UInt8(ascii: ","), from: at) ?? list.count
            let name = list.part(min(at, list.count)..<end).trimmingBlanks
            at = end + 1
            if name.equals("user_count") {
                insert(.userCount)
            } else if name.equals("subscription_count") {
                insert(.subscriptionCount)
            } else if name.equals("cache") {
                insert(.cache)
            } else if name.count > 0 {
                return nil
            }
        }
    }

    /// The attributes that a channel of `kind` has.
    package func valid(for kind: ChannelName.Kind) -> ChannelInfo {
        var valid = self
        if !kind.isPresence { valid.remove(.userCount) }
        if !kind.isCache { valid.remove(.cache) }
        return valid
    }
}
