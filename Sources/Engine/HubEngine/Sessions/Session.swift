import Bytes
import Clock
import Pusher
import Sync

/// Names one connection of one loop, and none that takes its slot later.
package struct SessionID: Hashable, Sendable {
    /// The index in the loop's table of sessions.
    package let slot: UInt32
    /// Tells apart the sessions that use one slot, one after the other.
    package let generation: UInt32

    /// The session with this slot and generation.
    package init(slot: UInt32, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }
}

/// What the engine knows of one connection. Owned by the connection, changed only by its loop's `SessionEngine`.
package final class Session {
    // Small, in an order without gaps: a hub has one for each of its connections.
    /// Names the session to other loops.
    package let id: SessionID
    /// The app of the connection; a reload of apps replaces the value.
    package internal(set) var app: App
    private let socketBits: UInt64
    /// Nil until the client has shown who it is.
    package internal(set) var identity: Identity?
    /// At most `ChannelLimits.subscriptionsPerSessionMax`. A linear search is quicker than a table at the usual lengths.
    var subscriptions = SubscriptionList()
    var detail: SessionDetail?
    /// How many of its resumes may be decided now.
    var resumeAllowance = Allowance()
    /// Numbers this session's requests, so that a late answer finds its own and no other.
    var lastSerial: UInt32 = 0
    private var notes = SessionFlags()

    /// A session without user and channels. A socket id of the hub's own has 64 bits.
    package init(id: SessionID, app: App, socketID: SocketID) {
        self.id = id
        self.app = app
        precondition(socketID.high >> 32 == 0 && socketID.low >> 32 == 0, "an id of the hub's own has 64 bits")
        socketBits = socketID.high << 32 | socketID.low
    }

    /// The socket id that its client knows.
    package var socketID: SocketID { SocketID(random: socketBits) }

    /// Streams that are fed by pages.
    var behindCount: Int {
        get { notes.behindCount }
        set { notes.behindCount = newValue }
    }

    /// Actions in flight.
    package internal(set) var actionsInFlight: Int {
        get { notes.actionsInFlight }
        set { notes.actionsInFlight = newValue }
    }

    /// Whether the client has been told that its identity is about to end.
    var isExpiryAnnounced: Bool {
        get { notes[.isExpiryAnnounced] }
        set { notes[.isExpiryAnnounced] = newValue }
    }

    /// Whether a backend's signature for a channel alone ever admitted it to a stream.
    var isVouchedFor: Bool {
        get { notes[.isVouchedFor] }
        set { notes[.isVouchedFor] = newValue }
    }

    /// Whether a backend's signature for a channel was ever good. Its app may demand one, or an identity, by a deadline.
    var isAuthorized: Bool {
        get { notes[.isAuthorized] }
        set { notes[.isAuthorized] = newValue }
    }

    /// Whether its user's shard counts it as a connection of that user.
    var isAnnounced: Bool {
        get { notes[.isAnnounced] }
        set { notes[.isAnnounced] = newValue }
    }

    func madeDetail() -> SessionDetail {
        if let detail { return detail }
        let made = SessionDetail()
        detail = made
        return made
    }

    /// Drops the detail where nothing is left in it. Most sessions need one only while they join.
    func tidy() {
        if !isBehind, detail?.isUnused == true { detail = nil }
    }

    var parked: ContiguousArray<StreamName> {
        get { detail?.parked ?? [] }
        set { if detail != nil || !newValue.isEmpty { madeDetail().parked = newValue } }
    }

    /// Positions that the client named for channels that it is not in yet; at most `ChannelLimits.positionsPerSessionMax`.
    var namedPositions: ContiguousArray<NamedPosition> {
        get { detail?.namedPositions ?? [] }
        set { if detail != nil || !newValue.isEmpty { madeDetail().namedPositions = newValue } }
    }

    /// Whether it has subscribes that wait for an identity, which has not come.
    package var awaitsIdentity: Bool { identity == nil && !parked.isEmpty }

    /// How long it has to show who it is, if its app demands that: the app's time and up to a tenth more. The extra differs
    /// by session, or all that came back together would be closed together.
    package var authorizationTime: Duration? {
        app.features.authorizationDeadline.map { $0 + $0 * Int(socketID.low % 1_024) / 10_240 }
    }

    /// Whether a stream is being fed by pages, as the connection takes them (`StreamSubscriptions.drained`).
    package var isBehind: Bool { behindCount > 0 }

    /// Appends a subscription that awaits the channel's shard, under the next serial.
    func subscribe(to channel: LocalChannel) {
        subscriptions.append(Subscription(joining: channel, serial: nextSerial()))
    }

    func nextSerial() -> UInt32 {
        lastSerial &+= 1
        return lastSerial
    }

    /// The stream that it asked for under that serial, and has not left since.
    package func stream(askedAs serial: UInt32) -> StreamID? {
        subscriptions.indexOfFirst { $0.serial == serial }.flatMap { subscriptions[$0].channel.stream?.stream }
    }

    /// Its channels, also those that it awaits.
    package var channelCount: Int { subscriptions.count }

    /// The names of the first of them.
    package func channelNames(max: Int) -> [String] {
        subscriptions.prefix(max).map { subscription in
            var name = ByteWriter(capacity: 64)
            subscription.channel.label.append(to: &name)
            return name.withUnsafeBytes { $0.string }
        }
    }

    func index(of channel: LocalChannel) -> Int? {
        subscriptions.indexOfFirst { $0.channel === channel }
    }

    /// The index of its subscription to that stream, live, behind or joining.
    func index(of stream: StreamName) -> Int? {
        subscriptions.indexOfFirst { $0.channel.isOf(stream) }
    }

    /// The index of its subscription to that ordinary channel.
    func index(of name: ChannelName) -> Int? {
        subscriptions.firstIndex {
            guard case .plain(let other) = $0.channel.label else { return false }
            return other == name
        }
    }

    /// Whether the session may still come to be in the stream: a position in it is kept until then.
    func awaits(_ stream: StreamName) -> Bool {
        if let index = index(of: stream) {
            guard case .joining = subscriptions[index].standing else { return false }
            return true
        }
        // The app's backend may admit it to another user's private channel.
        guard let identity, stream.form == .user else { return true }
        return identity.owns(stream.stream)
    }

    /// Whether a subscribe waits for the identity, or for its channel's shard.
    var isJoining: Bool {
        detail?.parked.isEmpty == false || subscriptions.indexOfFirst { $0.awaited != nil } != nil
    }

    /// The stream of that name that the client subscribed to and the session is not in yet; nil where there is none.
    func awaited(_ name: StreamName.Text) -> StreamName? {
        if let stream = detail?.parked.first(where: name.isName(of:)) { return stream }
        let index = subscriptions.indexOfFirst { subscription in
            guard let channel = subscription.awaited, !channel.isUnpublished, let stream = channel.stream else {
                return false
            }
            return name.isName(of: stream)
        }
        return index.flatMap { subscriptions[$0].channel.stream }
    }

    /// The user's id as a parked stream has it, to be shared; nil where that is another user's.
    func parkedUser(_ id: UnsafeRawBufferPointer) -> SharedBytes? {
        guard let stream = detail?.parked.first?.stream, stream.withUser({ $0.equals(id) }) else { return nil }
        return stream.sharedUser
    }

    /// Whether the client has named a position in a stream that it was not in.
    func hasNamed(_ stream: StreamName) -> Bool {
        detail?.namedPositions.contains { $0.stream == stream } == true
    }

    /// Takes out the position that the client named for a stream it was not in.
    func takePosition(_ stream: StreamName) -> StreamPosition? {
        guard let detail, let index = detail.namedPositions.firstIndex(where: { $0.stream == stream }) else {
            return nil
        }
        return detail.namedPositions.remove(at: index).position
    }
}

/// One session's subscription to one channel. 16 bytes, because a hub has one for each stream of each session.
struct Subscription {
    /// Valid transitions: joining → live or behind; live ⇄ behind.
    enum Standing {
        /// The channel's shard has not answered.
        case joining
        /// At this index of `channel.subscribers`: gets what is broadcast.
        case live(UInt32)
        /// In `channel.subscribers.behind`: gets pages until it has caught up.
        case behind(Replay)
    }

    private enum Content {
        case joining(LocalChannel, serial: UInt32)
        case live(LocalChannel, serial: UInt32, index: UInt32)
        case behind(Replay, serial: UInt32)
    }

    private var content: Content

    init(joining channel: LocalChannel, serial: UInt32) {
        content = .joining(channel, serial: serial)
    }

    init(of channel: LocalChannel, _ standing: Standing, serial: UInt32) {
        content = Self.content(standing, channel, serial: serial)
    }

    /// The channel whose shard has not answered; nil where it has.
    var awaited: LocalChannel? {
        guard case .joining(let channel, _) = content else { return nil }
        return channel
    }

    var channel: LocalChannel {
        switch content {
        case .joining(let channel, _), .live(let channel, _, _): channel
        case .behind(let replay, _): replay.channel
        }
    }

    /// The request to the channel's shard that is in flight, or was last.
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

    func with(_ standing: Standing) -> Subscription {
        Subscription(of: channel, standing, serial: serial)
    }

    private static func content(_ standing: Standing, _ channel: LocalChannel, serial: UInt32) -> Content {
        switch standing {
        case .joining: .joining(channel, serial: serial)
        case .live(let index): .live(channel, serial: serial, index: index)
        case .behind(let replay): .behind(replay, serial: serial)
        }
    }
}

extension Subscription {
    /// The position that the client named last and that is unanswered; nil where there is none.
    var owed: StreamPosition? {
        guard case .behind(let replay) = standing else { return nil }
        return replay.named ?? (replay.isResume ? replay.cursor : nil)
    }
}

/// How far a subscription that is behind has come. The shard is asked one thing at a time, and only when the connection has
/// room for the answer. However often a client names a position, one request is in flight.
final class Replay {
    let channel: LocalChannel
    /// What the client has, or was handed last.
    var cursor: StreamPosition
    /// Whether the client named the cursor itself, and is owed the shard's answer.
    var isResume: Bool
    /// Whether the request for what follows the cursor is in flight.
    var isAsking = false
    /// A position that the client named since that request: the answer in flight is void.
    var named: StreamPosition?

    init(_ channel: LocalChannel, cursor: StreamPosition, isResume: Bool) {
        self.channel = channel
        self.cursor = cursor
        self.isResume = isResume
    }
}

/// A position that a client named before it was in the channel.
struct NamedPosition {
    let stream: StreamName
    let position: StreamPosition
}
