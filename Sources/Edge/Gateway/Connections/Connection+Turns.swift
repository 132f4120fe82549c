import Bytes
import Channels
import Reactor

/// Whether a WebSocket waits for the loop's next turn with what it has sent. Valid transitions: none → coming → none;
/// none, coming → last → none, last.
enum Turn {
    /// What comes is read.
    case none
    /// More had come than is looked at in one turn. Nothing is read until the next one.
    case coming
    /// The same, and the socket takes nothing any more: what had come counts, and nothing is sent.
    case last
}

/// A turn of a WebSocket: 64 KiB from the kernel (`LoopBuffers.readRoom`), and `GatewayLimits.turnBytesMax` of what
/// messages cost (`MessagePayload.cost`). The rest stays in `leftover`, and the connection goes on when the loop's others have had their
/// turns. A client may send thousands of messages at once, or some that grow a thousandfold: it holds up itself.
///
/// Worst interleavings, each with its test in `BurstTests` (of TLS in `TLSConnectionTests`); while a connection waits for its turn
/// - its peer goes, or ends what it sends: the kernel's word is not taken before all that had come has been read;
/// - a send to it breaks: what had come is looked at to its end, turn by turn, or to a sign-in that has to be verified
///   elsewhere; that may be in the middle of a frame; and what is to be sent is forgotten;
/// - it is closed, terminated, or removed: what it waits with is not looked at, and the turn that comes finds nobody;
/// - its deadline passes: what waits here is no silence of the peer's, and neither is what waits behind it in the kernel;
/// - TLS has said that no more comes, so that its socket will never be readable again: the farewell follows the last turn;
/// - all connections hold too much: what waits counts with what is not finished (`Holdings`).
extension Connection {
    /// What a message costs beside its bytes, in bytes: with most of them the engine has more to do than with many bytes.
    static let messageCost = 1_024

    /// More has come than is looked at in one turn.
    func awaitTurn() {
        guard turn == .none else { return }
        turn = .coming
        owner.turns.wants(sessionID)
        updateInterest()
    }

    /// The turn has come.
    func turnCame() {
        let isLast = turn == .last
        turn = .none
        guard phase == .open || phase == .closing else { return }
        lastInbound = owner.loop.now
        if isLast, leftover.isEmpty { return broken() }
        resume()
        guard isLast, !hasEnded else { return }
        guard phase == .open else { return depart() }
        // All that could be looked at has been: the rest of what is left is in the kernel, or nowhere.
        if turn == .none { return broken() }
        turn = .last
    }

    /// The socket takes nothing any more. What the peer said before it went counts.
    func broken() {
        forgetUnsent()
        if phase == .open, turn == .none, readable(), phase == .open { awaitTurn() }
        guard turn != .none, phase == .open else {
            if !hasEnded { depart() }
            return
        }
        turn = .last
        // Nothing more goes out behind what was lost, whatever the error was: each further send comes by here again.
        Socket.finishSending(descriptor)
    }
}
