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
    // Small, and in an order that leaves no gaps: a hub has one for each of its connections.
    package let id: SessionID
    package internal(set) var app: App
    package let socketID: SocketID
    package internal(set) var identity: Identity?
    /// At most `ChannelLimits.subscriptionsPerSessionMax`; a linear search is quicker than a table at such lengths.
    var subscriptions: ContiguousArray<Subscription> = []
    /// Guarded subscribes that wait for an identity.
    var parked: ContiguousArray<StreamName> = []
    /// Nil for most.
    var detail: SessionDetail?
    /// Places that the client named for channels that it is not in yet; at most as many as subscriptions.
    var places: ContiguousArray<NamedPlace> = []
    /// How many of its resumes may be asked about.
    var resumeBudget = ResumeBudget()
    /// Numbers this session's subscribes, so that a late answer finds its own and no other.
    var lastSerial: UInt32 = 0
    /// Subscriptions that are behind.
    var behindCount: UInt32 = 0
    /// Where the search for the next one to get a page begins.
    var nextTurn: UInt32 = 0
    /// Actions whose answers are awaited.
    package internal(set) var actionsInFlight: UInt32 = 0
    /// Tokens of `sync:auth` refused since the last good one.
    var refusedTokens: UInt32 = 0
    /// Whether the client has been told that its identity is about to end.
    var isExpiryAnnounced = false
    /// Whether it was ever admitted to a stream by a backend's signature for that channel alone.
    var isVouchedFor = false
    /// Whether a backend's signature for a channel was ever found good: its app may ask for that, or an identity, in time.
    var isAuthorized = false
    /// Whether its user's home counts it as a connection of that user.
    var isAnnounced = false

    package init(id: SessionID, app: App, socketID: SocketID) {
        self.id = id
        self.app = app
        self.socketID = socketID
    }

    /// Whether it has subscribes that wait for an identity, which has not come.
    package var awaitsIdentity: Bool { identity == nil && !parked.isEmpty }

    /// How long it has to show who it is, where its app asks for that: the app's time and up to a tenth more, which is its
    /// own, or all that came back in one moment would be closed in one.
    package var authorizationTime: Duration? {
        app.features.authorizationDeadline.map { $0 + $0 * Int(socketID.low % 1_024) / 10_240 }
    }

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

    /// Its place in that stream, if it is in it or awaits its home.
    func place(of stream: StreamName) -> Int? {
        subscriptions.firstIndex { $0.channel.stream == stream }
    }

    /// Its place in that channel, which is no stream's.
    func place(of name: ChannelName) -> Int? {
        subscriptions.firstIndex { $0.channel.label == .plain(name) }
    }

    /// How many channels the connection has subscribed to or awaits.
    package var subscriptionCount: Int { subscriptions.count }
}

/// One session's place in one channel.
struct Subscription {
    /// Valid transitions: joining → live or behind; live ⇄ behind.
    enum Standing {
        /// The channel's home has not answered.
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

/// How far a subscription that is behind has come. The home is asked one thing at a time, and when the connection has
/// room for the answer: however often a client names a place, there is one request under way.
final class Replay {
    /// What the client has, or was handed last.
    var cursor: StreamPosition
    /// Whether the client named the cursor itself, and is owed the home's word on it.
    var isResume: Bool
    /// Whether the home has been asked what follows the cursor, and has not answered.
    var isAsking = false
    /// A place that the client named since the home was asked: the answer under way is void.
    var named: StreamPosition?

    init(cursor: StreamPosition, isResume: Bool) {
        self.cursor = cursor
        self.isResume = isResume
    }
}

/// A resume costs the hub a page, however little it costs the client. So `resumesAtOnceMax` are free, a connection's worth
/// of channels, and then one each `resumeInterval`.
struct ResumeBudget {
    /// When all that was taken will have been made up for.
    private var madeUp = UnixTime(microseconds: .min)

    /// Takes one, unless there is none left.
    mutating func take(at now: UnixTime, _ limits: ChannelLimits) -> Bool {
        // Never further ahead than a burst: a clock that is set back must not stop resumes until it is there again.
        let full = now.advanced(by: limits.resumeInterval * limits.resumesAtOnceMax)
        madeUp = min(max(madeUp, now), full)
        let next = madeUp.advanced(by: limits.resumeInterval)
        guard next <= full else { return false }
        madeUp = next
        return true
    }
}

/// A place that a client named before it was in the channel.
struct NamedPlace {
    let stream: StreamName
    let position: StreamPosition
}
