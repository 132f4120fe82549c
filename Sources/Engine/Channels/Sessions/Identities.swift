import Bytes
import Clock
import JSON
import Metrics
import Pusher
import Sync

/// Who the sessions of one loop are: by whose word, until when, and unless access was revoked.
package final class Identities {
    package typealias Effects = Hub.Effects

    /// The user of a session is known, or known for longer.
    struct Known {
        /// What was said of the user beside the id; nil where that is nothing.
        let user: UserData?
    }

    private let sessions: SessionTable
    private let limits: ChannelLimits
    private let metrics: EngineMetrics
    private let times: IdentityTimes
    /// The wall clock: what a token says of its end is said by that one.
    private let now: () -> UnixTime
    /// Whose older identities are refused.
    private var revocations = RevocationTable()
    /// Whether all revocations are known. While they are not, nobody's actions are taken: access may have been revoked.
    package var isRevocationCurrent = true

    init(
        of sessions: SessionTable, _ limits: ChannelLimits, _ metrics: EngineMetrics, _ times: IdentityTimes,
        now: @escaping () -> UnixTime
    ) {
        self.sessions = sessions
        self.limits = limits
        self.metrics = metrics
        self.times = times
        self.now = now
    }

    /// `pusher:signin`: the app's backend, or this hub's own user-auth endpoint, has signed who the user is.
    ///
    /// - Returns: nil where there is nothing to be done with it; the client has been told, or is closed.
    func signin(_ auth: String, _ userData: String, _ session: Session, _ effects: inout Effects) -> Known? {
        var auth = auth
        var userData = userData
        return auth.withUTF8 { auth in
            userData.withUTF8 { userData in
                signin(UnsafeRawBufferPointer(auth), UnsafeRawBufferPointer(userData), session, &effects)
            }
        }
    }

    /// `pusher:signin`, its two texts given as UTF-8.
    func signin(
        _ auth: UnsafeRawBufferPointer, _ userData: UnsafeRawBufferPointer, _ session: Session,
        _ effects: inout Effects
    ) -> Known? {
        guard session.app.credentials.verify(auth, ofUser: userData, socketID: session.socketID) else {
            metrics.authFailures["signin_signature"].add()
            effects.complain("The signature of pusher:signin does not fit this socket id and user_data")
            return nil
        }
        // Nearly always: an id and nothing else, of which nothing is kept but the identity.
        if session.detail == nil, let id = UserData.idAlone(in: userData) {
            return signedIn(session, as: Identity(userID: id), saying: nil, userData, &effects)
        }
        let user: UserData
        do throws(UserDataError) {
            let watchlistMax = session.app.features.watchlists ? session.app.limits.watchlistMax : nil
            let times: UserData.Times = session.app.ownsDatabase ? .each : .both
            user = try UserData(userData, times: times, watchlistMax: watchlistMax)
        } catch {
            effects.complain(error.message)
            return nil
        }
        let identity = Identity(userID: user.id, issuedAt: past(user.issuedAt), expiresAt: user.expiresAt)
        // A backend that does not say when it vouched for the user has just done so, and itself knows who is revoked.
        guard identity.issuedAt == nil || !refuses(identity, of: session.app) else {
            complainOfRevocation(&effects)
            return nil
        }
        return signedIn(session, as: identity, saying: user, userData, &effects)
    }

    /// - Parameter user: what `userData` says; nil where that is an id alone, of a session that has no detail either.
    private func signedIn(
        _ session: Session, as identity: Identity, saying user: UserData?, _ userData: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) -> Known? {
        guard identify(session, as: identity, &effects) else { return nil }
        effects.append(.send(.signinSuccess(userData: userData)))
        return Known(user: user)
    }

    /// The time of issue, unless it has still to come: a backend that counts milliseconds would outlast all revocations.
    /// Clocks may differ by a minute.
    private func past(_ issuedAt: Int64?) -> Int64? {
        guard let issuedAt, UnixTime(seconds: issuedAt).advanced(by: .seconds(-60)) <= now() else { return nil }
        return issuedAt
    }

    /// `sync:auth`: a token of the app's own, verified off the loop.
    func authenticate(_ data: [UInt8], _ session: Session, _ effects: inout Effects) {
        guard session.app.ownsDatabase else {
            return effects.complain("sync:auth needs the app that owns the database; this app does not")
        }
        guard let token = data.withUnsafeBytes({ Self.token(in: $0) }) else {
            return effects.complain("sync:auth needs a token: {\"token\":\"...\"}")
        }
        effects.append(.verify(token: token))
    }

    private static func token(in data: UnsafeRawBufferPointer) -> String? {
        guard var reader = try? JSONObjectReader(data) else { return nil }
        while let member = try? reader.next() {
            if member.isNamed("token") { return member.value.string }
        }
        return nil
    }

    /// The token given by `sync:auth` or on the upgrade was found good: it makes the session its user's, or lets it be
    /// that for longer.
    func authenticated(_ session: Session, as identity: Identity, _ effects: inout Effects) -> Known? {
        // It was good when it was verified, which may have been before the revocation.
        let isRevoked = refuses(identity, of: session.app)
        if isRevoked { complainOfRevocation(&effects) }
        guard !isRevoked, identify(session, as: identity, &effects) else {
            countRefusal(session, &effects)
            return nil
        }
        session.detail?.refusedTokens = 0
        let expiresAt = session.identity?.expiresAt ?? identity.expiresAt
        effects.append(.send(.authOK(userID: identity.userID, expiresAt: expiresAt)))
        return Known(user: nil)
    }

    /// The token was found bad. The connection stays as it was, unless there have been too many of them.
    func rejected(_ session: Session, reason: StaticString, _ effects: inout Effects) {
        effects.complain(reason)
        countRefusal(session, &effects)
    }

    /// Each token costs a verification: who has none that is good goes, to come back with a new one.
    private func countRefusal(_ session: Session, _ effects: inout Effects) {
        let detail = session.madeDetail()
        detail.refusedTokens += 1
        if Int(detail.refusedTokens) >= limits.refusedTokensMax { effects.append(.close(.tokensRefused)) }
    }

    /// Whether the identity was issued before its user's access was revoked.
    func refuses(_ identity: Identity, of app: App) -> Bool {
        app.ownsDatabase && revocations.refuses(identity.userID, issuedAt: identity.issuedAt)
    }

    /// Gives the session the identity, or the time that it adds. False where there is nothing to be done with it; the
    /// client has been told, or is closed.
    func identify(_ session: Session, as identity: Identity, _ effects: inout Effects) -> Bool {
        if let known = session.identity, !known.owns(identity.userID) {
            effects.complain("This connection belongs to another user already; open a new one")
            return false
        }
        let renewed = session.identity?.renewed(by: identity) ?? identity
        if renewed.expiresAt != nil, hasEnded(renewed, now()) {
            // Unlike a complaint, this makes pusher-js come back and ask for a new credential.
            effects.append(.close(.tokenExpired))
            return false
        }
        if session.identity?.expiresAt != renewed.expiresAt { session.isExpiryAnnounced = false }
        let isFirst = session.identity == nil
        session.identity = renewed
        if isFirst { sessions.mark(session, renewed) }
        if let expiresAt = renewed.expiresAt {
            let announcement = UnixTime(seconds: expiresAt).advanced(by: .zero - times.notice)
            effects.append(.watchIdentity(after: now().duration(until: announcement)))
        }
        return true
    }

    private func complainOfRevocation(_ effects: inout Effects) {
        metrics.authFailures["revoked"].add()
        effects.complain("Access was revoked after this was issued; get a new token")
    }

    // MARK: The end of an identity

    /// The session's identity is to be looked at: near its end that is announced, and at its end, the grace over, the
    /// connection closed. Returns the time after which to look again, above zero; nil where there is no need to.
    package func due(_ session: Session, _ effects: inout Effects) -> Duration? {
        guard let identity = session.identity else {
            authorizationDue(session, &effects)
            return nil
        }
        guard let expiresAt = identity.expiresAt else { return nil }
        let now = now()
        if hasEnded(identity, now) {
            effects.append(.close(.tokenExpired))
            return nil
        }
        let expiry = UnixTime(seconds: expiresAt)
        let announcement = expiry.advanced(by: .zero - times.notice)
        if !session.isExpiryAnnounced {
            guard announcement <= now else { return now.duration(until: announcement) }
            session.isExpiryAnnounced = true
            effects.append(.send(.authExpiring(expiresAt: expiresAt)))
        }
        return now.duration(until: expiry.advanced(by: times.grace))
    }

    /// The time is over that the session's app leaves a connection to show who it is.
    private func authorizationDue(_ session: Session, _ effects: inout Effects) {
        guard session.app.features.authorizationDeadline != nil, !session.isAuthorized else { return }
        effects.append(.close(.notAuthorizedInTime))
    }

    private func hasEnded(_ identity: Identity, _ now: UnixTime) -> Bool {
        guard let expiresAt = identity.expiresAt else { return false }
        return UnixTime(seconds: expiresAt).advanced(by: times.grace) <= now
    }

    /// These users' access has been revoked. Returns the sessions to be closed: theirs, where the identity was issued
    /// before or does not say when, and those that were admitted to streams of theirs by a signature, which says no time:
    /// whoever signed decides again when they come back.
    ///
    /// Only what is new is held against sessions, for the feed tells all that stands whenever it connects, and a
    /// backend may well have let a user back in.
    package func revoked(_ revocations: [Revocation]) -> [SessionID] {
        let news = self.revocations.insert(revocations).news
        guard !news.isEmpty else { return [] }
        var table = RevocationTable(countMax: news.count)
        _ = table.insert(news)
        return sessions.ids { session in
            guard session.app.ownsDatabase else { return false }
            if let identity = session.identity, table.refuses(identity.userID, issuedAt: identity.issuedAt) {
                return true
            }
            return session.isVouchedFor && isVouchedFor(session, in: table)
        }
    }

    private func isVouchedFor(_ session: Session, in table: RevocationTable) -> Bool {
        session.subscriptions.contains { subscription in
            guard let stream = subscription.channel.stream?.stream, session.identity?.owns(stream) != true else {
                return false
            }
            return table.refuses(stream.user, issuedAt: nil)
        }
    }
}
