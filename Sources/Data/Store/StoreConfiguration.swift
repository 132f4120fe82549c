import Clock
import Postgres

/// Connections beside those that every hub has.
package struct RouteConnections: Sendable, Equatable {
    /// More that read, of which so many may be leased for exports. 0...4.
    package var exports = 0
    /// On which is written what clients append. 0 or 1.
    package var appends = 0

    package init(exports: Int = 0, appends: Int = 0) {
        (self.exports, self.appends) = (exports, appends)
    }
}

/// The settings of a store.
package struct StoreConfiguration: Sendable {
    /// The hub's connection string; of a role that may execute the hub functions.
    package var connectionString: String
    /// Connections that write: as many transactions run at a time. 1...64.
    package var connections = 4
    /// Connections that read snapshots. 1...16.
    package var queryConnections = 2
    /// Connections that only some routes want.
    package var routes = RouteConnections()
    /// Actions sent ahead on one connection before the first of them is answered. 1...64.
    package var depth = 8
    /// How long an action may wait for a lock of another writer's.
    package var lockTimeout = Duration.milliseconds(300)
    /// How long one action or snapshot may take in the database.
    package var statementTimeout = Duration.seconds(5)
    /// How long connecting may take.
    package var connectTimeout = Duration.seconds(10)
    /// From `submit` or `ask` to an answer: what is not decided by then is answered `retry` or `unavailable`.
    package var actionTimeout = Duration.seconds(10)
    /// The shortest time from one wake-up of the other hubs to the next.
    package var announceInterval = Duration.milliseconds(5)
    /// Actions that may wait, of all users together.
    package var waitingMax = StoreLimits.waitingMax
    /// Actions that may wait, of one user.
    package var waitingPerUserMax = StoreLimits.waitingPerUserMax
    /// Bytes of actions that may wait, of all users together.
    package var waitingBytesMax = StoreLimits.waitingBytesMax
    /// Days after which events are deleted; 0 leaves that to somebody else.
    package var retainDays = 7
    /// Events deleted in one transaction.
    package var retainBatch = 1_000
    /// From the start to the first deletion, roughly.
    package var retainDelay = Duration.seconds(60)
    /// From one deletion to the next, roughly.
    package var retainInterval = Duration.seconds(3_600)
    /// How fast one user may send.
    package var userRate = Rate(perSecond: 100, burst: 1_000)
    /// How fast one device may send.
    package var deviceRate = Rate(perSecond: 50, burst: 500)
    #if DEBUG
    /// What happens at failpoints.
    package var failpoints: Failpoints?
    #endif

    package init(connectionString: String) {
        self.connectionString = connectionString
    }
}
