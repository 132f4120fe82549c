import Clock
import Feed
import HubEngine
import Identity
import Pusher
import Reactor
import Store
import Sync

/// What loops, the feed, the store and the verifier send to a loop. One mailbox for all of it keeps the order.
enum LoopMessage: Sendable {
    case owner(OwnerMessage)
    /// From the feed, to the owners of these streams. `readAt`: when the feed had read them; only a hub that keeps traces
    /// says it.
    case feed([FeedOutput], readAt: Instant)
    /// Take over an accepted connection, of a listener with TLS or without, which begins at that time.
    case accepted(Int32, PeerAddress, AdmissionControl.Refusal?, usesTLS: Bool, beginsAt: Instant = .min)
    /// From the shared state, by its link.
    case shared(SharedArrival)
    /// From another loop: a question, which sends its answer itself.
    case ask(@Sendable (ClientLoop) -> Void)
    case answer(SessionID, ConnectionAnswer)
    /// From outside: these apps are served from now on.
    case serve(AppTable)
    /// From the loop itself: work is due, behind the mail that was there before.
    case due
    /// From outside: close connections in this way; nil: no more of them.
    case drain(DrainOrder?)
    /// The hub ends: close every connection, then stop.
    case shutdown(hasSuccessor: Bool)
}

/// The answer to what a connection asked outside its loop.
enum ConnectionAnswer: Sendable {
    /// From the verifier: a token was found good or bad.
    case token(Result<VerifiedToken, TokenRejection>)
    /// From the store, for an action.
    case action(ActionAnswer)
    /// From a route, for the request that the connection waits for.
    case response(HTTPResponse)
    /// From the store, for the body that is being sent.
    case piece(ExportPiece)
}
