import API
import Channels
import Foundation
import Identity
import JWTKit
import Logging
import Metrics
import Pusher
import Reactor
import Store
import Sync

@testable import Feed
@testable import Gateway

/// A running gateway, without a database but for what is asked for, on a port of the kernel's choice.
final class GatewayFixture {
    let gateway: Gateway
    private var hasEnded = false
    private let sink: Locked<FeedSink?>
    private let metrics: GatewayMetrics
    let credentials = AppCredentials(key: "key", secret: "secret")
    static let tokenSecret = "a secret of thirty-two bytes, at least"

    var port: UInt16 { gateway.port }
    /// Connections taken in so far.
    var accepted: UInt64 { metrics.accepted.count }
    /// Connections that are there.
    var connections: Int { metrics.connections.level }

    /// - Parameters:
    ///   - ownsDatabase: users are known, though no feed answers for their streams.
    ///   - feed: the feed that runs; what `feed` is given comes as from it.
    ///   - knowsRevocations: the feed says at once that all of them are known.
    ///   - actions: where their actions go.
    ///   - routes: in place of the hub's.
    ///   - webhooks: gets what apps' backends are told.
    ///   - toll: what each token passes before it is looked at.
    init(
        loops: Int = 2, ownsDatabase: Bool = false, feed: FeedConfiguration? = nil, knowsRevocations: Bool = true,
        actions: StoreConfiguration? = nil, metrics: GatewayMetrics = GatewayMetrics(), routes: (any HTTPRoutes)? = nil,
        webhooks: (any WebhookSink)? = nil, toll: Toll? = nil,
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws {
        var configuration = GatewayConfiguration()
        configuration.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0))]
        configuration.loops = loops
        configuration.apps = [App(id: "1", credentials: credentials, index: 0, ownsDatabase: ownsDatabase)]
        // Clients that tests leave behind answer no close frame.
        configuration.timeouts.close = .milliseconds(200)
        // Tests come, go and speak faster than people.
        configuration.limits.addressConnectsPerSecond = 0
        configuration.limits.messagesPerSecond = 0
        configuration.limits.controlFramesPerSecond = 0
        // A busy machine must not look like a slow client, or a slow hub.
        configuration.timeouts.handshake = .seconds(60)
        configuration.timeouts.answer = .seconds(60)
        configuration.timeouts.message = .seconds(600)
        change(&configuration)
        var policy = TokenPolicy()
        policy.secret = Self.tokenSecret
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        // The clock is read where there is a file of keys.
        if toll != nil {
            let file = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID().uuidString).json")
            try Data(#"{"keys":[]}"#.utf8).write(to: file)
            policy.keySetFile = file.path
        }
        defer { if let file = policy.keySetFile { try? FileManager.default.removeItem(atPath: file) } }
        let verifier = try await TokenVerifier(policy: policy, logger: logger) {
            toll?.pass()
            return ContinuousClock.now
        }
        let users = ownsDatabase ? HubRoutes.OfUsers(app: configuration.apps[0], verifier: verifier) : nil
        let sink = Locked<FeedSink?>(nil)
        self.sink = sink
        self.metrics = metrics
        gateway = try Gateway(
            configuration, verifier: verifier,
            routes: routes ?? HubRoutes(pusher: PusherRoutes(), users: users, origins: configuration.origins),
            webhooks: webhooks, metrics: metrics,
            startFeed: feed.map { configuration in
                { given in
                    sink.withLock { $0 = given }
                    return try Feed.start(configuration, sink: given, logger: logger)
                }
            },
            startStore: actions.map { configuration in
                { committed in try Store.start(configuration, logger: logger, committed: committed) }
            })
        if knowsRevocations { self.feed([.revocationsCurrent(true)]) }
    }

    deinit {
        if !hasEnded { gateway.stop() }
    }

    /// A feed that never finds its database, and does not say so.
    static let feedOfNothing = {
        var configuration = FeedConfiguration(connectionString: "host=/nowhere dbname=nothing")
        configuration.degradedAfter = .seconds(3600)
        return configuration
    }()

    /// Hands over what a feed would.
    func feed(_ outputs: [FeedOutput]) {
        sink.withLock { $0 }?.deliver(outputs)
    }

    /// Stops the gateway, on a thread that may wait; the task ends when it has.
    func end() -> Task<Void, Never> {
        hasEnded = true
        let gateway = gateway
        return Task {
            await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    gateway.stop()
                    continuation.resume()
                }
            }
        }
    }

    static func token(
        _ user: String, expiresAt: Double = 4_000_000_000, issuedAt: Double? = nil, secret: String = tokenSecret
    ) async throws -> String {
        let keys = await JWTKeyCollection().add(hmac: HMACKey(stringLiteral: secret), digestAlgorithm: .sha256)
        return try await keys.sign(TestClaims(sub: user, exp: expiresAt, iat: issuedAt))
    }
}

extension MetricSource {
    /// What `/metrics` shows of it.
    var text: String {
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
