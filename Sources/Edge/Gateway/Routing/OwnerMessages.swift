import Bytes
import Channels
import Pusher
import Sync

/// A loop's request to the owner of a stream, of an ordinary channel, or of users.
enum OwnerRequest: Sendable {
    /// A session asks to be let in to a stream, or for what it missed.
    case join(StreamJoin)
    /// The session awaits nothing more under this name of a stream.
    case forget(SessionID, StreamName)
    /// The loop has no subscriber left under this name of a stream.
    case leave(StreamName)
    indirect case channel(ChannelRequest)
    /// A `channel` request again, after the channel's departed connections were closed.
    indirect case channelWithRoom(ChannelRequest)
    /// What happened to users, in order. The users may have several owners until the router splits them.
    case users([UserRequest])
}

/// What an owner tells a loop with subscribers.
enum OwnerNews: Sendable {
    case joined(StreamJoined)
    /// The session cannot be let in to the stream.
    case joinRefused(SessionID, serial: UInt32, StreamRefusal)
    /// The event at that offset, for the stream's subscribers under that name, and the place for its compressed forms.
    case event(StreamName, offset: Int64, SharedBytes, FrameVariants?)
    /// The stream continues at that position, and the events between are lost.
    case reset(StreamName, StreamPosition, ResumeLoss)
    /// The answer to a session that asked for an ordinary channel.
    indirect case answer(ChannelAnswer)
    /// A frame for an ordinary channel's subscribers except one, and the place for its compressed forms. `isEvent`: a
    /// backend or a client sent it; otherwise it tells of subscribers coming and going.
    indirect case publish(ChannelKey, SharedBytes, except: Exclusion?, FrameVariants?, isEvent: Bool)
    case users([UserNews])
}

/// What passes between loops and owners.
enum OwnerMessage: Sendable {
    /// To an owner on the receiving loop, from loop `from`.
    case request(OwnerRequest, from: Int)
    /// From an owner, to the receiving loop.
    case news(OwnerNews)
}

/// What a message counts for while it is between two loops.
enum MessageLoad {
    /// An event of a stream: the feed waits while there are many.
    case event
    /// Something of the app with that index: its backend and clients wait while there are many.
    case app(Int)
}

extension OwnerMessage {
    /// Nil where nobody can be held back.
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
