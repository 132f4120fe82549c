import Bytes
import Clock
import JSON
import Metrics
import Pusher
import Sync

extension Hub {
    /// `pusher:signin`: the app's backend, or this hub's own user-auth endpoint, has signed who the user is.
    func signin(_ auth: String, _ userData: String, _ session: Session, _ effects: inout Effects) {
        var auth = auth
        var userData = userData
        auth.withUTF8 { auth in
            userData.withUTF8 { userData in
                signin(UnsafeRawBufferPointer(auth), UnsafeRawBufferPointer(userData), session, &effects)
            }
        }
    }

    /// `pusher:signin`, its two texts given as UTF-8.
    func signin(
        _ auth: UnsafeRawBufferPointer, _ userData: UnsafeRawBufferPointer, _ session: Session,
        _ effects: inout Effects
    ) {
        guard session.app.credentials.verify(auth, ofUser: userData, socketID: session.socketID) else {
            metrics.authFailures["signin_signature"].add()
            return complain("The signature of pusher:signin does not fit this socket id and user_data", &effects)
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
            return complain(error.message, &effects)
        }
        let identity = Identity(userID: user.id, issuedAt: past(user.issuedAt), expiresAt: user.expiresAt)
        // A backend that does not say when it vouched for the user has just done so, and itself knows who is revoked.
        guard identity.issuedAt == nil || !refuses(identity, of: session.app) else {
            return complainOfRevocation(&effects)
        }
        signedIn(session, as: identity, saying: user, userData, &effects)
    }

    /// - Parameter user: what `userData` says; nil where that is an id alone, of a session that has no detail either.
    private func signedIn(
        _ session: Session, as identity: Identity, saying user: UserData?, _ userData: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) {
        guard identify(session, as: identity, &effects) else { return }
        effects.append(.send(.signinSuccess(userData: userData)))
        welcome(session, as: user, &effects)
        unpark(session, &effects)
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
            return complain("sync:auth needs the app that owns the database; this app does not", &effects)
        }
        guard let token = data.withUnsafeBytes({ Self.token(in: $0) }) else {
            return complain("sync:auth needs a token: {\"token\":\"...\"}", &effects)
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
    package func authenticated(_ session: Session, as identity: Identity, _ effects: inout Effects) {
        // It was good when it was verified, which may have been before the revocation.
        guard !refuses(identity, of: session.app) else {
            complainOfRevocation(&effects)
            return countRefusal(session, &effects)
        }
        guard identify(session, as: identity, &effects) else { return countRefusal(session, &effects) }
        session.detail?.refusedTokens = 0
        let expiresAt = session.identity?.expiresAt ?? identity.expiresAt
        effects.append(.send(.authOK(userID: identity.userID, expiresAt: expiresAt)))
        welcome(session, &effects)
        unpark(session, &effects)
    }

    /// The token was found bad. The connection stays as it was, unless there have been too many of them.
    package func rejected(_ session: Session, reason: StaticString, _ effects: inout Effects) {
        complain(reason, &effects)
        countRefusal(session, &effects)
    }

    /// Each token costs a verification: who has none that is good goes, to come back with a new one.
    private func countRefusal(_ session: Session, _ effects: inout Effects) {
        let detail = session.madeDetail()
        detail.refusedTokens += 1
        if Int(detail.refusedTokens) >= limits.refusedTokensMax { effects.append(.close(.tokensRefused)) }
    }

    /// Whether the identity was issued before its user's access was revoked.
    package func refuses(_ identity: Identity, of app: App) -> Bool {
        app.ownsDatabase && revocations.refuses(identity.userID, issuedAt: identity.issuedAt)
    }

    /// Gives the session the identity, or the time that it adds. False where there is nothing to be done with it; the
    /// client has been told, or is closed.
    func identify(_ session: Session, as identity: Identity, _ effects: inout Effects) -> Bool {
        if let known = session.identity, !known.owns(identity.userID) {
            complain("This connection belongs to another user already; open a new one", &effects)
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
        if isFirst { mark(session, renewed) }
        if let expiresAt = renewed.expiresAt {
            let announcement = UnixTime(seconds: expiresAt).advanced(by: .zero - identityTimes.notice)
            effects.append(.watchIdentity(after: now().duration(until: announcement)))
        }
        return true
    }

    private func complainOfRevocation(_ effects: inout Effects) {
        metrics.authFailures["revoked"].add()
        complain("Access was revoked after this was issued; get a new token", &effects)
    }

    // MARK: The end of an identity

    /// The session's identity is to be looked at: near its end that is announced, and at its end, the grace over, the
    /// connection closed. Returns the time after which to look again, above zero; nil where there is no need to.
    package func identityDue(_ session: Session, _ effects: inout Effects) -> Duration? {
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
        let announcement = expiry.advanced(by: .zero - identityTimes.notice)
        if !session.isExpiryAnnounced {
            guard announcement <= now else { return now.duration(until: announcement) }
            session.isExpiryAnnounced = true
            effects.append(.send(.authExpiring(expiresAt: expiresAt)))
        }
        return now.duration(until: expiry.advanced(by: identityTimes.grace))
    }

    /// The time is over that the session's app leaves a connection to show who it is.
    private func authorizationDue(_ session: Session, _ effects: inout Effects) {
        guard session.app.features.authorizationDeadline != nil, !session.isAuthorized else { return }
        effects.append(.close(.notAuthorizedInTime))
    }

    private func hasEnded(_ identity: Identity, _ now: UnixTime) -> Bool {
        guard let expiresAt = identity.expiresAt else { return false }
        return UnixTime(seconds: expiresAt).advanced(by: identityTimes.grace) <= now
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
        return sessions.compactMap { session in
            guard let session, session.app.ownsDatabase else { return nil }
            if let identity = session.identity, table.refuses(identity.userID, issuedAt: identity.issuedAt) {
                return session.id
            }
            return session.isVouchedFor && isVouchedFor(session, in: table) ? session.id : nil
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
