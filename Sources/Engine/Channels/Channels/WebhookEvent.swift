import Pusher

/// What an app's backend can be told of by a webhook (Pusher's "Webhooks").
package enum WebhookEvent: Sendable, Equatable {
    case channelOccupied(ChannelName)
    case channelVacated(ChannelName)
    case memberAdded(ChannelName, userID: String)
    case memberRemoved(ChannelName, userID: String)
    /// `data` is the client's text as other clients get it; `userID` where the channel is a presence channel.
    case clientEvent(ChannelName, name: String, data: [UInt8], socketID: SocketID, userID: String?)
    case cacheMiss(ChannelName)
    case subscriptionCount(ChannelName, Int)

    package var kind: WebhookKinds {
        switch self {
        case .channelOccupied, .channelVacated: .channelExistence
        case .memberAdded, .memberRemoved: .presence
        case .clientEvent: .clientEvents
        case .cacheMiss: .cacheChannels
        case .subscriptionCount: .subscriptionCount
        }
    }
}

/// The kinds that a webhook can be set up for, as Pusher groups them.
package struct WebhookKinds: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `channel_occupied`, `channel_vacated`.
    package static let channelExistence = WebhookKinds(rawValue: 1)
    /// `member_added`, `member_removed`.
    package static let presence = WebhookKinds(rawValue: 2)
    /// `client_event`.
    package static let clientEvents = WebhookKinds(rawValue: 4)
    /// `cache_miss`.
    package static let cacheChannels = WebhookKinds(rawValue: 8)
    /// `subscription_count`.
    package static let subscriptionCount = WebhookKinds(rawValue: 16)

    /// Each as Pusher calls it.
    package static let names: [(name: String, kind: WebhookKinds)] = [
        ("channel_existence", .channelExistence), ("presence", .presence), ("client_events", .clientEvents),
        ("cache_channels", .cacheChannels), ("subscription_count", .subscriptionCount),
    ]
}

/// Where webhooks go. Safe from any thread, and never waits.
package protocol WebhookSink: Sendable {
    /// Has the app's backend told. Dropped, and counted, where the queue is full or nobody wants it.
    func post(_ event: WebhookEvent, of app: App)
}
