import Clock
import HubEngine
import Identity
import Pusher
import Reactor
import Sync

/// Identities over time: tokens in verification, and when each identity must be looked at.
///
/// Both clocks must agree that an identity has ended: a look is timed by the monotonic clock, and judges by the wall clock
/// of that moment. So a wall clock that jumps ahead closes nobody early, and one that is set back only postpones.
final class IdentityWatch {
    private let loop: EventLoop
    private let due: DueWork
    private let verifier: TokenVerifier
    private let mailbox: Mailbox<LoopMessage>
    private var queue = IdentityQueue()
    private var verifications = Verifications()

    /// Looks in one turn. Each may close a connection, and other clients are served between turns.
    static let looksPerTurn = 128

    init(on loop: EventLoop, _ due: DueWork, _ verifier: TokenVerifier, _ mailbox: Mailbox<LoopMessage>) {
        self.loop = loop
        self.due = due
        self.verifier = verifier
        self.mailbox = mailbox
    }

    // MARK: Tokens

    /// Has the token verified off the loop; the connection gets the answer.
    func verify(_ token: String, for id: SessionID) {
        let (mailbox, verifier) = (mailbox, verifier)
        verifications.begin(id)
        // Of a higher priority, libdispatch would complain that an ordinary user may not have it.
        Task(priority: .medium) { mailbox.post(.answer(id, .token(await verifier.verify(token)))) }
    }

    func verified(_ id: SessionID, _ result: Result<VerifiedToken, TokenRejection>) {
        let connection = loop.connection(id)
        var user: UserKey?
        let app = connection?.session?.app ?? connection?.conversation?.awaitingApp
        if let app, case .success(let token) = result { user = UserKey(token.userID, of: app.index) }
        let code = verifications.end(id, as: user)
        guard let connection else { return }
        if let conversation = connection.conversation {
            conversation.verified(result, endedBy: code, connection)
        } else {
            connection.owner.webSockets.verified(result, endedBy: code, connection)
        }
    }

    /// All connections of the user were closed, except those whose tokens are being verified.
    func terminated(_ user: UserKey) {
        verifications.terminate(user)
    }

    // MARK: Looks

    /// Schedules a look at the connection's identity after that time, unless an earlier one is scheduled.
    func watch(_ connection: ClientConnection, after wait: Duration) {
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

    func unwatch(_ connection: ClientConnection) {
        guard connection.identityLook != nil else { return }
        connection.identityLook = nil
        queue.abandon()
        sweep()
    }

    /// One or more looks are due.
    ///
    /// - Parameter look: looks at the identity of a connection.
    func looksDue(_ look: (ClientConnection) -> Void) {
        for _ in 0..<Self.looksPerTurn {
            guard let next = queue.popDue(loop.now) else { break }
            guard let connection = loop.connection(next.session), connection.identityLook == next.time else {
                queue.forget()
                continue
            }
            connection.identityLook = nil
            if connection.awaitsToken {
                // That token may be the new one, so the look waits for its verification, and for no other.
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
