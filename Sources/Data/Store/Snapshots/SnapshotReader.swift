import Clock
import Logging
import Postgres
import Reactor

/// One connection that reads snapshots: a pipeline of questions, and what is under way on it.
final class SnapshotReader {
    /// What a reader tells its desk. The closures must not keep it alive.
    struct Handlers {
        /// Questions may be sent.
        let up: () -> Void
        /// The database's answer to a question, which is no longer under way here.
        let answered: (SnapshotReader, SnapshotRead, Result<Rows, PostgresError>) -> Void
        /// The connection is gone, or was not to be had, with what was under way.
        let lost: ([SnapshotRead]) -> Void
    }

    private let statementTimeout: Duration
    private let handlers: Handlers
    private var slot: ConnectionSlot?
    private var inFlight: ContiguousArray<SnapshotRead> = []
    /// Whether questions may be sent.
    private(set) var isUp = false

    /// - Parameter number: what logs call it.
    init(
        _ number: Int, _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: StoreConfiguration,
        _ logger: Logger, _ meter: ConnectionMeter, _ handlers: Handlers
    ) throws(ReactorError) {
        statementTimeout = configuration.statementTimeout
        self.handlers = handlers
        slot = try ConnectionSlot(
            "reading connection \(number)", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, depth: StoreLimits.snapshotDepth, logger: logger,
            meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.opened() }, lost: { [weak self] in self?.wasLost() }))
    }

    /// Questions under way.
    var underWay: ContiguousArray<SnapshotRead> { inFlight }

    func start() {
        slot?.connect()
    }

    func send(_ read: SnapshotRead) {
        inFlight.append(read)
        guard let connection = slot?.connection else { return wasLost() }
        connection.execute(read.function.statement, read.parameters, timeout: timeout) { [weak self] answer in
            self?.answered(read, answer)
        }
    }

    /// Ends the connection; another follows. `lost` is called with what was under way, `read` first.
    func drop(_ error: PostgresError, with read: SnapshotRead) {
        inFlight.insert(read, at: 0)
        slot?.drop(error)
    }

    // MARK: Calls of the slot

    /// REPEATABLE READ, so that whatever a statement calls sees one snapshot.
    private func opened() {
        slot?.need(
            """
            SELECT set_config('default_transaction_isolation', 'repeatable read', false),
                set_config('default_transaction_read_only', 'on', false),
                set_config('statement_timeout', $1, false), set_config('idle_session_timeout', '0', false),
                set_config('sync.lineage', '', false)
            """,
            ["\(max(1, statementTimeout.wholeMilliseconds))ms"], timeout: timeout,
            done: { [weak self] _ in self?.established() })
    }

    private func established() {
        isUp = true
        slot?.established()
        handlers.up()
    }

    private func answered(_ read: SnapshotRead, _ answer: Result<Rows, PostgresError>) {
        // Answers come in the order in which questions were sent.
        guard inFlight.first === read else {
            if !inFlight.contains(where: { $0 === read }) { inFlight.insert(read, at: 0) }
            slot?.drop(.outOfTurn)
            return
        }
        inFlight.removeFirst()
        handlers.answered(self, read, answer)
    }

    private func wasLost() {
        isUp = false
        let lost = Array(inFlight)
        inFlight = []
        handlers.lost(lost)
    }

    /// The server's own timeout comes first and says so; ours is for a server that says nothing.
    private var timeout: Duration { statementTimeout + .seconds(1) }
}

extension PostgresError {
    fileprivate static let outOfTurn = PostgresError(.unexpectedResult, "a question was answered out of its turn")
}
