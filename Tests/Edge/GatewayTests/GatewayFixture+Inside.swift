import Clock
import Feed
import HTTP
import HubEngine
import Identity
import Metrics
import Store
import TestHub
import WebSocket

@testable import Gateway

struct NoRoutes: HTTPRoutes {
    func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse? { .problem(.notFound, "Nothing.") }
}

extension GatewayFixture {
    /// A gateway with the test's own routes.
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

    var accepted: UInt64 { metrics.arrivals.accepted.count }
    var connections: Int { metrics.connections.level }

    /// Closes all connections of the user; returns when all loops have confirmed.
    func terminate(_ user: String, of app: App) async {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(
                .ask { loop in
                    let answer = { @Sendable in continuation.resume() }
                    if loop.directory.terminate(user, of: app, answer) != nil { continuation.resume() }
                })
        }
    }

    /// The result of `body` on the first loop.
    func inLoop<Result: Sendable>(_ body: @escaping @Sendable (ClientLoop) -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(.ask { continuation.resume(returning: body($0)) })
        }
    }
}

extension ClientLoop {
    /// Connections open now or until just now.
    var connections: [ClientConnection] {
        var found: [ClientConnection] = []
        loop.forEachConnection { found.append($0) }
        return found
    }
}

/// A connection's progress: its machine's state and its own in one word.
enum Phase {
    case securing, http, awaitingAnswer, open, awaitingToken, draining, closing, finishing, departed, gone
}

/// Whether a WebSocket waits for its turn; with `last`, its socket accepts nothing any more.
enum Turn {
    case none, coming, last
}

extension ClientConnection {
    var phase: Phase {
        guard isAdded else { return .gone }
        switch transport.state {
        case .securing: return .securing
        case .finishing: return .finishing
        case .shut: return .departed
        case .open: break
        }
        switch webSocket?.state {
        case .open(.afterPause): return .awaitingToken
        case .open: return .open
        case .draining: return .draining
        case .closing, .over: return .closing
        case nil: return conversation?.isWaited == true ? .awaitingAnswer : .http
        }
    }

    var output: WriteQueue { transport.output }
    var descriptor: Int32 { transport.descriptor }

    func slow() { owner.slowReaders.close(self) }
    func dropUnfinished() { owner.budget.dropUnfinished(self) }

    var turn: Turn {
        guard webSocket?.awaitsTurn == true else { return .none }
        return transport.isBroken ? .last : .coming
    }

    var awaitsPong: Bool {
        get { webSocket?.isPinged == true }
        set { webSocket?.isPinged = newValue }
    }

    /// When the unfinished message began; `never` if there is none.
    var messageSince: Instant {
        get { webSocket?.unfinished?.since ?? Self.never }
        set { webSocket?.unfinished?.since = newValue }
    }
}

extension PullProgress {
    init(_ connection: ClientConnection, at now: Instant) { self.init(connection.transport, at: now) }
}
