import Clock
import Logging
import Postgres
import Reactor

/// One connection that writes: a pipeline of actions, and what is under way on it.
final class Writer {
    /// What a writer tells the store. The closures must not keep it alive.
    struct Handlers {
        /// Actions may be sent.
        let up: () -> Void
        /// The database's answer to an action, which is no longer under way here.
        let answered: (Writer, Action, Result<Rows, PostgresError>) -> Void
        /// The connection is gone, or was not to be had. The actions were under way: whether they were carried out is
        /// unknown.
        let lost: ([Action]) -> Void
        /// The wake-up of the other hubs is sent, or failed.
        let announced: (PostgresError?) -> Void
        /// A batch of old events is deleted: their number, or the failure.
        let retained: (Result<Rows, PostgresError>) -> Void
    }

    private static let announcement = PreparedStatement("SELECT sync.announce()")

    private let configuration: StoreConfiguration
    private let handlers: Handlers
    private var slot: ConnectionSlot?
    private var inFlight: ContiguousArray<Action> = []
    private var isAnnouncing = false
    private var isRetaining = false
    /// Why the connection is given up once nothing is under way on it.
    private var reasonToLeave: PostgresError?
    /// Whether actions may be sent.
    private(set) var isUp = false

    /// - Parameter number: what logs call it.
    init(
        _ number: Int, _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: StoreConfiguration,
        _ logger: Logger, _ meter: ConnectionMeter, _ handlers: Handlers
    ) throws(ReactorError) {
        self.configuration = configuration
        self.handlers = handlers
        slot = try ConnectionSlot(
            "writing connection \(number)", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, depth: configuration.depth, logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] in self?.opened($0) }, lost: { [weak self] in self?.wasLost() }))
    }

    /// Actions under way, and the deletion of old events as one.
    var load: Int { inFlight.count + (isRetaining ? 1 : 0) }

    func start() {
        slot?.connect()
    }

    func send(_ action: Action) {
        inFlight.append(action)
        // What is not sent is as good as lost, and never left without an answer.
        guard let connection = slot?.connection else { return wasLost() }
        connection.execute(action.statement, action.parameters, timeout: timeout) { [weak self] answer in
            self?.answered(action, answer)
        }
    }

    /// Wakes the other hubs. `announced` is called once.
    func announce() {
        guard let connection = slot?.connection else { return handlers.announced(.lostStatement) }
        isAnnouncing = true
        connection.execute(Self.announcement, CStringList(), timeout: timeout) { [weak self] answer in
            guard let self else { return }
            isAnnouncing = false
            switch answer {
            case .success: handlers.announced(nil)
            case .failure(let error): handlers.announced(error)
            }
        }
    }

    /// Deletes old events. `retained` is called once.
    func retain(_ parameters: CStringList) {
        guard let connection = slot?.connection else { return handlers.retained(.failure(.lostStatement)) }
        isRetaining = true
        connection.execute(Retention.statement, parameters, timeout: timeout) { [weak self] answer in
            guard let self else { return }
            isRetaining = false
            handlers.retained(answer)
        }
    }

    /// Ends the connection; another follows. `lost` is called with what was under way, `action` first where given.
    func drop(_ error: PostgresError, with action: Action? = nil) {
        if let action { inFlight.insert(action, at: 0) }
        slot?.drop(error)
    }

    /// Ends the connection when what is under way has been answered; nothing more is sent on it.
    func leave(_ reason: PostgresError) {
        isUp = false
        reasonToLeave = reason
        leaveWhereIdle()
    }

    private func leaveWhereIdle() {
        guard let reasonToLeave, inFlight.isEmpty else { return }
        slot?.drop(reasonToLeave)
    }

    // MARK: Calls of the slot

    private func opened(_ connection: Connection) {
        slot?.need(
            """
            SELECT set_config('sync.notify', 'off', false), set_config('lock_timeout', $1, false),
                set_config('statement_timeout', $2, false),
                set_config('idle_in_transaction_session_timeout', '10s', false),
                set_config('idle_session_timeout', '0', false), set_config('sync.lineage', '', false),
                set_config('sync.system', '', false)
            """,
            [Self.milliseconds(configuration.lockTimeout), Self.milliseconds(configuration.statementTimeout)],
            timeout: timeout)
        connection.prepare(Action.apply, timeout: timeout) { [weak self] in
            switch $0 {
            case .failure(let error): self?.slot?.drop(error)
            case .success: self?.established()
            }
        }
    }

    private func established() {
        isUp = true
        slot?.established()
        handlers.up()
    }

    private func answered(_ action: Action, _ answer: Result<Rows, PostgresError>) {
        // Answers come in the order in which actions were sent.
        guard inFlight.first === action else {
            return drop(.outOfTurn, with: inFlight.contains { $0 === action } ? nil : action)
        }
        inFlight.removeFirst()
        handlers.answered(self, action, answer)
        leaveWhereIdle()
    }

    private func wasLost() {
        isUp = false
        reasonToLeave = nil
        let lost = inFlight
        inFlight = []
        if isAnnouncing {
            isAnnouncing = false
            handlers.announced(.lostStatement)
        }
        if isRetaining {
            isRetaining = false
            handlers.retained(.failure(.lostStatement))
        }
        handlers.lost(Array(lost))
    }

    /// The server's own timeout comes first and says so; ours is for a server that says nothing.
    private var timeout: Duration { configuration.statementTimeout + .seconds(1) }

    private static func milliseconds(_ duration: Duration) -> String {
        "\(max(1, duration.wholeMilliseconds))ms"
    }
}

extension PostgresError {
    fileprivate static let lostStatement = PostgresError(.lost, "the connection was lost")
    fileprivate static let outOfTurn = PostgresError(.unexpectedResult, "an action was answered out of its turn")
}
