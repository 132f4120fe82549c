import Bytes
import Channels
import Feed
import Identity
import Pusher
import Reactor
import Sync

/// What loops, the feed and the verifier say to a loop. One mailbox for all of it, so that what was said first is done
/// first: a stream's answer before its events.
enum LoopMessage: Sendable {
    /// Take over a connection that was accepted, on a listener with TLS or one without.
    case accepted(Int32, PeerAddress, ConnectionCensus.Refusal?, usesTLS: Bool)
    /// To a stream's home: a session of loop `from` asks to be let in, or for what it missed.
    case join(StreamJoin, from: Int)
    /// To a stream's home: the session of loop `from` awaits nothing more under this name.
    case forget(SessionID, StreamName, from: Int)
    /// To a stream's home: loop `from` has nobody left under this name.
    case leave(StreamName, from: Int)
    /// From a stream's home: the answer to that.
    case joined(StreamJoined)
    /// From a stream's home: the session cannot be let in.
    case joinRefused(SessionID, serial: UInt32, StreamRefusal)
    /// From a stream's home: the event at that offset, for the subscribers under that name, and
    /// where its compressed forms are kept.
    case broadcast(StreamName, offset: Int64, SharedBytes, FrameVariants?)
    /// From a stream's home: the stream goes on at that position, and what lies between is lost.
    case reset(StreamName, StreamPosition, ResumeLoss)
    /// To an ordinary channel's home: something about a session of loop `from`.
    indirect case request(ChannelRequest, from: Int)
    /// To an ordinary channel's home: the same once more, after those of the channel were closed whose peers have gone.
    indirect case roomMade(ChannelRequest, from: Int)
    /// From an ordinary channel's home: the answer to that.
    indirect case answer(ChannelAnswer)
    /// From an ordinary channel's home: a frame for its subscribers but that one, and where the frame's compressed forms are
    /// kept. An event is in the app's backlog.
    indirect case publish(ChannelKey, SharedBytes, except: Exclusion?, FrameVariants?, isEvent: Bool)
    /// From another loop: a question, which itself sees to its answer.
    case ask(@Sendable (ClientLoop) -> Void)
    /// From the loop itself: more is due of its ordinary channels.
    case channelsDue
    /// From the feed, to the homes of these streams.
    case feed([FeedOutput])
    /// To homes of users: what has happened on loop `from`.
    case users([UserRequest], from: Int)
    /// From a home of users: who of those watched is online.
    case told([UserNews])
    /// From the loop itself: more of its users may be offline.
    case usersDue
    /// From the loop itself: more identities are to be looked at.
    case identitiesDue
    /// From outside: these apps are served from here on.
    case serve(AppTable)
    /// From the loop itself: more connections have still to learn of that.
    case replaceApps
    /// From the verifier: a token was found good or bad.
    case verified(SessionID, Result<VerifiedToken, TokenRejection>)
    /// From the store: the answer to an action of that connection.
    case acted(SessionID, ActionAnswer)
    /// From a route: the answer to the request that the connection waits for.
    case answered(SessionID, HTTPResponse)
    /// From the loop itself: more connections have still to be closed whose peers have gone.
    case departuresDue
    /// From the loop itself: connections wait for their turns.
    case turnsDue
    /// The hub ends: close every connection, then stop.
    case shutdown
}
