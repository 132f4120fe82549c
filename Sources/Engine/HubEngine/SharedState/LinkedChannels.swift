import Clock

/// The way to a state of ordinary channels that is in another process: calls leave as values, and what the state tells comes
/// back later, as bytes (`ChannelShard.received`).
package final class LinkedChannels: SharedChannels {
    /// This run of the hub, as the state knows it.
    package let hub: HubID
    /// The apps of the shard, by which bytes name them.
    package let apps = KnownApps()
    let send: (SharedRequest) -> Void

    /// - Parameter send: sends what the shard asks and tells. The state takes it in that order, if at all.
    package init(as hub: HubID, _ send: @escaping (SharedRequest) -> Void) {
        self.hub = hub
        self.send = send
    }

    /// Sends the call (`SharedChannels`). The reply never comes at once.
    package func call(
        _ call: ChannelCall, _ number: UInt64, from hub: HubID, now: Instant, _ news: inout ContiguousArray<ChannelNews>
    ) -> ChannelReply? {
        send(.channel(SentChannelCall(call, number, from: hub)))
        return nil
    }

    /// Others see to what is due.
    package var nextDue: Instant? { nil }
}
