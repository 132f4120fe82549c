import Bytes
import Metrics
import Pusher
import Sync

/// What a loop's engine wants done for the session of an input. In order.
package enum Effect {
    /// Answer its ping.
    case pong
    /// Send it messages that nobody else gets.
    case send(Messages)
    /// Send it messages that others get too; the sink's form of them is made once.
    case share(SharedMessages)
    /// Like `share`, without compression: the request costs the client a short message, and it may repeat it.
    case queue(SharedMessages)
    /// Have the token verified while the session's input is paused. Report by `SessionEngine.authenticated` or
    /// `Identities.rejected`.
    case verify(token: String)
    /// Have the user's action applied, and report by `ActionGate.answered`.
    indirect case act(ActionEnvelope, user: String)
    /// Have `Identities.due` called after that time: the identity, or the time to show one, may end.
    case watchIdentity(after: Duration)
    /// Tell the shards of these users, each its own requests, in order.
    case users([UserRequest])
    /// Tell it how long to stay away if its connection breaks.
    case tellBackoff
    /// Close the connection with that code. The last effect of an input.
    case close(ErrorCode)
    /// Ask the stream's shard to let this session in, or for what it missed.
    case join(StreamJoin)
    /// Tell the stream's shard that this session awaits nothing more under this name. Others of this loop are still in it.
    case forget(StreamName)
    /// Tell the stream's shard that this loop has no subscriber left under this name.
    case leave(StreamName)
    /// Send the request to that ordinary channel's shard.
    indirect case request(ChannelRequest)
}

extension ContiguousArray<Effect> {
    /// The client's message is of no use. The connection stays open.
    mutating func complain(_ message: StaticString) {
        append(.send(.error(message)))
    }

    /// A subscribe is refused for good.
    mutating func refuse(_ name: ChannelName, _ refusal: SubscriptionRefusal, _ metrics: EngineMetrics) {
        if let reason = refusal.authFailure { metrics.authFailures[reason].add() }
        append(.send(.refused(name, refusal)))
    }

    /// A subscribe to a stream is refused for good. A position that the client named in it is answered too.
    mutating func refuse(
        _ stream: StreamName, _ refusal: SubscriptionRefusal, owed position: StreamPosition?, _ metrics: EngineMetrics
    ) {
        append(.send(.refused(stream, refusal)))
        if let position { lose(.stream(stream), at: position, .storeUnavailable, metrics) }
    }

    /// The events after a position that a client named cannot be had. The channel continues at `position`.
    mutating func lose(
        _ channel: ChannelLabel, at position: StreamPosition, _ loss: ResumeLoss, _ metrics: EngineMetrics
    ) {
        metrics.lost(loss)
        append(.send(.resumed(channel, at: position, lost: loss)))
    }
}
