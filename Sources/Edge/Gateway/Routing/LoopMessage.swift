import Channels
import Feed
import Identity
import Pusher
import Reactor
import Store
import Sync

/// What loops, the feed, the store and the verifier say to a loop. One mailbox for all of it, so that what was said first is
/// done first.
enum LoopMessage: Sendable {
    /// Between owners and loops.
    case owner(OwnerMessage)
    /// From the feed, to the owners of these streams.
    case feed([FeedOutput])
    /// Take over a connection that was accepted, on a listener with TLS or one without.
    case accepted(Int32, PeerAddress, ConnectionCensus.Refusal?, usesTLS: Bool)
    /// From another loop: a question, which itself sees to its answer.
    case ask(@Sendable (ClientLoop) -> Void)
    /// What a connection waits for has been answered.
    case answer(SessionID, ConnectionAnswer)
    /// From outside: these apps are served from here on.
    case serve(AppTable)
    /// From the loop itself: work is due, behind what was there before.
    case due
    /// The hub ends: close every connection, then stop.
    case shutdown
}

/// The answer to what a connection has asked outside its loop.
enum ConnectionAnswer: Sendable {
    /// From the verifier: a token was found good or bad.
    case token(Result<VerifiedToken, TokenRejection>)
    /// From the store, of an action.
    case action(ActionAnswer)
    /// From a route, of the request that the connection waits for.
    case response(HTTPResponse)
    /// From the store, of the body that is being sent.
    case piece(ExportPiece)
}
