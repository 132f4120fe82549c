/// What a shard of ordinary channels wants done, in order.
package enum ChannelEffect: Sendable {
    /// Send the answer to the loop.
    case answer(loop: Int, ChannelAnswer)
    /// Send the messages to the channel's subscribers on each loop of the set, except one. `isEvent`: a backend or a
    /// client sent it; otherwise it tells of subscribers coming and going.
    case broadcast(loops: LoopSet, ChannelKey, Broadcast, except: Exclusion?, isEvent: Bool)
    /// Tell the app's backend.
    case webhook(App, WebhookEvent)
    /// The reply to what was asked by `ask`, with the number that it got.
    case reply(UInt64, ChannelReply)
}
