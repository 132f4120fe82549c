/// What a hub asks of, and tells, a state elsewhere that all hubs share. It may be lost: nobody waits for ever.
package enum SharedRequest: Sendable {
    /// About ordinary channels. The reply comes as `ChannelNews`.
    case channel(SentChannelCall)
    /// The hub wants to hear of changes of the channel from now on.
    case follow(ChannelKey)
    /// It does not any more.
    case unfollow(ChannelKey)
    /// About users. What follows comes as `SharedUserNews`.
    case user(SentUserCall)
    /// To all other hubs.
    case command(HubCommand)
    /// The loop ends: nothing of it is asked or told any more. Answered by `SharedArrival.ended`.
    case end
}
