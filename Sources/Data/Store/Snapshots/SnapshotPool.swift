import Bytes
import Clock
import Logging
import Postgres
import Reactor

/// Answers snapshot requests, users in turn, on connections of its own: no reader delays an action, and slow requests of
/// one user do not delay others. Belongs to the store's loop.
///
/// Each request is answered once, at its deadline at the latest. A request lost with its connection is sent once more,
/// before the others, since it changes nothing. While the database is known to be away, nothing waits for long.
///
/// Exports lease connections from here. As many connections are added for them, so that requests keep theirs.
final class SnapshotPool {
    private let loop: EventLoop
    private let timeout: Duration
    private let faults: FaultLog
    let pool: RequestPool
    let leasesMax: Int

    /// - Parameter changed: `pump` may have something to do.
    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ meter: PostgresConnectionMetrics, _ faults: FaultLog, changed: @escaping () -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.faults = faults
        timeout = configuration.actionTimeout
        leasesMax = max(0, min(configuration.routes.exports, StoreLimits.exportConnectionsMax))
        let count = leasesMax + max(1, min(configuration.queryConnections, StoreLimits.queryConnectionsMax))
        var settings = PoolSettings(
            connections: (1...count).map { ("reading connection \($0)", meter) }, depth: StoreLimits.snapshotDepth,
            connectTimeout: configuration.connectTimeout, statementTimeout: configuration.statementTimeout,
            // REPEATABLE READ, so that everything a statement calls sees one snapshot.
            greeting: (
                """
                SELECT set_config('default_transaction_isolation', 'repeatable read', false),
                    set_config('default_transaction_read_only', 'on', false),
                    set_config('statement_timeout', $1, false), set_config('idle_session_timeout', '0', false),
                    set_config('sync.lineage', '', false)
                """, [configuration.statementTimeout.setting]
            ),
            kinds: [
                PoolSettings.Kind(
                    .init(count: StoreLimits.snapshotsMax, countOfKey: StoreLimits.snapshotsPerUserMax), isSerial: true)
            ], outages: .told, lossesMax: 1)
        settings.isOfReads = true
        settings.leasesMax = leasesMax
        pool = try RequestPool(loop, parameters, settings, logger, changed: changed)
        pool.start()
    }

    func ask(_ request: SnapshotRequest) {
        let deadline = loop.now.advanced(by: min(timeout, request.function.timeout ?? timeout))
        guard let read = SnapshotRead(request, deadline: deadline, self) else { return request.answer(.missing) }
        // At once, since requests in flight do not count in their user's share.
        if pool.append(read) { pool.pump() }
    }

    func pump() { pool.pump() }

    /// Answers all requests that are left, and all that follow.
    func stop() {
        pool.stop()
        pool.abandon()
    }

    func failed(_ error: PostgresError) -> SnapshotAnswer {
        faults.tell(error)
        return unavailable
    }

    /// Random, so that clients that wait come back spread over that time again.
    var unavailable: SnapshotAnswer {
        .unavailable(after: pool.pause(atLeast: .seconds(1)) * Double.random(in: 1...2))
    }
}
