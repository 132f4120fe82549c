import Bytes
import Clock
import JSON
import Metrics
import Pusher
import Sync

/// Who the sessions of one loop are: by whose word, until when, and unless access was revoked.
package final class Identities {
    /// What the engine wants done.
    package typealias Effects = SessionEngine.Effects

    /// The user of a session is known, or known for longer.
    struct Known {
        /// What was said of the user beside the id; nil for nothing.
        let user: UserData?
    }

    private let sessions: SessionTable
    private let limits: ChannelLimits
    private let metrics: EngineMetrics
    private let times: IdentityTimes
    /// The wall clock, because tokens give their end by it.
    private let now: () -> UnixTime
    /// The users whose older identities are refused.
    private var revocations = RevocationTable()
    /// Whether all revocations are known. While they are not, all actions are refused: access may have been revoked.
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
    /// - Returns: nil where nothing is left to do: the client has been told, or is being closed.
    func signin(_ auth: String, _ userData: String, _ session: Session, _ effects: inout Effects) -> Known? {
        var auth = auth
        var userData = userData
        return auth.withUTF8 { auth in
            userData.withUTF8 { userData in
                signin(UnsafeRawBufferPointer(auth), UnsafeRawBufferPointer(userData), session, &effects)
            }
        }
    }

    func signin(
        _ auth: UnsafeRawBufferPointer, _ userData: UnsafeRawBufferPointer, _ session: Session,
        _ effects: inout Effects
    ) -> Known? {
        guard session.app.credentials.verify(auth, ofUser: userData, socketID: session.socketID) else {
            metrics.authFailures["signin_signature"].add()
            effects.complain("The signature of pusher:signin does not fit this socket id and user_data")
            return nil
        }
        // Nearly always it is only an id. Where no more was said before, nothing is to be replaced.
        if session.detail?.saysMoreThanID != true, let id = UserData.idAlone(in: userData) {
            let identity = Identity(of: session.parkedUser(id) ?? .copy(id))
            return signedIn(session, as: identity, saying: nil, userData, &effects)
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
        // A backend that gives no time has vouched just now, and itself knows who is revoked.
        guard identity.issuedAt == nil || !refuses(identity, of: session.app) else {
            complainOfRevocation(&effects)
            return nil
        }
        return signedIn(session, as: identity, saying: user, userData, &effects)
    }

    /// - Parameter user: what `userData` says; nil where that is only an id, and nothing else was said before.
    private func signedIn(
        _ session: Session, as identity: Identity, saying user: UserData?, _ userData: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) -> Known? {
        guard identify(session, as: identity, &effects) else { return nil }
        effects.append(.send(.signinSuccess(userData: userData)))
        return Known(user: user)
    }

    /// The time of issue, unless it is in the future: that of a backend that counts milliseconds would outlast all
    /// revocations. Clocks may differ by a minute.
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

    /// The token of `sync:auth` or of the upgrade was found good. It makes the session its user's, or extends that.
    func authenticated(_ session: Session, as identity: Identity, _ effects: inout Effects) -> Known? {
        // It was good when it was verified, which may have been before a revocation.
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

    /// The token was found bad. The connection stays as it was, unless too many in a row were refused.
    package func rejected(_ session: Session, reason: StaticString, _ effects: inout Effects) {
        effects.complain(reason)
        countRefusal(session, &effects)
    }

    /// Each token costs a verification. A client without a good one is closed, to come back with a new one.
    private func countRefusal(_ session: Session, _ effects: inout Effects) {
        let detail = session.madeDetail()
        detail.refusedTokens += 1
        if Int(detail.refusedTokens) >= limits.refusedTokensMax { effects.append(.close(.tokensRefused)) }
    }

    /// Whether the identity was issued before its user's access was revoked.
    package func refuses(_ identity: Identity, of app: App) -> Bool {
        app.ownsDatabase && revocations.refuses(identity.userID, issuedAt: identity.issuedAt)
    }

    /// Gives the session the identity, or extends its own. False: nothing is left to do; the client was told or closed.
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
        if isFirst { sessions.mark(session, renewed, at: now()) }
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

    /// Looks at the session's identity: announces its end beforehand, and closes the connection after the grace. Returns the
    /// time, above zero, until the next look; nil where none is needed.
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

    /// The time is over in which the session's app wants a connection to show who it is.
    private func authorizationDue(_ session: Session, _ effects: inout Effects) {
        guard session.app.features.authorizationDeadline != nil, !session.isAuthorized else { return }
        effects.append(.close(.notAuthorizedInTime))
    }

    private func hasEnded(_ identity: Identity, _ now: UnixTime) -> Bool {
        guard let expiresAt = identity.expiresAt else { return false }
        return UnixTime(seconds: expiresAt).advanced(by: times.grace) <= now
    }

    /// These users' access has been revoked. Returns the sessions to close: those of the users whose identity was issued
    /// before or gives no time, and those that a signature admitted to streams of theirs: it gives no time, and its signer
    /// decides again.
    ///
    /// Only new revocations count against sessions: the feed repeats all of them when it connects, and a backend may have
    /// let a user back in.
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
