import Metrics
import Pusher
import Sync

/// Decides which of one loop's sessions may be in which channel, and hands those that may to the channels' owners.
final class Admission {
    typealias Effects = SessionEngine.Effects

    private let channels: SubscribedChannels
    private let streams: StreamSubscriptions
    private let ordinary: OrdinarySubscriptions
    private let identities: Identities
    private let watchlists: Watchlists
    private let limits: ChannelLimits
    private let metrics: EngineMetrics

    init(
        _ channels: SubscribedChannels, _ streams: StreamSubscriptions, _ ordinary: OrdinarySubscriptions,
        _ identities: Identities, _ watchlists: Watchlists, _ limits: ChannelLimits, _ metrics: EngineMetrics
    ) {
        self.channels = channels
        self.streams = streams
        self.ordinary = ordinary
        self.identities = identities
        self.watchlists = watchlists
        self.limits = limits
        self.metrics = metrics
    }

    /// `pusher:subscribe`: the channel's name decides who may join.
    func subscribe(
        _ name: ChannelName, _ auth: String?, _ channelData: String?, _ session: Session, _ effects: inout Effects
    ) {
        var stream: StreamName?
        var isCanonical = true
        if session.app.ownsDatabase {
            do {
                stream = try StreamName.parse(name.string)
            } catch {
                isCanonical = false
            }
        }
        let isSigned = { (auth: String) in
            let subject = AppCredentials.Subject.channel(name, channelData: channelData)
            guard session.app.credentials.verify(auth, of: subject, socketID: session.socketID) else { return false }
            session.isAuthorized = true
            return true
        }
        if let index = stream.map(session.index(of:)) ?? session.index(of: name) {
            guard stream == nil else { return streams.repeated(session.subscriptions[index], &effects) }
            return ordinary.repeated(index, of: name, auth, channelData, isSigned, session, &effects)
        }
        if let stream, session.parked.contains(stream), (auth ?? "").isEmpty { return }
        guard session.subscriptions.count + session.parked.count < limits.subscriptionsPerSessionMax else {
            return effects.refuse(name, .tooManyChannels, metrics)
        }
        guard isCanonical else { return effects.refuse(name, .notCanonical, metrics) }
        if let stream {
            let vouching = auth.map { auth in
                isSigned(auth) ? Vouching.backend : grant(of: auth, name, channelData, stream, session)
            }
            return subscribe(name, stream, vouching, session, &effects)
        }
        ordinary.subscribe(name, auth, channelData, isSigned: isSigned, session, &effects)
    }

    /// An unsigned `pusher:subscribe` to a stream by a session with a user, or before its first channel, the common cases.
    /// False (nothing done) otherwise.
    ///
    /// - Parameter name: unchecked. Whatever parses as a stream's name has only the characters of channel names.
    func subscribe(unsigned name: UnsafeRawBufferPointer, _ session: Session, _ effects: inout Effects) -> Bool {
        guard session.app.ownsDatabase, let text = try? StreamName.Text(name) else { return false }
        guard let identity = session.identity else { return park(text, session) }
        guard session.parked.isEmpty, session.subscriptions.count < limits.subscriptionsPerSessionMax else {
            return false
        }
        guard identity.owns(text) else {
            // It is in no stream of another user, unless a backend has vouched for it.
            guard !session.isVouchedFor, session.detail?.namedPositions.isEmpty != false else { return false }
            metrics.otherUsers.add()
            effects.append(.send(.refused(text, .otherUser)))
            return true
        }
        let stream = StreamName(text, of: identity.user)
        // A channel that somebody is in is in the table. If it is not, as nearly always, the session is not in it.
        let channel = channels[stream]
        if let channel, let index = session.index(of: channel) {
            streams.repeated(session.subscriptions[index], &effects)
        } else {
            streams.enter(channel ?? channels.insert(stream), of: stream, session, &effects)
        }
        return true
    }

    /// Parks an unsigned subscribe until the identity comes. False (nothing done) where that is not all.
    private func park(_ text: StreamName.Text, _ session: Session) -> Bool {
        guard session.subscriptions.isEmpty,
            session.detail?.parked.count ?? 0 < min(limits.parkedPerSessionMax, limits.subscriptionsPerSessionMax)
        else { return false }
        // In place: a session would copy the list.
        let detail = session.madeDetail()
        if detail.parked.isEmpty { detail.parked.reserveCapacity(4) }
        let first = detail.parked.first?.stream
        let isSameUser = first?.withUser(text.belongs(to:)) == true
        let stream = first.flatMap { isSameUser ? StreamName(text, of: $0.sharedUser) : nil } ?? StreamName(text)
        if !detail.parked.contains(stream) { detail.parked.append(stream) }
        return true
    }

    /// A user's stream: only for that user. A subscribe that comes before the identity is parked and answered when the
    /// identity comes, because pusher-js never recovers from an early refusal.
    ///
    /// - Parameter vouching: who signed; nil without a signature.
    private func subscribe(
        _ name: ChannelName, _ stream: StreamName, _ vouching: Vouching?, _ session: Session,
        _ effects: inout Effects
    ) {
        if let identity = session.identity, identity.owns(stream.stream) {
            return streams.enter(stream, session, &effects)
        }
        if stream.form == .privateUser, let vouching {
            switch vouching {
            case .nobody:
                effects.refuse(name, .badSignature, metrics)
                return forbid(stream, session, &effects)
            case .backend:
                // Unparks it: a session that entered a channel twice would mix up its subscriptions.
                session.parked.removeAll { $0 == stream }
                session.isVouchedFor = true
                return streams.enter(stream, session, &effects)
            case .hub(let identity):
                return subscribe(name, stream, as: identity, session, &effects)
            }
        }
        guard session.identity == nil else {
            effects.refuse(name, .otherUser, metrics)
            return forbid(stream, session, &effects)
        }
        guard !session.parked.contains(stream) else { return }
        guard session.parked.count < limits.parkedPerSessionMax else {
            return effects.refuse(name, .tooManyParked, metrics)
        }
        session.parked.append(stream)
    }

    /// Who vouches for a subscriber to a user's stream.
    private enum Vouching {
        case nobody
        /// The app's backend, as for any private channel.
        case backend
        /// The hub's `/pusher/auth`, for a client that showed it a token: the token's user is the connection's.
        case hub(Identity)
    }

    private func grant(
        of auth: String, _ name: ChannelName, _ channelData: String?, _ stream: StreamName, _ session: Session
    ) -> Vouching {
        // The hub signs no `channel_data`.
        guard channelData == nil,
            let times = session.app.credentials.verifyGrant(auth, of: name, socketID: session.socketID)
        else { return .nobody }
        let user = stream.stream.user
        return .hub(Identity(userID: user, issuedAt: times.issuedAt, expiresAt: times.expiresAt))
    }

    /// The hub's own signature admits for as long as the token would: it makes the session its user's.
    private func subscribe(
        _ name: ChannelName, _ stream: StreamName, as identity: Identity, _ session: Session,
        _ effects: inout Effects
    ) {
        // Another user's: admission would outlast the token, because a connection has one identity.
        guard session.identity == nil else {
            effects.refuse(name, .otherUser, metrics)
            return forbid(stream, session, &effects)
        }
        guard !identities.refuses(identity, of: session.app) else {
            return effects.refuse(name, .revoked, metrics)
        }
        guard identities.identify(session, as: identity, &effects) else { return }
        session.parked.removeAll { $0 == stream }
        streams.enter(stream, session, &effects)
        unpark(session, &effects)
        watchlists.welcome(session, &effects)
    }

    func unsubscribe(_ name: ChannelName, _ session: Session, _ effects: inout Effects) {
        var index = session.index(of: name)
        if session.app.ownsDatabase, let stream = try? StreamName.parse(name.string) {
            session.parked.removeAll { $0 == stream }
            _ = session.takePosition(stream)
            index = session.index(of: stream)
        }
        guard let index else { return }
        leave(session.subscriptions.remove(at: index), of: session, mayReturn: false, &effects)
    }

    /// Removes a subscription, already out of the session's list, from its channel.
    ///
    /// - Parameter mayReturn: see `SessionEngine.closed`.
    func leave(_ subscription: Subscription, of session: Session, mayReturn: Bool, _ effects: inout Effects) {
        guard case .plain(let name) = subscription.channel.label else {
            return streams.leave(subscription, of: session, &effects)
        }
        if !mayReturn { ordinary.saysFarewell(session, to: subscription) }
        ordinary.leave(name, subscription, of: session, mayReturn: mayReturn, &effects)
    }

    /// The identity has come: answers what was parked, in order of arrival. Then it answers the positions that were named in
    /// other users' streams, which nothing else would answer.
    func unpark(_ session: Session, _ effects: inout Effects) {
        guard let identity = session.identity else { return }
        let parked = session.parked
        session.parked = []
        defer { session.tidy() }
        for stream in parked {
            if identity.owns(stream.stream) {
                streams.enter(stream, session, &effects)
            } else {
                metrics.otherUsers.add()
                effects.append(.send(.refused(stream, .otherUser)))
                forbid(stream, session, &effects)
            }
        }
        for named in session.namedPositions where !session.awaits(named.stream) {
            forbid(named.stream, session, &effects)
        }
    }

    /// The session has no right to the stream. A position that its client named there is answered.
    private func forbid(_ stream: StreamName, _ session: Session, _ effects: inout Effects) {
        guard let position = session.takePosition(stream) else { return }
        effects.lose(.stream(stream), at: position, .forbidden, metrics)
    }
}
