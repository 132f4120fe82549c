import Bytes
import Pusher
import Sync

/// The subscribers that one loop has of one channel.
///
/// Invariant: it is in the hub's table exactly while it has a subscriber, live or behind, or awaits one.
package final class Channel {
    // Small, and in an order that leaves no gaps: a hub has one for each stream of each connection.
    /// The loop's sessions that get this channel's events.
    package internal(set) var subscribers = SubscriberList()
    /// Subscribes whose answer from the channel's home is still under way.
    var joining: UInt32 = 0
    package let label: ChannelLabel
    /// Of a stream: what this loop was handed last, by an answer or a broadcast, and so where each live subscriber
    /// stands. Known while there is one. The offset is -1 of one that is not published.
    private var life: Epoch?
    private var offset: Int64 = 0

    init(_ label: ChannelLabel) {
        self.label = label
    }

    /// The user's stream, fed by the database, that it is; nil for an ordinary channel.
    package var stream: StreamName? { label.stream }

    /// Whether it is that stream, under that form of its name.
    func isOf(_ name: StreamName) -> Bool { stream == name }

    /// Sessions that are to be told of events some way or other.
    package var memberCount: Int { subscribers.count + subscribers.behind.count }

    /// Whether it is a stream of a topic that is not published: its home knows nothing of it, and all who are in it are at
    /// `position`, whose offset is 0.
    var isUnpublished: Bool {
        get { offset < 0 }
        set { offset = newValue ? -1 : 0 }
    }

    /// See above. Once set, the channel is not unpublished.
    var position: StreamPosition? {
        get { life.map { StreamPosition(in: $0, offset: max(0, offset)) } }
        set {
            life = newValue?.life
            offset = newValue?.offset ?? 0
        }
    }

    /// The event at `offset` has been handed to all who are live.
    package func advanced(to offset: Int64) {
        self.offset = offset
    }

    var isEmpty: Bool { subscribers.isEmpty && joining == 0 && subscribers.behind.isEmpty }
}

/// What a channel is called.
package enum ChannelLabel: Hashable, Sendable {
    // Indirect, for a label of every user's stream takes the room of the largest.
    indirect case plain(ChannelName)
    // Likewise names, kept as what they stand for; a case for each form, or the form takes a word of its own.
    case user(StreamID)
    case privateUser(StreamID)

    static func stream(_ name: StreamName) -> ChannelLabel {
        switch name.form {
        case .user: .user(name.stream)
        case .privateUser: .privateUser(name.stream)
        }
    }

    /// The stream's name that it is; nil for an ordinary channel's.
    var stream: StreamName? {
        switch self {
        case .plain: nil
        case .user(let stream): StreamName(form: .user, stream: stream)
        case .privateUser(let stream): StreamName(form: .privateUser, stream: stream)
        }
    }

    /// Appends the name, no character of which needs an escape in JSON.
    func append(to writer: inout ByteWriter) {
        switch self {
        case .plain(let name): writer.append(utf8: name.string)
        // One that was subscribed to can be written.
        case .user, .privateUser: _ = stream?.append(to: &writer)
        }
    }
}

/// A stream's channel, in the hub's table of them.
struct StreamChannel: TableEntry {
    let channel: Channel

    var key: StreamID {
        switch channel.label {
        case .user(let stream), .privateUser(let stream): stream
        case .plain: preconditionFailure("an ordinary channel in a table of streams")
        }
    }
}
