import Bytes
import Pusher
import Sync

/// The subscribers that one loop has in one channel.
///
/// Invariant: it is in the hub's table exactly while it has a subscriber, live or behind, or awaits one.
package final class LocalChannel {
    // Small, in an order without gaps: a hub has one for each stream of each connection.
    /// The loop's sessions that get this channel's events.
    package internal(set) var subscribers = SubscriberList()
    /// Subscribes whose answer from the channel's shard is in flight.
    var joining: UInt32 = 0
    /// The channel's name, as messages spell it.
    package let label: ChannelLabel
    /// For a stream: the position that this loop was handed last, by an answer or a broadcast. Every live subscriber stands
    /// there. Known while there is one. The offset is -1 for an unpublished stream.
    private var epoch: Epoch?
    private var offset: Int64 = 0

    init(_ label: ChannelLabel) {
        self.label = label
    }

    /// The user's stream, fed by the database; nil for an ordinary channel.
    package var stream: StreamName? { label.stream }

    func isOf(_ name: StreamName) -> Bool {
        switch (label, name.form) {
        case (.user(let stream), .user), (.privateUser(let stream), .privateUser): stream == name.stream
        default: false
        }
    }

    /// Sessions that must get events, live or by pages.
    package var memberCount: Int { subscribers.count + subscribers.behind.count }

    /// Whether it is a stream of an unpublished topic: its shard does not know it, and all are at `position`, with offset 0.
    var isUnpublished: Bool {
        get { offset < 0 }
        set { offset = newValue ? -1 : 0 }
    }

    /// The position of live subscribers. Setting it makes the channel a published one.
    package internal(set) var position: StreamPosition? {
        get { epoch.map { StreamPosition(in: $0, offset: max(0, offset)) } }
        set {
            epoch = newValue?.epoch
            offset = newValue?.offset ?? 0
        }
    }

    /// The event at `offset` has been handed to all live subscribers.
    package func advanced(to offset: Int64) {
        self.offset = offset
    }

    var isEmpty: Bool { subscribers.isEmpty && joining == 0 && subscribers.behind.isEmpty }
}

/// A channel's name.
package enum ChannelLabel: Hashable, Sendable {
    // Indirect, because the label of every user's stream takes the room of the largest case.
    indirect case plain(ChannelName)
    // Stored as what the names stand for. One case for each form: as a payload the form would take a word of its own.
    case user(StreamID)
    case privateUser(StreamID)

    static func stream(_ name: StreamName) -> ChannelLabel {
        switch name.form {
        case .user: .user(name.stream)
        case .privateUser: .privateUser(name.stream)
        }
    }

    var stream: StreamName? {
        switch self {
        case .plain: nil
        case .user(let stream): StreamName(form: .user, stream: stream)
        case .privateUser(let stream): StreamName(form: .privateUser, stream: stream)
        }
    }

    /// Appends the name. None of its characters needs an escape in JSON.
    func append(to writer: inout ByteWriter) {
        switch self {
        case .plain(let name): writer.append(utf8: name.string)
        // A name that was subscribed to can be written.
        case .user, .privateUser: _ = stream?.append(to: &writer)
        }
    }
}

/// A stream's channel, as an entry of the engine's table.
struct StreamChannel: TableEntry {
    let channel: LocalChannel

    var key: StreamID {
        switch channel.label {
        case .user(let stream), .privateUser(let stream): stream
        case .plain: preconditionFailure("an ordinary channel in a table of streams")
        }
    }
}
