import Pusher

/// The subscribers that one loop has of one channel.
///
/// Invariant: it is in the hub's table exactly while it has a subscriber or awaits one.
package final class Channel {
    package let name: ChannelName
    /// Whether the name is a user's stream, fed by the database.
    let isStream: Bool
    /// The loop's sessions that get this channel's events, in no order.
    package internal(set) var subscribers: ContiguousArray<SessionID> = []
    /// Subscribes whose answer from the stream's home is still under way.
    var joining = 0

    init(name: ChannelName, isStream: Bool) {
        self.name = name
        self.isStream = isStream
    }

    var isEmpty: Bool { subscribers.isEmpty && joining == 0 }
}
