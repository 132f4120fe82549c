/// The engine's bounds. Each is tested at the bound and one past it.
package struct ChannelLimits: Sendable {
    /// Channels that one connection may be subscribed to. Pusher's own figure.
    package var subscriptionsPerSessionMax = 100
    /// Guarded subscribes that one connection may have waiting for its identity.
    package var parkedPerSessionMax = 20
    /// Actions that one connection may have unanswered; one more is answered `retry`.
    package var actionsPerSessionMax = 256

    package init() {}
}
