import Channels
import Feed
import HTTP
import Identity
import Metrics
import Store
import TestHub

@testable import Gateway

/// Finds nothing, whatever is asked for.
struct NoRoutes: HTTPRoutes {
    func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse? { .problem(.notFound, "Nothing.") }
}

extension GatewayFixture {
    /// A gateway with routes of the test's own.
    convenience init(
        loops: Int = 2, ownsDatabase: Bool = false, feed: FeedConfiguration? = nil, actions: StoreConfiguration? = nil,
        metrics: GatewayMetrics = GatewayMetrics(), routes: any HTTPRoutes = NoRoutes(),
        webhooks: (any WebhookSink)? = nil, toll: Toll? = nil,
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws {
        try await self.init(
            loops: loops, ownsDatabase: ownsDatabase, feed: feed, actions: actions, metrics: metrics,
            webhooks: webhooks, toll: toll, routes: { _, _ in routes }, change)
    }

    /// Connections taken in so far.
    var accepted: UInt64 { metrics.accepted.count }
    /// Connections that are there.
    var connections: Int { metrics.connections.level }

    /// Has all of the user's connections closed; returns when all loops have said that they are.
    func terminate(_ user: String, of app: App) async {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(
                .ask { loop in
                    let answer = { @Sendable in continuation.resume() }
                    if loop.directory.terminate(user, of: app, answer) != nil { continuation.resume() }
                })
        }
    }

    /// What `body` finds on the first loop.
    func inLoop<Result: Sendable>(_ body: @escaping @Sendable (ClientLoop) -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(.ask { continuation.resume(returning: body($0)) })
        }
    }
}

extension ClientLoop {
    /// All that are open or were until now.
    var connections: [Connection] {
        var found: [Connection] = []
        loop.forEachSource { source in
            if let connection = source as? Connection { found.append(connection) }
        }
        return found
    }
}
