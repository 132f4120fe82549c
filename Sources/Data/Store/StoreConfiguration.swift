import Clock
import Postgres

/// Connections for routes that not every hub has.
package struct RouteConnections: Sendable, Equatable {
    /// Additional reading connections; as many may be leased for exports. 0...4.
    package var exports = 0
    /// Connections that write what clients append. 0 or 1.
    package var appends = 0

    /// Connections of each kind; none by default.
    package init(exports: Int = 0, appends: Int = 0) {
        (self.exports, self.appends) = (exports, appends)
    }
}

/// The settings of a store.
package struct StoreConfiguration: Sendable {
    /// The hub's connection string; its role must be allowed to execute the hub functions.
    package var connectionString: String
    /// Writing connections, and so the transactions that run at a time. 1...64.
    package var connections = 4
    /// Connections that read snapshots. 1...16.
    package var queryConnections = 2
    /// Connections that only some routes need.
    package var routes = RouteConnections()
    /// Actions in flight on one connection. 1...64.
    package var depth = 8
    /// How long an action may wait for another writer's lock.
    package var lockTimeout = Duration.milliseconds(300)
    /// How long one action or snapshot may take in the database.
    package var statementTimeout = Duration.seconds(5)
    /// How long connecting may take.
    package var connectTimeout = Duration.seconds(10)
    /// The time from `submit` or `ask` to an answer; an undecided request is then answered `retry` or `unavailable`.
    package var actionTimeout = Duration.seconds(10)
    /// That time for actions that were sent together: their client waits for the last one's answer.
    package var chainTimeout = Duration.seconds(5)
    /// The shortest time between two wake-ups of the other hubs.
    package var announceInterval = Duration.milliseconds(5)
    /// Actions that may wait, of all users.
    package var waitingMax = StoreLimits.waitingMax
    /// Actions that may wait, of one user.
    package var waitingPerUserMax = StoreLimits.waitingPerUserMax
    /// Bytes of actions that may wait, of all users.
    package var waitingBytesMax = StoreLimits.waitingBytesMax
    /// How fast one user may send.
    package var userRate = Rate(perSecond: 100, burst: 1_000)
    /// How fast one device may send.
    package var deviceRate = Rate(perSecond: 50, burst: 500)
    #if DEBUG
    /// What happens at failpoints.
    package var failpoints: Failpoints?
    #endif

    /// The defaults, for the database of a libpq connection string.
    package init(connectionString: String) {
        self.connectionString = connectionString
    }
}
