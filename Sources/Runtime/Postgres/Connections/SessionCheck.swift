import Reactor

/// Finds out whether a new connection is a session of the server: settings, LISTEN and locks of a session must stay.
///
/// A pooler of transactions lends its few sessions to all of its clients, for one transaction each, and no client can ask
/// whether it does. But what a session has set is there in its next statement, and in no other session. So the connection
/// sets a mark and looks for it. It is done where the server's process id is the connection's, since then nothing stands
/// between. Otherwise a second connection, the witness, begins a transaction just after a look, and holds its session
/// while the first one looks again. A pooler of transactions must then give one of them the other's session, or another
/// one: it lends the session that came back last (the witness gets the marked one), or the one that came back first (the
/// mark is gone). Other clients take sessions at the same time, so they look several times.
///
/// If the witness gets no session, a pooler of sessions has none left: then the mark alone decides. If it gets one and may
/// not begin a transaction, there is a pooler of statements.
final class SessionCheck {
    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connection: Connection
    private let mark = SessionMark()
    private let done: (PostgresError?) -> Void
    private var witness: Connection?
    private var hasSession = false
    private var rounds = 0

    /// - Parameters:
    ///   - connection: new, and on this loop.
    ///   - done: called once, with what is wrong; not after `close`, nor after the connection's end.
    init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ connection: Connection,
        done: @escaping (PostgresError?) -> Void
    ) {
        self.loop = loop
        self.parameters = parameters
        self.connection = connection
        self.done = done
    }

    func start() {
        ask(connection, SessionMark.set, [mark.text]) { check, rows in
            guard SessionMark.isNew(rows.string(0, 1)) else { return check.end(.pooledTransactions) }
            if rows.integer(0, 0) == Int64(check.connection.backendPID) { return check.end(nil) }
            check.callWitness()
        }
    }

    /// Ends it without a word.
    func close() {
        witness?.close()
        witness = nil
    }

    private func end(_ error: PostgresError?) {
        close()
        done(error)
    }

    private func callWitness() {
        let witness = Connection(
            loop: loop, parameters: parameters, connectTimeout: SessionMark.patience,
            handlers: Connection.Handlers(
                ready: { [weak self] in self?.askWitness(SessionMark.look) { $0.judge($1) { $0.round() } } },
                lost: { [weak self] in self?.witnessIsGone($0) }))
        self.witness = witness
        witness.connect()
    }

    /// The witness must never see a mark.
    private func judge(_ seen: Rows, _ found: (SessionCheck) -> Void) {
        hasSession = true
        guard SessionMark.isNew(seen.string(0, 0)) else { return end(.pooledTransactions) }
        found(self)
    }

    private func round() {
        guard rounds < SessionMark.rounds else { return end(nil) }
        rounds += 1
        lookAgain { check in
            check.askWitness("BEGIN") { check, _ in
                check.askWitness(SessionMark.look) { check, rows in
                    check.judge(rows) { check in
                        check.lookAgain { check in check.askWitness("COMMIT") { check, _ in check.round() } }
                    }
                }
            }
        }
    }

    private func lookAgain(_ found: @escaping (SessionCheck) -> Void) {
        ask(connection, SessionMark.look) { check, rows in
            guard rows.string(0, 0) == check.mark.text else { return check.end(.pooledTransactions) }
            found(check)
        }
    }

    private func witnessIsGone(_ error: PostgresError) {
        guard witness != nil else { return }
        if hasSession, SessionMark.isRefusal(error.sqlstate) { return end(.pooledTransactions) }
        close()
        lookAlone(SessionMark.rounds)
    }

    /// On a busy machine a witness may be too late, and not refused: the hub's other connections take sessions meanwhile.
    private func lookAlone(_ times: Int) {
        lookAgain { check in times > 1 ? check.lookAlone(times - 1) : check.end(nil) }
    }

    private func askWitness(_ sql: String, _ answered: @escaping (SessionCheck, Rows) -> Void) {
        witness?.query(sql, timeout: SessionMark.patience) { [weak self] answer in
            guard let self else { return }
            switch answer {
            case .success(let rows): answered(self, rows)
            case .failure(let error): witnessIsGone(error)
            }
        }
    }

    private func ask(
        _ connection: Connection, _ sql: String, _ parameters: [String?] = [],
        _ answered: @escaping (SessionCheck, Rows) -> Void
    ) {
        connection.query(sql, parameters) { [weak self] answer in
            guard let self else { return }
            switch answer {
            case .success(let rows): answered(self, rows)
            case .failure(let error): end(error)
            }
        }
    }
}

/// What a session sets to know itself again.
struct SessionMark {
    /// Sets the mark; the answer is the server's process id, and the mark before.
    static let set = """
        SELECT pg_backend_pid(), old, set_config('carillon.session', $1, false) \
        FROM (SELECT current_setting('carillon.session', true) AS old OFFSET 0) AS before
        """
    static let look = "SELECT current_setting('carillon.session', true)"
    static let rounds = 8
    /// How long the witness may wait for a session.
    static let patience = Duration.seconds(5)

    /// No other session has it.
    let text = String(UInt64.random(in: .min ... .max), radix: 16)

    /// Whether a session with this mark has not been used before; a pooler of sessions leaves an empty one.
    static func isNew(_ mark: String?) -> Bool { mark?.isEmpty ?? true }

    /// Whether a pooler, and not the server, refused the statement: PgBouncer's errors are violations of the protocol.
    static func isRefusal(_ code: SQLState?) -> Bool { code == "08P01" }
}

extension PostgresError {
    /// Between this program and the server is something that mixes sessions.
    static let pooledTransactions = PostgresError(
        .unexpectedResult,
        """
        the connection leads through a pooler of transactions (PgBouncer: pool_mode = transaction), which mixes sessions, \
        or through one that lends them as they were left: let DATABASE_URL name PostgreSQL itself, or a pooler of sessions \
        that resets them (pool_mode = session, server_reset_query = DISCARD ALL)
        """)
}
