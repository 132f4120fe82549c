import Channels
import Glibc
import Identity
import Pusher
import Reactor
import Sync

/// Identities over time: their ends, and revocations.
///
/// Both clocks must agree that an identity has ended: a look comes by the monotonic one, and judges by the wall clock
/// as it is then. So a wall clock that jumps ahead closes nobody early, and one that is set back only postpones.
extension ClientLoop {
    /// The connection's identity is to be looked at after that time, or when it already was to be, if that is sooner.
    func watchIdentity(of connection: Connection, after wait: Duration) {
        let time = loop.now.advanced(by: wait)
        if let expected = connection.identityLook {
            guard time < expected else { return }
            identityQueue.abandon()
        }
        connection.identityLook = time
        identityQueue.insert(IdentityQueue.Look(time: time, session: connection.sessionID))
        sweepIdentityQueue()
        setIdentityAlarm()
    }

    /// The connection has gone: nobody looks at it again.
    func unwatchIdentity(of connection: Connection) {
        guard connection.identityLook != nil else { return }
        connection.identityLook = nil
        identityQueue.abandon()
        sweepIdentityQueue()
    }

    /// Looks in one turn: each may close a connection, and other clients are served between turns.
    static let looksPerTurn = 128

    /// The time of one look or of several has come.
    func identitiesDue() {
        for _ in 0..<Self.looksPerTurn {
            guard let look = identityQueue.popDue(loop.now) else { break }
            guard let connection = connection(look.session), connection.identityLook == look.time else {
                identityQueue.forget()
                continue
            }
            connection.identityLook = nil
            if connection.phase == .awaitingToken {
                // That token may be the new one. Its verification is awaited, and no other's.
                connection.owesIdentityLook = true
            } else {
                lookAtIdentity(of: connection)
            }
        }
        setIdentityAlarm()
    }

    /// Announces the end of the connection's identity, or closes it, or sees when to look again.
    func lookAtIdentity(of connection: Connection) {
        guard let session = connection.session else { return }
        var wait: Duration?
        engage(connection) { wait = $0.identityDue(session, &$1) }
        if let wait { watchIdentity(of: connection, after: wait) }
    }

    /// These users' access has been revoked: their connections end.
    func revoked(_ revocations: [Revocation]) {
        for id in hub.revoked(revocations) { connection(id)?.cutOff(.accessRevoked) }
    }

    private func setIdentityAlarm() {
        guard let identityAlarm, !awaitsIdentityTurn else { return }
        guard let earliest = identityQueue.earliest, earliest <= loop.now else {
            return loop.setDeadline(identityAlarm, identityQueue.earliest)
        }
        // More is due than is done in one turn.
        identityAlarm.unset()
        awaitsIdentityTurn = true
        mailbox.post(.identitiesDue)
    }

    private func sweepIdentityQueue() {
        identityQueue.sweep { [self] look in connection(look.session)?.identityLook == look.time }
    }
}

extension UnixTime {
    /// The wall clock (`CLOCK_REALTIME`) read now.
    package static func read() -> UnixTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UnixTime(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
    }
}

extension Identity {
    init(_ token: VerifiedToken) {
        self.init(userID: token.userID, issuedAt: token.issuedAt, expiresAt: token.expiresAt)
    }
}
