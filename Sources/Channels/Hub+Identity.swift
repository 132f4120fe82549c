import Bytes
import JSON
import Pusher
import Sync

extension Hub {
    /// `pusher:signin`: the app's backend, or this hub's own user-auth endpoint, has signed who the user is.
    func signin(_ auth: String, _ userData: String, _ session: Session, _ effects: inout Effects) {
        let isSigned = session.app.credentials.verify(
            auth, of: .user(userData: userData), socketID: session.socketID)
        guard isSigned else {
            return complain("The signature of pusher:signin does not fit this socket id and user_data", &effects)
        }
        guard let user = try? UserData(userData) else {
            return complain("user_data of pusher:signin needs an id: a string of 1 to 128 bytes", &effects)
        }
        guard identify(session, as: Identity(userID: user.id), &effects) else { return }
        effects.append(.send(ServerEvent.signinSuccessFrame(userData: userData)))
        unpark(session, &effects)
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

    /// The token given by `sync:auth` or on the upgrade was found good: it makes the session its user's.
    package func authenticated(
        _ session: Session, as identity: Identity, expiresAt: Int64, _ effects: inout Effects
    ) {
        guard identify(session, as: identity, &effects) else { return }
        effects.append(.send(ServerEvent.authOKFrame(userID: identity.userID, expiresAt: expiresAt)))
        unpark(session, &effects)
    }

    /// The token was found bad. The connection stays as it was.
    package func rejected(_ session: Session, reason: StaticString, _ effects: inout Effects) {
        complain(reason, &effects)
    }

    private func identify(_ session: Session, as identity: Identity, _ effects: inout Effects) -> Bool {
        if let known = session.identity, known != identity {
            complain("This connection belongs to another user already; open a new one", &effects)
            return false
        }
        session.identity = identity
        return true
    }
}
