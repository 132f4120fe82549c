import Bytes
import Channels
import Pusher
import Sync

/// What a loop says to the owner of a stream, of an ordinary channel, or of a user.
enum OwnerRequest: Sendable {
    /// A session asks to be let in to a stream, or for what it missed.
    case join(StreamJoin)
    /// The session awaits nothing more under this name of a stream.
    case forget(SessionID, StreamName)
    /// The loop has nobody left under this name of a stream.
    case leave(StreamName)
    /// Something about a session in an ordinary channel.
    indirect case channel(ChannelRequest)
    /// The same once more, after those of the channel were closed whose peers have gone.
    indirect case channelWithRoom(ChannelRequest)
    /// What has happened to users, each of one owner, in order.
    case users([UserRequest])
}

/// What an owner says to a loop that has takers.
enum OwnerNews: Sendable {
    /// The answer to `join`.
    case joined(StreamJoined)
    /// The session cannot be let in to the stream.
    case joinRefused(SessionID, serial: UInt32, StreamRefusal)
    /// The event at that offset, for the stream's subscribers under that name, and where its compressed forms are kept.
    case event(StreamName, offset: Int64, SharedBytes, FrameVariants?)
    /// The stream goes on at that position, and what lies between is lost.
    case reset(StreamName, StreamPosition, ResumeLoss)
    /// The answer to a session that asked for an ordinary channel.
    indirect case answer(ChannelAnswer)
    /// A frame for an ordinary channel's subscribers but that one, and where the frame's compressed forms are kept.
    /// `isEvent`: it is what a backend or a client has to say, and not of who comes and goes.
    indirect case publish(ChannelKey, SharedBytes, except: Exclusion?, FrameVariants?, isEvent: Bool)
    /// Who of the users that are watched is online.
    case users([UserNews])
}

/// What passes between a loop and owners.
enum OwnerMessage: Sendable {
    /// To an owner on the loop that gets it, from loop `from`.
    case request(OwnerRequest, from: Int)
    /// From an owner, to the loop that gets it.
    case news(OwnerNews)
}

/// What a message counts for while it is between two loops.
enum MessageLoad {
    /// An event of a stream: the feed waits while they are many.
    case event
    /// Something of the app with that index: its backend and clients wait while they are many.
    case app(Int)
}

extension OwnerMessage {
    /// Nil where it is nobody's to hold back.
    var load: MessageLoad? {
        switch self {
        case .news(.event): .event
        case .news(.publish(let key, _, _, _, let isEvent)): isEvent ? .app(key.app) : nil
        case .news(.answer(let answer)): answer.appInBacklog.map { .app($0) }
        case .request(.channel(let request), _): request.isInBacklog ? .app(request.key.app) : nil
        case .news(.joined), .news(.joinRefused), .news(.reset), .news(.users), .request: nil
        }
    }
}
