import API
import Feed
import Gateway
import HubEngine
import Store
import TestHub

extension GatewayFixture {
    /// A gateway with the hub's routes, or with the given ones.
    convenience init(
        loops: Int = 2, ownsDatabase: Bool = false, feed: FeedConfiguration? = nil, knowsRevocations: Bool = true,
        actions: StoreConfiguration? = nil, metrics: GatewayMetrics = GatewayMetrics(), routes: (any HTTPRoutes)? = nil,
        table: RouteTable = .product, pusher: PusherRoutes = PusherRoutes(),
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws {
        try await self.init(
            loops: loops, ownsDatabase: ownsDatabase, feed: feed, knowsRevocations: knowsRevocations, actions: actions,
            metrics: metrics,
            routes: { configuration, verifier in
                let users = ownsDatabase ? HubRoutes.OfUsers(app: configuration.apps[0], verifier: verifier) : nil
                return routes
                    ?? HubRoutes(pusher: pusher, users: users, table: table, origins: configuration.origins)
            }, change)
    }
}
