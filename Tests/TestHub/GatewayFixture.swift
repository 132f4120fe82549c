import Clock
import Feed
import Foundation
import Gateway
import HubEngine
import Identity
import JWTKit
import Logging
import Metrics
import Pusher
import Reactor
import Store
import Sync

// TestHub: a hub for tests of its edge, with clients, on real sockets. It uses only the gateway's package interface;
// helpers that look inside are beside the tests.

/// A running gateway on a port chosen by the kernel. It has no database unless asked for.
package final class GatewayFixture {
    package let gateway: Gateway
    private var hasEnded = false
    private let sink: Locked<FeedSink?>
    /// What hubs share, where that is elsewhere.
    package let state: SlowState?
    private let group = RedisState.group
    package let metrics: GatewayMetrics
    package let credentials = AppCredentials(key: "key", secret: "secret")
    package static let tokenSecret = "a secret of thirty-two bytes, at least"

    package var port: UInt16 { gateway.port }

    /// - Parameters:
    ///   - ownsDatabase: users are known, though no feed answers for their streams.
    ///   - feed: the feed to run; `feed(_:)` injects outputs as if they came from it.
    ///   - knowsRevocations: the feed reports at once that all revocations are known.
    ///   - actions: where actions are sent.
    ///   - webhooks: receives the webhook events.
    ///   - toll: holds up each token before it is verified.
    ///   - routes: creates the HTTP routes.
    package init(
        loops: Int = 2, ownsDatabase: Bool = false, feed: FeedConfiguration? = nil, knowsRevocations: Bool = true,
        actions: StoreConfiguration? = nil, metrics: GatewayMetrics = GatewayMetrics(),
        webhooks: (any WebhookSink)? = nil,
        toll: Toll? = nil, routes: (GatewayConfiguration, TokenVerifier) -> any HTTPRoutes,
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws {
        var configuration = GatewayConfiguration()
        configuration.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0))]
        configuration.loops = loops
        configuration.apps = [App(id: "1", credentials: credentials, index: 0, ownsDatabase: ownsDatabase)]
        // Clients that tests leave behind answer no close frame.
        configuration.timeouts.close = .milliseconds(200)
        // Tests connect, leave and send faster than people.
        configuration.admission.addressConnectsPerSecond = 0
        configuration.admission.strangerRequestsPerSecond = 0
        configuration.admission.userStreamsPerSecond = 0
        configuration.limits.messagesPerSecond = 0
        configuration.limits.controlFramesPerSecond = 0
        // A busy machine must not look like a slow client or a slow hub.
        configuration.timeouts.handshake = .seconds(600)
        configuration.timeouts.answer = .seconds(600)
        configuration.timeouts.message = .seconds(600)
        configuration.timeouts.keepAlive = .seconds(600)
        change(&configuration)
        let state = SlowState.isWanted ? SlowState(configuration) : nil
        self.state = state
        let redis = RedisState.isWanted || RedisState.group != nil ? try RedisState.make(configuration) : nil
        configuration.sharedLink = state ?? redis
        var policy = TokenPolicy()
        policy.secret = Self.tokenSecret
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        // The clock is read if there is a key file.
        if toll != nil {
            let file = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID().uuidString).json")
            try Data(#"{"keys":[]}"#.utf8).write(to: file)
            policy.keySetFile = file.path
        }
        defer { if let file = policy.keySetFile { try? FileManager.default.removeItem(atPath: file) } }
        let verifier = try await TokenVerifier(policy: policy, logger: logger) {
            toll?.pass()
            return Instant.read()
        }
        let sink = Locked<FeedSink?>(nil)
        self.sink = sink
        self.metrics = metrics
        gateway = try Gateway(
            configuration, verifier: verifier, routes: routes(configuration, verifier), webhooks: webhooks,
            metrics: metrics,
            startFeed: feed.map { configuration in
                { given in
                    sink.withLock { $0 = given }
                    return try Feed.start(configuration, sink: given, logger: logger)
                }
            },
            startStore: actions.map { configuration in
                { committed in try Store.start(configuration, logger: logger, committed: committed) }
            })
        // Until then, publishes are refused.
        while let redis, redis.metrics.connections.level < loops { try await Task.sleep(for: .milliseconds(2)) }
        if knowsRevocations { self.feed([.revocationsCurrent(true)]) }
    }

    deinit {
        if !hasEnded { gateway.stop() }
        state?.end()
    }

    /// A feed of that database, or of one that is never found and reports no outage, since a busy machine may take seconds
    /// to connect.
    package static func feed(of database: String = "host=/nowhere dbname=nothing") -> FeedConfiguration {
        var configuration = FeedConfiguration(connectionString: database)
        configuration.degradedAfter = .seconds(3600)
        return configuration
    }

    /// Injects outputs as if from a feed.
    package func feed(_ outputs: [FeedOutput]) {
        sink.withLock { $0 }?.deliver(outputs)
    }

    /// Stops the gateway on a thread that may block; the task ends when it has stopped.
    package func end(hasSuccessor: Bool = false) -> Task<Void, Never> {
        hasEnded = true
        let gateway = gateway
        return Task {
            await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    gateway.stop(hasSuccessor: hasSuccessor)
                    continuation.resume()
                }
            }
        }
    }

    package static func token(
        _ user: String, expiresAt: Double = 4_000_000_000, issuedAt: Double? = nil, secret: String = tokenSecret
    ) async throws -> String {
        let keys = await JWTKeyCollection().add(hmac: HMACKey(stringLiteral: secret), digestAlgorithm: .sha256)
        return try await keys.sign(TestClaims(sub: user, exp: expiresAt, iat: issuedAt))
    }
}

extension MetricSource {
    /// Its `/metrics` text.
    package var text: String {
        var exposition = Exposition()
        append(to: &exposition)
        return String(decoding: exposition.bytes, as: UTF8.self)
    }
}

private struct TestClaims: JWTPayload {
    let sub: String
    let exp: Double
    let iat: Double?

    func verify(using algorithm: some JWTAlgorithm) async throws {}
}
