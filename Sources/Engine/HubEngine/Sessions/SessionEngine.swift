import Bytes
import Clock
import Pusher
import Sync

/// The engine of one loop: its sessions, its channels, and Pusher's rules between them. Pure: events in, effects out; no
/// socket, no clock of its own, no lock. Belongs to its loop's thread.
///
/// A stream (a channel that belongs to a user by name) is joined at its shard, which may be on another loop. The session
/// becomes a subscriber when the shard's answer arrives, never before, so it misses nothing and sees nothing early. A
/// session that missed something, or reads too slowly, is behind: it gets pages from the shard until an answer says that it
/// is current (`StreamSubscriptions.swift`).
package final class SessionEngine {
    /// Effects are appended, and performed by the caller in order.
    package typealias Effects = ContiguousArray<Effect>

    /// Shared with the engines of all loops.
    package let metrics: EngineMetrics
    /// The sessions, by slot.
    package let sessions: SessionTable
    /// The channels with a session of this loop.
    package let channels: SubscribedChannels
    /// The users' channels: subscribe, resume, pages for slow clients.
    package let streams: StreamSubscriptions
    /// All other channels.
    package let ordinary: OrdinarySubscriptions
    /// Who the sessions are, and until when.
    package let identities: Identities
    /// Who watches whom.
    package let watchlists: Watchlists
    private let admission: Admission
    /// Bounds the unanswered actions.
    package let actions: ActionGate

    /// - Parameter now: reads the wall clock. With the default no time passes, and no identity ends.
    package init(
        limits: ChannelLimits = ChannelLimits(), identityTimes: IdentityTimes = IdentityTimes(),
        metrics: EngineMetrics = EngineMetrics(),
        now: @escaping () -> UnixTime = { UnixTime(microseconds: .min) }
    ) {
        self.metrics = metrics
        sessions = SessionTable()
        channels = SubscribedChannels(sessions)
        streams = StreamSubscriptions(of: sessions, in: channels, limits, metrics)
        ordinary = OrdinarySubscriptions(in: channels, metrics)
        identities = Identities(of: sessions, limits, metrics, identityTimes, now: now)
        watchlists = Watchlists(of: sessions)
        admission = Admission(channels, streams, ordinary, identities, watchlists, limits, metrics)
        actions = ActionGate(most: limits.actionsPerSessionMax, identities)
    }

    // MARK: Connections

    /// A connection has finished its handshake. The caller sends `connection_established`.
    package func opened(_ session: Session) {
        sessions.insert(session)
    }

    /// The connection is gone: removes it from every channel.
    ///
    /// - Parameter mayReturn: whether it broke, so that the client may be back; false where it left by request: no grace.
    package func closed(_ session: Session, mayReturn: Bool = true, _ effects: inout Effects) {
        while let subscription = session.subscriptions.popLast() {
            admission.leave(subscription, of: session, mayReturn: mayReturn, &effects)
        }
        watchlists.departed(session, mayReturn: mayReturn, &effects)
        session.detail = nil
        sessions.remove(session)
    }

    // MARK: Messages

    /// An event came from the client.
    ///
    /// - Parameter hasRoom: whether the connection takes a page now. If not, missed events are asked for later.
    package func received(
        _ event: ClientEvent, from session: Session, hasRoom: Bool = true, now: Instant, _ effects: inout Effects
    ) {
        switch event {
        case .ping:
            effects.append(.pong)
        case .pong:
            break
        case .subscribe(let name, let auth, let channelData):
            admission.subscribe(name, auth, channelData, session, &effects)
        case .unsubscribe(let name):
            admission.unsubscribe(name, session, &effects)
        case .signin(let auth, let userData):
            identified(session, identities.signin(auth, userData, session, &effects), &effects)
        case .sync("auth", let data):
            identities.authenticate(data, session, &effects)
        case .sync("action", let data):
            actions.act(data, session, &effects)
        case .sync("resume", let data):
            streams.resume(data, session, hasRoom, now, &effects)
        case .sync("backoff", _):
            effects.append(.tellBackoff)
        case .sync:
            effects.complain("This hub does not know this sync: event")
        case .client(let name, let channel, let data):
            ordinary.passOn(name, channel, data, session, now, &effects)
        case .unknown:
            effects.complain("This hub does not know this event")
        }
    }

    /// Handles a message of a frequent kind. False where it needs the general parser; nothing was done then.
    package func received(_ event: CommonEvent, from session: Session, _ effects: inout Effects) -> Bool {
        switch event {
        case .ping: effects.append(.pong)
        case .pong: break
        case .subscribe(let name): return admission.subscribe(unsigned: name, session, &effects)
        case .signin(let auth, let userData):
            var known: Identities.Known?
            CommonEvent.unescape(userData) { known = identities.signin(auth, $0, session, &effects) }
            identified(session, known, &effects)
        case .resume(let data): return streams.resume(common: data, session)
        }
        return true
    }

    /// Answers a message that could not be used.
    package func received(_ error: ClientEventError, from session: Session, _ effects: inout Effects) {
        switch error {
        case .noChannelName(let name):
            effects.append(.send(.refused(escaped: name, .noChannelName)))
        case .signatureTooLong(let name): effects.refuse(name, .badSignature, metrics)
        case .memberTooLong(let name): effects.refuse(name, .memberTooLarge, metrics)
        default: effects.complain(error.message)
        }
    }

    // MARK: Tokens and actions

    /// The token of `sync:auth` or of the upgrade was found good.
    package func authenticated(_ session: Session, as identity: Identity, _ effects: inout Effects) {
        identified(session, identities.authenticated(session, as: identity, &effects), &effects)
    }

    /// The session's user is known, or known for longer: whatever waited for that continues.
    private func identified(_ session: Session, _ known: Identities.Known?, _ effects: inout Effects) {
        guard let known else { return }
        watchlists.welcome(session, as: known.user, &effects)
        admission.unpark(session, &effects)
    }

    // MARK: Apps

    /// Gives the session the new value of its app; nil: the app is no longer served.
    ///
    /// - Parameter keyIsServed: whether some app still has the client's key. If so it must come back: after 4001 it never
    ///   would.
    package func replaceApp(
        of session: Session, by app: App?, keyIsServed: Bool = false, _ effects: inout Effects
    ) {
        guard let app else { return effects.append(.close(keyIsServed ? .reconnect : .unknownApp)) }
        let old = session.app
        session.app = app
        guard app.features.isEnabled else { return effects.append(.close(.appDisabled)) }
        if app.features.watchlists != old.features.watchlists {
            if !app.features.watchlists {
                watchlists.departed(session, &effects)
            } else {
                // Whom the user watches was not kept. It comes with the next signin.
                watchlists.welcome(session, &effects)
            }
        }
        // The deadline runs from the moment the app got it, not from the opening of a connection that had none.
        if old.features.authorizationDeadline == nil, let time = session.authorizationTime,
            session.identity == nil, !session.isAuthorized
        {
            effects.append(.watchIdentity(after: time))
        }
    }
}
