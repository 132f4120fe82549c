import Bytes
import Pusher
import Sync

/// Names one connection of one loop, and none that takes its slot later.
package struct SessionID: Hashable, Sendable {
    package let slot: UInt32
    package let generation: UInt32

    package init(slot: UInt32, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }
}

/// What the engine knows of one connection. Owned by the connection, changed by its loop's `Hub` alone.
package final class Session {
    package let id: SessionID
    package let app: App
    package let socketID: SocketID
    package internal(set) var identity: Identity?
    /// Whether the client has been told that its identity is about to end.
    var isExpiryAnnounced = false
    /// At most `ChannelLimits.subscriptionsPerSessionMax`; a linear search is quicker than a table at such lengths.
    var subscriptions: ContiguousArray<Subscription> = []
    /// Guarded subscribes that wait for an identity.
    var parked: ContiguousArray<ParkedSubscribe> = []
    /// Numbers this session's subscribes, so that a late answer finds its own and no other.
    var lastSerial: UInt32 = 0
    /// Actions whose answers are awaited.
    package internal(set) var actionsInFlight: UInt32 = 0

    package init(id: SessionID, app: App, socketID: SocketID) {
        self.id = id
        self.app = app
        self.socketID = socketID
    }

    /// Enters a channel in the list, under the next serial.
    func subscribe(to channel: Channel, index: UInt32?) {
        lastSerial &+= 1
        // Nearly always two or more: a user's streams.
        if subscriptions.isEmpty { subscriptions.reserveCapacity(2) }
        subscriptions.append(Subscription(channel: channel, serial: lastSerial, index: index))
    }

    /// How many channels the connection has subscribed to or awaits.
    package var subscriptionCount: Int { subscriptions.count }
}

/// One session's place in one channel.
struct Subscription {
    let channel: Channel
    /// The subscribe that is answered next, or was last.
    var serial: UInt32
    /// The place in `channel.subscribers`; nil while the stream's home has not answered.
    var index: UInt32?
}

/// A guarded subscribe that waits for the connection's identity.
struct ParkedSubscribe {
    let name: ChannelName
    let stream: StreamName
}
