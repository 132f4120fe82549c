import Bytes
import Clock
import Pusher
import Sync

/// The engine of one loop: its sessions, its channels, and Pusher's rules between them. Pure: events in, effects out;
/// no socket, no clock of its own, no lock. Belongs to its loop's thread.
///
/// Streams (channels that belong to a user by name) are joined at their home loop, which may be another: the session
/// becomes a subscriber when the home's answer comes, never before, and so misses nothing and sees nothing early. One
/// that missed something, or takes what it is sent too slowly, is behind: it gets pages from the home until an answer says
/// that it is current (`Hub+Resume.swift`).
package final class Hub {
    package typealias Effects = ContiguousArray<Effect>

    let limits: ChannelLimits
    package let metrics: EngineMetrics
    let identityTimes: IdentityTimes
    /// The wall clock: what a token says of its end is said by that one.
    let now: () -> UnixTime
    /// Whose older identities are refused.
    var revocations = RevocationTable()
    /// Whether all revocations are known. While they are not, nobody's actions are taken: access may have been revoked.
    package var isRevocationCurrent = true
    /// The topics that are published, once that is known: before, all streams are watched.
    var topics: PublishedTopics?
    /// How many streams of topics that are not published each user is in here, by a keyed hash of the id.
    var unpublishedOfUsers: [UInt64: Int] = [:]
    /// Users who are in such.
    package var unpublishedUsers: Int { unpublishedOfUsers.count }
    /// By slot, as the loop numbers its sources.
    private(set) var sessions: ContiguousArray<Session?> = []
    /// A few bits of who each session's user is, by slot; 0 where there is none. All sessions of a user are found by them
    /// without a look at each.
    var marks: ContiguousArray<UInt32> = []
    /// The users whom sessions of this loop watch.
    var watched: [UserKey: WatchedUser] = [:]
    /// Subscribes whose answers are under way, and whose clients have said meanwhile that they leave: no more than there are
    /// such answers.
    private var farewells: Set<Farewell> = []
    /// Numbers the questions put to homes of users.
    var lastWatch: UInt32 = 0
    /// The ordinary channels.
    private var channels: [ChannelKey: Channel] = [:]
    /// The streams of the app that owns the database, by the forms of their names.
    private(set) var userStreams = KeyedTable<StreamChannel>()
    private(set) var privateStreams = KeyedTable<StreamChannel>()

    /// - Parameter now: reads the wall clock; without one no time passes, and no identity ends.
    package init(
        limits: ChannelLimits = ChannelLimits(), identityTimes: IdentityTimes = IdentityTimes(),
        metrics: EngineMetrics = EngineMetrics(),
        now: @escaping () -> UnixTime = { UnixTime(microseconds: .min) }
    ) {
        self.limits = limits
        self.metrics = metrics
        self.identityTimes = identityTimes
        self.now = now
    }

    /// The channel of that name, where the loop has somebody in it or awaits somebody.
    package func channel(_ name: String, of app: App) -> Channel? {
        if app.ownsDatabase, let stream = try? StreamName.parse(name) { return channel(stream) }
        return ChannelName(name).flatMap { channel(ChannelKey(app.index, $0)) }
    }

    /// The channel of that stream's name, likewise.
    package func channel(_ name: StreamName) -> Channel? {
        name.form == .user ? userStreams[name.stream]?.channel : privateStreams[name.stream]?.channel
    }

    /// That ordinary channel, likewise.
    package func channel(_ key: ChannelKey) -> Channel? { channels[key] }

    package func channelCount(of app: App) -> Int {
        channels.keys.count { $0.app == app.index }
            + (app.ownsDatabase ? userStreams.count + privateStreams.count : 0)
    }

    /// The streams of the app whose names begin with `prefix` and that somebody of this loop is in; not all of them where
    /// they are more than `max`.
    package func streams(of app: App, prefix: String, max: Int) -> [String: ChannelFacts] {
        guard app.ownsDatabase else { return [:] }
        var found: [String: ChannelFacts] = [:]
        let wanted = Array(prefix.utf8)
        // All names are written in one place, and only those that are meant become strings.
        var name = ByteWriter(capacity: StreamName.maximumBytes)
        for (form, table) in [(StreamForm.user, userStreams), (.privateUser, privateStreams)] {
            // Their names are written only where they may begin so.
            guard zip(form.prefix.bytes, wanted).allSatisfy(==) else { continue }
            for channel in table.entries.lazy.map(\.channel) where channel.memberCount > 0 {
                name.truncate(to: 0)
                guard channel.stream?.append(to: &name) == true, name.withUnsafeBytes({ $0.starts(with: wanted) })
                else { continue }
                var facts = ChannelFacts()
                facts.subscriptionCount = channel.memberCount
                found[name.string] = facts
                if found.count > max { return found }
            }
        }
        return found
    }

    // MARK: Inputs

    /// A connection has finished its handshake. The caller sends `connection_established`.
    package func opened(_ session: Session) {
        let slot = Int(session.id.slot)
        while sessions.count <= slot {
            sessions.append(nil)
            marks.append(0)
        }
        sessions[slot] = session
    }

    /// The connection is gone: out of every channel.
    ///
    /// - Parameter mayReturn: whether it broke, so that the client may be back in a moment; else the client said that it
    ///   leaves, and what waits for its return does not wait.
    package func closed(_ session: Session, mayReturn: Bool = true, _ effects: inout Effects) {
        while let subscription = session.subscriptions.popLast() {
            if !mayReturn { saysFarewell(session, to: subscription) }
            leave(subscription, of: session, mayReturn: mayReturn, &effects)
        }
        departed(session, mayReturn: mayReturn, &effects)
        session.detail = nil
        marks[Int(session.id.slot)] = 0
        sessions[Int(session.id.slot)] = nil
    }

    /// An event came from the client.
    ///
    /// - Parameter hasRoom: whether the connection takes a page now; without room what is missed is asked for later.
    package func received(
        _ event: ClientEvent, from session: Session, hasRoom: Bool = true, now: Instant, _ effects: inout Effects
    ) {
        switch event {
        case .ping:
            effects.append(.pong)
        case .pong:
            break
        case .subscribe(let name, let auth, let channelData):
            subscribe(name, auth, channelData, session, &effects)
        case .unsubscribe(let name):
            unsubscribe(name, session, &effects)
        case .signin(let auth, let userData):
            signin(auth, userData, session, &effects)
        case .sync("auth", let data):
            authenticate(data, session, &effects)
        case .sync("action", let data):
            act(data, session, &effects)
        case .sync("resume", let data):
            resume(data, session, hasRoom, now, &effects)
        case .sync:
            complain("This hub does not know this sync: event", &effects)
        case .client(let name, let channel, let data):
            passOn(name, channel, data, session, now, &effects)
        case .unknown:
            complain("This hub does not know this event", &effects)
        }
    }

    /// Handles a message of one of the frequent kinds. False where it needs the general way; nothing was done then.
    package func received(_ event: CommonEvent, from session: Session, _ effects: inout Effects) -> Bool {
        switch event {
        case .ping: effects.append(.pong)
        case .pong: break
        case .subscribe(let name): return subscribe(unsigned: name, session, &effects)
        case .signin(let auth, let userData):
            CommonEvent.unescape(userData) { signin(auth, $0, session, &effects) }
        }
        return true
    }

    /// Answers a message that could not be used.
    package func received(_ error: ClientEventError, from session: Session, _ effects: inout Effects) {
        switch error {
        case .noChannelName(let name):
            effects.append(.send(.refused(escaped: name, .noChannelName)))
        case .signatureTooLong(let name): refuse(name, .badSignature, &effects)
        case .memberTooLong(let name): refuse(name, .memberTooLarge, &effects)
        default: complain(error.message, &effects)
        }
    }

    // MARK: Membership

    /// Makes the session one that awaits its stream's home.
    func enter(_ stream: StreamName, _ session: Session, _ effects: inout Effects) {
        enter(channel(stream) ?? insert(stream), of: stream, session, &effects)
    }

    /// Makes the session one that awaits the home of `stream`, whose channel this is.
    func enter(_ channel: Channel, of stream: StreamName, _ session: Session, _ effects: inout Effects) {
        if isUnpublished(channel, of: stream) { return enterUnpublished(channel, of: stream, session, &effects) }
        channel.joining += 1
        session.subscribe(to: channel)
        metrics.subscriptions(1, channel, of: session.app)
        effects.append(.join(StreamJoin(name: stream, session: session.id, serial: session.lastSerial)))
    }

    func insert(_ key: ChannelKey) -> Channel {
        let channel = Channel(.plain(key.name))
        channels[key] = channel
        return channel
    }

    func remove(_ key: ChannelKey) {
        channels[key] = nil
    }

    /// The channel of a stream that has none here yet; somebody enters it next.
    func insert(_ name: StreamName) -> Channel {
        let channel = Channel(.stream(name))
        if name.form == .user {
            _ = userStreams.insert(StreamChannel(channel: channel))
        } else {
            _ = privateStreams.insert(StreamChannel(channel: channel))
        }
        return channel
    }

    /// Nobody is in the stream's channel.
    func remove(_ name: StreamName) {
        if name.form == .user { userStreams.remove(name.stream) } else { privateStreams.remove(name.stream) }
    }

    /// Takes a subscription, already out of the session's list, out of its channel.
    ///
    /// - Parameter mayReturn: as of `closed`.
    func leave(_ subscription: Subscription, of session: Session, mayReturn: Bool, _ effects: inout Effects) {
        let channel = subscription.channel
        metrics.subscriptions(-1, channel, of: session.app)
        var isAwaitingHome = false
        switch subscription.standing {
        case .joining:
            channel.joining -= 1
            isAwaitingHome = true
        case .live(let index): remove(index, from: channel)
        case .behind(let replay):
            isAwaitingHome = replay.isAsking
            channel.subscribers.removeBehind(session.id)
            session.behindCount -= 1
        }
        switch channel.label {
        case .plain(let name):
            left(name, subscription, of: session, mayReturn: mayReturn, &effects)
        case .user, .privateUser:
            guard let name = channel.stream else { return }
            if channel.isEmpty {
                remove(name)
                if channel.isUnpublished { countsOut(name) } else { effects.append(.leave(name)) }
            } else if isAwaitingHome {
                effects.append(.forget(name))
            }
        }
    }

    /// The client has said that it leaves an ordinary channel. Where it awaits the answer still, that is remembered until the
    /// answer comes: the session may be gone by then.
    func saysFarewell(_ session: Session, to subscription: Subscription) {
        guard case (.plain, .joining) = (subscription.channel.label, subscription.standing) else { return }
        farewells.insert(Farewell(session: session.id, serial: subscription.serial))
    }

    /// Such an answer has come. Returns whether the client had said that it leaves.
    @discardableResult
    func endsFarewell(_ session: SessionID, serial: UInt32) -> Bool {
        // Nearly always there is none.
        !farewells.isEmpty && farewells.remove(Farewell(session: session, serial: serial)) != nil
    }

    /// The home has answered a session that is gone. What the loop tells the home: that it has left, and whether the client
    /// may be back in a moment; nil where the home knows.
    package func answeredTooLate(_ answer: ChannelAnswer) -> ChannelExit? {
        switch answer {
        case .entered(let entered):
            // A repeated subscribe has the serial of the first.
            guard !entered.isRepeated else { return nil }
            return entered.exit(mayReturn: !endsFarewell(entered.session, serial: entered.serial))
        case .refused(let session, let serial, _):
            endsFarewell(session, serial: serial)
            return nil
        }
    }

    func complain(_ message: StaticString, _ effects: inout Effects) {
        effects.append(.send(.error(message)))
    }

    /// Takes a live subscriber out of the channel; the last one takes its place.
    func remove(_ index: UInt32, from channel: Channel) {
        guard let moved = channel.subscribers.remove(at: Int(index)), let session = session(moved),
            let place = session.place(of: channel)
        else { return }
        session.subscriptions[place].standing = .live(index)
    }

    /// Slots that have been taken so far are below this.
    package var slotCount: Int { sessions.count }

    package func session(inSlot slot: Int) -> Session? { slot < sessions.count ? sessions[slot] : nil }

    /// The session of that name, if it is here still.
    func session(_ id: SessionID) -> Session? {
        guard Int(id.slot) < sessions.count, let session = sessions[Int(id.slot)], session.id == id else { return nil }
        return session
    }
}

extension Channel {
    /// Takes a live subscriber in.
    func append(_ id: SessionID) -> Subscription.Standing {
        let index = UInt32(truncatingIfNeeded: subscribers.count)
        subscribers.append(id)
        return .live(index)
    }
}

/// A subscribe whose client has gone, and had said that it leaves.
private struct Farewell: Hashable {
    let session: SessionID
    let serial: UInt32
}
