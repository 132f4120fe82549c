import Bytes
import Metrics
import Pusher
import Sync

/// What a loop's hub wants done for the session that an input was about. In order.
package enum Effect {
    /// Answer its ping.
    case pong
    /// Tell it the messages, which nobody else gets.
    case send(Messages)
    /// Tell it the messages, which others get too: what is made of them to send them is made once.
    case share(SharedMessages)
    /// The same with no work on them to make them smaller: they cost it a short message, and it may ask again and again.
    case queue(SharedMessages)
    /// Have the token verified, the session's input paused meanwhile, and report by `Hub.authenticated` or `Hub.rejected`.
    case verify(token: String)
    /// Have the user's action applied, and report by `Hub.answered`.
    indirect case act(ActionEnvelope, user: String)
    /// The session's identity ends: have `Identities.due` called after that time.
    case watchIdentity(after: Duration)
    /// Tell the homes of these users, each what concerns it, in order.
    case users([UserRequest])
    /// Close the connection with that code. The last effect of an input.
    case close(ErrorCode)
    /// Ask the stream's home loop: to take this session in, or for what it missed.
    case join(StreamJoin)
    /// Tell the stream's home loop that this session awaits nothing more under this name; others of this loop are in it.
    case forget(StreamName)
    /// Tell the stream's home loop that this loop has nobody left under this name.
    case leave(StreamName)
    /// Tell the home of that ordinary channel.
    indirect case request(ChannelRequest)
}

extension ContiguousArray<Effect> {
    /// What the client has said is of no use; the connection stays.
    mutating func complain(_ message: StaticString) {
        append(.send(.error(message)))
    }

    /// A subscribe is refused for good.
    mutating func refuse(_ name: ChannelName, _ refusal: SubscriptionRefusal, _ metrics: EngineMetrics) {
        if let reason = refusal.authFailure { metrics.authFailures[reason].add() }
        append(.send(.refused(name, refusal)))
    }

    /// A subscribe to a stream is refused for good. A place that the client named in it is answered, too.
    mutating func refuse(
        _ stream: StreamName, _ refusal: SubscriptionRefusal, owed position: StreamPosition?, _ metrics: EngineMetrics
    ) {
        append(.send(.refused(stream, refusal)))
        if let position { lose(.stream(stream), at: position, .storeUnavailable, metrics) }
    }

    /// What lies behind the place that a client named cannot be had; the channel goes on at `position`.
    mutating func lose(
        _ channel: ChannelLabel, at position: StreamPosition, _ loss: ResumeLoss, _ metrics: EngineMetrics
    ) {
        metrics.lost(loss)
        append(.send(.resumed(channel, at: position, lost: loss)))
    }
}
