import Clock

/// The state of ordinary channels that all hubs share: who is in a channel, the last event of cache channels, whether a
/// channel is occupied, what backends were told, and the order of all of that. One bucket of channels.
///
/// Its versions pass one suite of tests (`SharedChannelsTests`). Callers cannot tell which one they ask, but by time.
package protocol SharedChannels: AnyObject {
    /// Carries out the call. What follows from it is appended to `news`, in the state's order; the changes up to the reply's
    /// sequence were decided before the reply.
    ///
    /// - Parameters:
    ///   - number: of the call, the caller's own.
    /// - Returns: the reply; nil: it comes by `ChannelNews.reply`, or never.
    func call(
        _ call: ChannelCall, _ number: UInt64, from hub: HubID, now: Instant, _ news: inout ContiguousArray<ChannelNews>
    ) -> ChannelReply?

    /// When `ChannelCall.due` has work; nil if nothing waits, or others see to it.
    var nextDue: Instant? { get }
}

/// Where the state is.
enum SharedChannelsVersion {
    case memory(MemoryChannels)
    case linked(LinkedChannels)

    var memory: MemoryChannels? { if case .memory(let memory) = self { memory } else { nil } }
}

/// The reply to a question.
package enum ChannelAsked: Sendable {
    case reply(ChannelReply)
    /// `ChannelShard.Effect.reply` with this number brings it.
    case later(UInt64)
}
