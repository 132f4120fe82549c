import Bytes
import Pusher
import Sync

/// The subscribers that one loop has of one channel.
///
/// Invariant: it is in the hub's table exactly while it has a subscriber, live or behind, or awaits one.
package final class Channel {
    package let label: ChannelLabel
    // Beside the label, or it takes twice its bytes.
    /// Subscribes whose answer from the channel's home is still under way.
    var joining: UInt32 = 0
    /// The loop's sessions that get this channel's events, in no order.
    package internal(set) var subscribers = SubscriberList()
    /// Of a stream: the loop's sessions that get pages until they have caught up, in no order.
    var behind: ContiguousArray<SessionID> = []
    /// Of a stream: what this loop was handed last, by an answer or a broadcast, and so where each live subscriber
    /// stands. Known while there is one.
    private var life: Epoch?
    private var offset: Int64 = 0

    init(_ label: ChannelLabel) {
        self.label = label
    }

    /// The user's stream, fed by the database, that it is; nil for an ordinary channel.
    package var stream: StreamName? {
        guard case .stream(let stream) = label else { return nil }
        return stream
    }

    var isStream: Bool { stream != nil }

    /// Sessions that are to be told of events some way or other.
    package var memberCount: Int { subscribers.count + behind.count }

    /// See above.
    var position: StreamPosition? {
        get { life.map { StreamPosition(in: $0, offset: offset) } }
        set {
            life = newValue?.life
            offset = newValue?.offset ?? 0
        }
    }

    /// The event at `offset` has been handed to all who are live.
    package func advanced(to offset: Int64) {
        self.offset = offset
    }

    var isEmpty: Bool { subscribers.isEmpty && joining == 0 && behind.isEmpty }
}

/// What a channel is called.
package enum ChannelLabel: Hashable, Sendable {
    // Indirect, for a label of every user's stream takes the room of the largest.
    indirect case plain(ChannelName)
    /// Likewise a name, kept as what it stands for.
    case stream(StreamName)

    /// Appends the name, no character of which needs an escape in JSON.
    func append(to writer: inout ByteWriter) {
        switch self {
        case .plain(let name): writer.append(name.string)
        // One that was subscribed to can be written.
        case .stream(let name): _ = name.append(to: &writer)
        }
    }
}
