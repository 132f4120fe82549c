import Bytes
import Clock
import Logging
import Postgres
import Reactor

/// The questions for snapshots: users in turn, on connections of their own, so that no reader holds up an action, and
/// nobody whose questions are slow those of others. Belongs to the store's loop.
///
/// Each question is answered once, at its deadline at the latest. One that was lost with its connection is asked once more,
/// before the others: it changes nothing. Where it is known that the database is away, nothing waits for long.
///
/// Exports lease connections from here: as many as there are more on their account, so that questions have theirs.
final class SnapshotPool {
    private let loop: EventLoop
    private let timeout: Duration
    private let faults: FaultLog
    let pool: RequestPool
    /// Connections that may be leased at a time.
    let leasesMax: Int

    /// - Parameter changed: `pump` may have something to do.
    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ meter: ConnectionMeter, _ faults: FaultLog, changed: @escaping () -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.faults = faults
        timeout = configuration.actionTimeout
        leasesMax = max(0, min(configuration.routes.exports, StoreLimits.exportConnectionsMax))
        let count = leasesMax + max(1, min(configuration.queryConnections, StoreLimits.queryConnectionsMax))
        var settings = PoolSettings(
            connections: (1...count).map { ("reading connection \($0)", meter) }, depth: StoreLimits.snapshotDepth,
            connectTimeout: configuration.connectTimeout, statementTimeout: configuration.statementTimeout,
            // REPEATABLE READ, so that whatever a statement calls sees one snapshot.
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

    /// Takes a question.
    func ask(_ request: SnapshotRequest) {
        let deadline = loop.now.advanced(by: min(timeout, request.function.timeout ?? timeout))
        guard let read = SnapshotRead(request, deadline: deadline, self) else { return request.answer(.missing) }
        // At once: what is under way is no part of its user's share.
        if pool.append(read) { pool.pump() }
    }

    func pump() { pool.pump() }

    /// Answers all that is left, and what comes.
    func stop() {
        pool.stop()
        pool.abandon()
    }

    func failed(_ error: PostgresError) -> SnapshotAnswer {
        faults.tell(error)
        return unavailable
    }

    /// Those who wait come back spread over as long again.
    var unavailable: SnapshotAnswer {
        .unavailable(after: pool.pause(atLeast: .seconds(1)) * Double.random(in: 1...2))
    }
}
