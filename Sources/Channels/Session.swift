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
    /// Places that the client named for channels that it is not in yet; at most as many as subscriptions.
    var places: ContiguousArray<NamedPlace> = []
    /// Whether it was ever admitted to a stream by a backend's signature for that channel alone.
    var isVouchedFor = false
    /// Tokens of `sync:auth` refused since the last good one.
    var refusedTokens = 0
    /// Subscriptions that are behind.
    var behindCount: UInt32 = 0
    /// Where the search for the next one to get a page begins.
    var nextTurn = 0
    /// Numbers this session's subscribes, so that a late answer finds its own and no other.
    var lastSerial: UInt32 = 0
    /// Actions whose answers are awaited.
    package internal(set) var actionsInFlight: UInt32 = 0

    package init(id: SessionID, app: App, socketID: SocketID) {
        self.id = id
        self.app = app
        self.socketID = socketID
    }

    /// Whether it has subscribes that wait for an identity, which has not come.
    package var awaitsIdentity: Bool { identity == nil && !parked.isEmpty }

    /// Whether a stream is to be fed by pages, as the connection takes them (`Hub.drained`).
    package var isBehind: Bool { behindCount > 0 }

    /// Enters a channel in the list, under the next serial.
    func subscribe(to channel: Channel, _ standing: Subscription.Standing) {
        // Nearly always two or more: a user's streams.
        if subscriptions.isEmpty { subscriptions.reserveCapacity(2) }
        subscriptions.append(Subscription(standing: standing, serial: nextSerial(), channel: channel))
    }

    func nextSerial() -> UInt32 {
        lastSerial &+= 1
        return lastSerial
    }

    func place(of channel: Channel) -> Int? {
        subscriptions.firstIndex { $0.channel === channel }
    }

    /// How many channels the connection has subscribed to or awaits.
    package var subscriptionCount: Int { subscriptions.count }
}

/// One session's place in one channel.
struct Subscription {
    /// Valid transitions: joining → live or behind; live ⇄ behind.
    enum Standing {
        /// The stream's home has not answered.
        case joining
        /// At this place in `channel.subscribers`: gets what is broadcast.
        case live(UInt32)
        /// In `channel.behind`: gets pages until it has caught up.
        case behind(Replay)
    }

    // In this order, it takes 24 bytes.
    var standing: Standing
    /// The request to the stream's home that is answered next, or was last.
    var serial: UInt32
    let channel: Channel
}

/// How far a subscription that is behind has come.
final class Replay {
    enum Step {
        /// A place was named, and the home decides what follows from it.
        case deciding
        /// The next page is under way.
        case reading
        /// The next page is asked for when the connection has room for it.
        case waiting
    }

    /// What the client has, or was handed last.
    var cursor: StreamPosition
    var step: Step

    init(cursor: StreamPosition, step: Step) {
        self.cursor = cursor
        self.step = step
    }
}

/// A place that a client named before it was in the channel.
struct NamedPlace {
    let name: ChannelName
    let position: StreamPosition
}

/// A guarded subscribe that waits for the connection's identity.
struct ParkedSubscribe {
    let name: ChannelName
    let stream: StreamName
}
