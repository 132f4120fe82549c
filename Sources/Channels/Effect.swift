import Bytes
import Pusher
import Sync

/// What a loop's hub wants done for the session that an input was about. In order.
package enum Effect {
    /// Queue the frame to the session.
    case send(SharedBytes)
    /// Have the token verified, the session's input paused meanwhile, and report by `Hub.tokenVerified`.
    case verify(token: String)
    /// Have the user's action applied, and report by `Hub.answered`.
    indirect case act(ActionEnvelope, user: String)
    /// The session's identity ends: have `Hub.identityDue` called after that time.
    case watchIdentity(after: Duration)
    /// Close the connection with that code. The last effect of an input.
    case close(ErrorCode)
    /// Ask the stream's home loop to take this session in.
    case join(StreamJoin)
    /// Tell the stream's home loop that this loop has nobody left under this name.
    case leave(StreamName)
}

/// A session asks a stream's home to be let in. Answered by `StreamJoined`.
package struct StreamJoin: Sendable {
    package let name: StreamName
    package let session: SessionID
    package let serial: UInt32

    package init(name: StreamName, session: SessionID, serial: UInt32) {
        self.name = name
        self.session = session
        self.serial = serial
    }
}

/// The home's answer: every event above `position` follows, by the same mailbox.
package struct StreamJoined: Sendable {
    package let session: SessionID
    package let serial: UInt32
    package let position: StreamPosition

    package init(session: SessionID, serial: UInt32, position: StreamPosition) {
        self.session = session
        self.serial = serial
        self.position = position
    }
}
