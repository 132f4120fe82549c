import Bytes
import Clock
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
    private let socketBits: UInt64
    package internal(set) var identity: Identity?
    /// At most `ChannelLimits.subscriptionsPerSessionMax`; a linear search is quicker than a table at the usual lengths.
    var subscriptions = SubscriptionList()
    /// Nil for most.
    var detail: SessionDetail?
    /// How many of its resumes may be asked about.
    var resumeAllowance = Allowance()
    /// Numbers this session's subscribes, so that a late answer finds its own and no other.
    var lastSerial: UInt32 = 0
    /// Subscriptions that are behind.
    var behindCount: UInt32 = 0
    /// Actions whose answers are awaited.
    package internal(set) var actionsInFlight: UInt32 = 0
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
        precondition(socketID.high >> 32 == 0 && socketID.low >> 32 == 0, "an id of the hub's own has 64 bits")
        socketBits = socketID.high << 32 | socketID.low
    }

    /// The id that its client knows it by.
    package var socketID: SocketID { SocketID(random: socketBits) }

    /// What only few have, made for the first of it.
    func madeDetail() -> SessionDetail {
        if let detail { return detail }
        let made = SessionDetail()
        detail = made
        return made
    }

    /// Lets go of the detail where nothing is left in it: most are needed for the moment of joining alone.
    func tidy() {
        if !isBehind, detail?.isUnused == true { detail = nil }
    }

    /// Guarded subscribes that wait for an identity.
    var parked: ContiguousArray<StreamName> {
        get { detail?.parked ?? [] }
        set { if detail != nil || !newValue.isEmpty { madeDetail().parked = newValue } }
    }

    /// Places that the client named for channels that it is not in yet; at most `ChannelLimits.placesPerSessionMax`.
    var places: ContiguousArray<NamedPlace> {
        get { detail?.places ?? [] }
        set { if detail != nil || !newValue.isEmpty { madeDetail().places = newValue } }
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

    /// Enters a channel in the list, as one whose home is asked, under the next serial.
    func subscribe(to channel: Channel) {
        subscriptions.append(Subscription(joining: channel, serial: nextSerial()))
    }

    func nextSerial() -> UInt32 {
        lastSerial &+= 1
        return lastSerial
    }

    func place(of channel: Channel) -> Int? {
        subscriptions.place { $0.channel === channel }
    }

    /// Its place in that stream, if it is in it or awaits its home.
    func place(of stream: StreamName) -> Int? {
        subscriptions.place { $0.channel.isOf(stream) }
    }

    /// Its place in that channel, which is no stream's.
    func place(of name: ChannelName) -> Int? {
        subscriptions.firstIndex {
            guard case .plain(let other) = $0.channel.label else { return false }
            return other == name
        }
    }

    /// Whether the session may come to be in the channel, as a stream of its own: a place in it is kept until then.
    func awaits(_ stream: StreamName) -> Bool {
        if let place = place(of: stream) {
            guard case .joining = subscriptions[place].standing else { return false }
            return true
        }
        // The app's backend may admit to a private channel of another user's.
        guard let identity, stream.form == .user else { return true }
        return identity.owns(stream.stream)
    }

    /// Takes out the place that the client named for a stream it was not in.
    func takePlace(_ stream: StreamName) -> StreamPosition? {
        guard let detail, let place = detail.places.firstIndex(where: { $0.stream == stream }) else { return nil }
        return detail.places.remove(at: place).position
    }

    /// How many channels the connection has subscribed to or awaits.
    package var subscriptionCount: Int { subscriptions.count }
}

/// One session's place in one channel. 16 bytes, for a hub has one for each stream of each session.
struct Subscription {
    /// Valid transitions: joining → live or behind; live ⇄ behind.
    enum Standing {
        /// The channel's home has not answered.
        case joining
        /// At this place in `channel.subscribers`: gets what is broadcast.
        case live(UInt32)
        /// In `channel.subscribers.behind`: gets pages until it has caught up.
        case behind(Replay)
    }

    private enum Content {
        case joining(Channel, serial: UInt32)
        case live(Channel, serial: UInt32, index: UInt32)
        case behind(Replay, serial: UInt32)
    }

    private var content: Content

    /// Awaits the channel's home.
    init(joining channel: Channel, serial: UInt32) {
        content = .joining(channel, serial: serial)
    }

    /// Of a known channel, home and all.
    init(of channel: Channel, _ standing: Standing, serial: UInt32) {
        content = Self.content(standing, channel, serial: serial)
    }

    /// The channel whose home has not answered; nil where it has.
    var awaited: Channel? {
        guard case .joining(let channel, _) = content else { return nil }
        return channel
    }

    var channel: Channel {
        switch content {
        case .joining(let channel, _), .live(let channel, _, _): channel
        case .behind(let replay, _): replay.channel
        }
    }

    /// The request to the channel's home that is answered next, or was last.
    var serial: UInt32 {
        get {
            switch content {
            case .joining(_, let serial), .live(_, let serial, _), .behind(_, let serial): serial
            }
        }
        set { content = Self.content(standing, channel, serial: newValue) }
    }

    var standing: Standing {
        get {
            switch content {
            case .joining: .joining
            case .live(_, _, let index): .live(index)
            case .behind(let replay, _): .behind(replay)
            }
        }
        set { self = with(newValue) }
    }

    /// The same place, of another standing.
    func with(_ standing: Standing) -> Subscription {
        Subscription(of: channel, standing, serial: serial)
    }

    private static func content(_ standing: Standing, _ channel: Channel, serial: UInt32) -> Content {
        switch standing {
        case .joining: .joining(channel, serial: serial)
        case .live(let index): .live(channel, serial: serial, index: index)
        case .behind(let replay): .behind(replay, serial: serial)
        }
    }
}

extension Subscription {
    /// The place that the client named last and has no answer to; nil where it is owed none.
    var owed: StreamPosition? {
        guard case .behind(let replay) = standing else { return nil }
        return replay.named ?? (replay.isResume ? replay.cursor : nil)
    }
}

/// How far a subscription that is behind has come. The home is asked one thing at a time, and when the connection has
/// room for the answer: however often a client names a place, there is one request under way.
final class Replay {
    /// What of.
    let channel: Channel
    /// What the client has, or was handed last.
    var cursor: StreamPosition
    /// Whether the client named the cursor itself, and is owed the home's word on it.
    var isResume: Bool
    /// Whether the home has been asked what follows the cursor, and has not answered.
    var isAsking = false
    /// A place that the client named since the home was asked: the answer under way is void.
    var named: StreamPosition?

    init(_ channel: Channel, cursor: StreamPosition, isResume: Bool) {
        self.channel = channel
        self.cursor = cursor
        self.isResume = isResume
    }
}

/// A place that a client named before it was in the channel.
struct NamedPlace {
    let stream: StreamName
    let position: StreamPosition
}
