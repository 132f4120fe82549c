import Gateway
import HubEngine
import Logging
import Reactor
import Redis
import Shared
import TestRedis

/// What hubs share, in a real Redis: one server for all tests, where each hub has keys of its own.
package enum RedisState {
    /// Within a test that runs once more with it (`SlowStateTrait`).
    @TaskLocal package static var isWanted = false

    /// The hubs of a test that share a state.
    package struct Group: Sendable {
        let name: String
        let server: RedisServer

        let settling: Duration

        /// Of that server, which lives as long as they do.
        ///
        /// - Parameter settling: how long hubs have to say what they hold.
        package init(_ name: String, on server: RedisServer, settling: Duration) {
            (self.name, self.server, self.settling) = (name, server, settling)
        }
    }

    /// Within it, hubs are of this group.
    @TaskLocal package static var group: Group?

    private static let server = Result { try RedisServer() }
    private static let lastName = Locked(0)

    /// For a hub of that configuration.
    static func make(_ configuration: GatewayConfiguration) throws -> SharedRedis {
        let url = try RedisURL("redis://127.0.0.1:\(group?.server.port ?? server.get().port)")
        var settings = SharedSettings(RedisSettings(url))
        settings.name = lastName.withLock {
            $0 += 1
            return group?.name ?? "hub\($0)"
        }
        // Where a test's hubs begin with an empty Redis, nobody holds anything; where it is emptied, they do.
        settings.settling = group?.settling ?? .zero
        settings.limits = configuration.shardLimits
        return SharedRedis(
            settings, metrics: SharedRedisMetrics(),
            Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }
}
