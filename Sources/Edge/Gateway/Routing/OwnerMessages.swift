import Bytes
import HubEngine
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
    /// The event at that offset, for the stream's subscribers under that name, and the store of its compressed forms.
    case event(StreamName, offset: Int64, SharedBytes, FrameVariants?)
    /// The stream continues at that position, and the events between are lost.
    case reset(StreamName, StreamPosition, ResumeLoss)
    /// The answer to a session that asked for an ordinary channel.
    indirect case answer(ChannelAnswer)
    /// A frame for an ordinary channel's subscribers except one, and the store of its compressed forms. `isEvent`: a
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

extension OwnerMessage {
    /// Counts the message while it is between two loops. The feed waits while there are many events of streams. An app's
    /// backend and clients wait while there is much of the app. For all other messages nobody can be held back.
    ///
    /// - Parameter isPosted: true when the message is posted, false when its mailbox has handed it out.
    func count(in metrics: GatewayMetrics, isPosted: Bool) {
        let app: Int?
        switch self {
        case .news(.event):
            return isPosted ? metrics.backlog.addBroadcast() : metrics.backlog.subtractBroadcast()
        case .news(.publish(let key, _, _, _, let isEvent)): app = isEvent ? key.app : nil
        case .news(.answer(let answer)): app = answer.appInBacklog
        case .request(.channel(let request), _): app = request.isInBacklog ? request.key.app : nil
        case .news(.joined), .news(.joinRefused), .news(.reset), .news(.users), .request: app = nil
        }
        guard let app else { return }
        if isPosted { metrics.publishes.add(of: app) } else { metrics.publishes.subtract(of: app) }
    }
}
