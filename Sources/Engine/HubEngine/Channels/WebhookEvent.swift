import Pusher

/// What a webhook can tell an app's backend (Pusher's "Webhooks").
package enum WebhookEvent: Sendable, Equatable {
    case channelOccupied(ChannelName)
    case channelVacated(ChannelName)
    case memberAdded(ChannelName, userID: String)
    case memberRemoved(ChannelName, userID: String)
    /// `data` is the client's text as other clients get it. `userID` is set in a presence channel.
    case clientEvent(ChannelName, name: String, data: [UInt8], socketID: SocketID, userID: String?)
    case cacheMiss(ChannelName)
    case subscriptionCount(ChannelName, Int)

    /// The kind that a webhook asks for to be told this event.
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

/// The kinds that a webhook can ask for, as Pusher groups them.
package struct WebhookKinds: OptionSet, Hashable, Sendable {
    /// One bit for each kind.
    package let rawValue: UInt8

    /// The kinds of these bits.
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

    /// Pusher's name for each kind.
    package static let names: [(name: String, kind: WebhookKinds)] = [
        ("channel_existence", .channelExistence), ("presence", .presence), ("client_events", .clientEvents),
        ("cache_channels", .cacheChannels), ("subscription_count", .subscriptionCount),
    ]
}

/// Where webhooks go. Any thread; never waits.
package protocol WebhookSink: Sendable {
    /// Tells the app's backend. Dropped, and counted, where the queue is full or no webhook asks for it.
    ///
    /// - Parameter receipt: kept until the event was delivered, or was dropped.
    func post(_ event: WebhookEvent, of app: App, _ receipt: WebhookReceipt?)

    /// So many events were dropped, and are counted: no hub serves their apps any more.
    func dropped(unserved count: Int)
}

/// Held by events on their way to backends. Once nobody holds it, `done` is called, on any thread.
package final class WebhookReceipt: Sendable {
    private let done: @Sendable () -> Void

    /// Nobody holds it yet.
    package init(_ done: @escaping @Sendable () -> Void) { self.done = done }

    deinit { done() }
}
