import Channels
import Clock
import Identity
import Pusher
import Reactor
import Sync

/// Identities over time: tokens that are being verified, and when whose identity is to be looked at.
///
/// Both clocks must agree that an identity has ended: a look comes by the monotonic one, and judges by the wall clock
/// as it is then. So a wall clock that jumps ahead closes nobody early, and one that is set back only postpones.
final class IdentityWatch {
    private let loop: EventLoop
    private let due: DueWork
    private let verifier: TokenVerifier
    private let mailbox: Mailbox<LoopMessage>
    private var queue = IdentityQueue()
    private var verifications = Verifications()

    /// Looks in one turn: each may close a connection, and other clients are served between turns.
    static let looksPerTurn = 128

    init(on loop: EventLoop, _ due: DueWork, _ verifier: TokenVerifier, _ mailbox: Mailbox<LoopMessage>) {
        self.loop = loop
        self.due = due
        self.verifier = verifier
        self.mailbox = mailbox
    }

    // MARK: Tokens

    /// Has the token verified off the loop, and answered to the connection.
    func verify(_ token: String, for id: SessionID) {
        let (mailbox, verifier) = (mailbox, verifier)
        verifications.begin(id)
        // Before anything else that the pool has to do: a client waits, with a deadline.
        Task(priority: .high) { mailbox.post(.answer(id, .token(await verifier.verify(token)))) }
    }

    /// A token was found good or bad.
    func verified(_ id: SessionID, _ result: Result<VerifiedToken, TokenRejection>) {
        let connection = loop.connection(id)
        var user: UserKey?
        let app = connection?.session?.app ?? connection?.conversation?.upgrade?.app
        if let app, case .success(let token) = result { user = UserKey(token.userID, of: app.index) }
        let code = verifications.end(id, as: user)
        guard let connection else { return }
        if let conversation = connection.conversation {
            conversation.verified(result, endedBy: code, connection)
        } else {
            connection.owner.webSockets.verified(result, endedBy: code, connection)
        }
    }

    /// All connections of the user have been closed, but those whose tokens are being verified.
    func terminated(_ user: UserKey) {
        verifications.terminate(user)
    }

    // MARK: Looks

    /// The connection's identity is to be looked at after that time, or when it already was to be, if that is sooner.
    func watch(_ connection: Connection, after wait: Duration) {
        let time = loop.now.advanced(by: wait)
        if let expected = connection.identityLook {
            guard time < expected else { return }
            queue.abandon()
        }
        connection.identityLook = time
        queue.insert(IdentityQueue.Look(time: time, session: connection.sessionID))
        sweep()
        due.set(.identities, at: queue.earliest)
    }

    /// The connection has gone: nobody looks at it again.
    func unwatch(_ connection: Connection) {
        guard connection.identityLook != nil else { return }
        connection.identityLook = nil
        queue.abandon()
        sweep()
    }

    /// The time of one look or of several has come.
    ///
    /// - Parameter look: looks at the identity of a connection.
    func looksDue(_ look: (Connection) -> Void) {
        for _ in 0..<Self.looksPerTurn {
            guard let next = queue.popDue(loop.now) else { break }
            guard let connection = loop.connection(next.session), connection.identityLook == next.time else {
                queue.forget()
                continue
            }
            connection.identityLook = nil
            if connection.awaitsToken {
                // That token may be the new one. Its verification is awaited, and no other's.
                connection.owesIdentityLook = true
            } else {
                look(connection)
            }
        }
        due.set(.identities, at: queue.earliest)
    }

    private func sweep() {
        queue.sweep { look in loop.connection(look.session)?.identityLook == look.time }
    }
}

extension Identity {
    init(_ token: VerifiedToken) {
        self.init(userID: token.userID, issuedAt: token.issuedAt, expiresAt: token.expiresAt)
    }
}
