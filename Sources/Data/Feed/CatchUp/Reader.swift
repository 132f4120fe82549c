import Bytes
import Clock
import Logging
import Metrics
import Postgres
import Reactor
import Sync

/// Identifies a server, and tells it from itself after a promotion: a snapshot means nothing to another server.
struct ServerIncarnation: Equatable {
    private let system: String
    private let timeline: Int64

    /// From two adjacent columns: system_identifier, timeline.
    init?(_ rows: Rows, _ column: Int) {
        guard let system = rows.string(0, column), let timeline = rows.integer(0, column + 1) else { return nil }
        self.system = system
        self.timeline = timeline
    }
}

/// The connection that reads for `Tail`: hello, all revocations, then new ones and the queries of `Tail`, one at a time.
///
/// Any failure ends the connection; the next starts with a fresh snapshot and all positions, which is always right.
final class Reader {
    enum Answer {
        case positions([StreamPosition])
        case tail(TailRows)
        case replay(ReplayRows)
    }

    // Prepared, since they run all the time: planning `news` takes half as long as executing it.
    private static let news = PreparedStatement(
        """
        SELECT snapshot, epoch, user_id, topic, o, name, data, age \
        FROM sync.news($1::pg_snapshot, \(FeedLimits.pageRows))
        """)
    // All in one row, since each row costs libpq a thousand instructions.
    private static let positions = PreparedStatement(
        """
        SELECT epoch, array_agg(ordinal), array_agg(top) \
        FROM sync.positions($1::text[], $2::text[]) WITH ORDINALITY AS p(user_id, topic, epoch, top, ordinal) \
        GROUP BY epoch
        """)
    /// A restored database may hold many millions of events to look at.
    private static let repairTimeout = Duration.seconds(120)

    private let configuration: FeedConfiguration
    private let logger: Logger
    private let metrics: FeedMetrics
    private let connected: (_ snapshot: String, _ epoch: String) -> Void
    private let lost: () -> Void
    private var slot: ConnectionSlot?
    /// The last check's problems: table and problem.
    private var published: [[String]] = []
    private var isCheckingPublished = false
    /// The epoch read last. Nearly all streams have it, and share its text.
    private var lastEpoch = Epoch("")
    /// Whether hello was answered and queries may be sent.
    private(set) var isUp = false
    /// The server; nil before the first hello.
    private(set) var server: ServerIncarnation?

    /// - Parameters:
    ///   - connected: hello was answered with this snapshot and epoch, the first read on the connection.
    ///   - lost: the connection was lost; the query in flight gets no answer.
    init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: FeedConfiguration, _ logger: Logger,
        _ metrics: FeedMetrics, _ meter: PostgresConnectionMetrics,
        connected: @escaping (_ snapshot: String, _ epoch: String) -> Void,
        lost: @escaping () -> Void
    ) throws(ReactorError) {
        self.configuration = configuration
        self.logger = logger
        self.metrics = metrics
        self.connected = connected
        self.lost = lost
        slot = try ConnectionSlot(
            "the reading connection", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] in self?.opened($0) }, notified: { _ in },
                lost: { [weak self] in self?.wasLost() }))
    }

    func start() {
        slot?.connect()
    }

    /// Drops the connection after an answer that makes no sense.
    func drop(_ error: PostgresError) {
        slot?.drop(error)
    }

    /// Sends a query of the tail. `answered` is called at most once, and not after `lost`.
    func send(_ query: Tail.Query, answered: @escaping (Answer) -> Void) {
        let (start, metrics) = (Instant.read(), metrics)
        query.counter(in: metrics).add()
        let answered = { (answer: Answer) in
            metrics.readSeconds.record(Instant.read().duration(since: start))
            answered(answer)
        }
        switch query {
        case .positions(let tickets), .check(let tickets):
            var users = TextArray()
            var topics = TextArray()
            for ticket in tickets {
                ticket.stream.withUser { users.append($0) }
                ticket.stream.withTopic { topics.append($0) }
            }
            ask(Self.positions, [users.closed(), topics.closed()]) { [weak self] rows throws(MalformedAnswer) in
                answered(.positions(try self?.positions(rows, of: tickets.count) ?? []))
            }
        case .replay(let ticket, let after):
            ask(
                "SELECT o, name, data FROM sync.replay($1::text, $2::text, $3::bigint, $4::int)",
                [ticket.stream.user, ticket.stream.topic, String(after), String(FeedLimits.pageRows)]
            ) { rows throws(MalformedAnswer) in
                answered(.replay(try ReplayRows(rows, of: ticket.stream)))
            }
        case .tail(let previous):
            ask(Self.news, [previous]) { rows throws(MalformedAnswer) in
                answered(.tail(try TailRows(rows, readAt: Instant.read())))
            }
        }
    }

    /// Reads a page of revocations. `answered` is called at most once, and not after `lost`.
    func send(_ query: RevocationTail.Query, answered: @escaping (RevocationRows) -> Void) {
        ask(
            "SELECT snapshot, user_id, before FROM sync.revocations($1::pg_snapshot, $2::text, $3::int)",
            [query.previous, query.after, String(FeedLimits.revocationRows)]
        ) { rows throws(MalformedAnswer) in
            answered(try RevocationRows(rows))
        }
    }

    /// Asks which published tables do not report all their changes. They lose events, so the operator must know; the other
    /// tables work on, even if this check fails. The log repeats a problem only after it went away.
    func checkPublished() {
        guard !isCheckingPublished, let connection = slot?.connection else { return }
        isCheckingPublished = true
        connection.query(
            "SELECT relation, problem FROM sync.check_published() LIMIT $1::int",
            [String(FeedLimits.publishedProblems)], timeout: configuration.statementTimeout + .seconds(1)
        ) { [weak self] answer in
            self?.isCheckingPublished = false
            switch answer {
            case .success(let rows):
                self?.published((0..<rows.count).map { [rows.string($0, 0) ?? "", rows.string($0, 1) ?? ""] })
            case .failure(let error) where !error.isOfConnection:
                self?.published([["all", "they cannot be checked: \(error)"]])
            case .failure(let error):
                self?.drop(error)
            }
        }
    }

    private func published(_ problems: [[String]]) {
        metrics.publishedProblems.set(problems.count)
        for problem in problems where !published.contains(problem) {
            logger.error(
                "a published table does not tell all its changes",
                metadata: ["table": "\(problem[0])", "problem": "\(problem[1])"])
        }
        if problems.isEmpty, !published.isEmpty { logger.notice("all published tables tell all their changes again") }
        published = problems
    }

    /// Reads which topics are published. `answered` is called at most once, and not after `lost`.
    func sendTopics(answered: @escaping (PublishedTopics) -> Void) {
        let most = FeedLimits.topicsMax
        ask("SELECT epoch, topics FROM sync.topics($1::int)", [String(most + 1)]) { rows throws(MalformedAnswer) in
            guard let epoch = rows.string(0, 0), let names = rows.string(0, 1) else { throw MalformedAnswer() }
            let topics = names.split(separator: ",").map(String.init)
            answered(PublishedTopics(epoch: epoch, topics: topics.count > most ? nil : topics))
        }
    }

    /// Sends `token` by NOTIFY to the listening connection.
    func sendProbe(_ token: String) {
        slot?.need("SELECT pg_notify($1, $2)", [Listener.probeChannel, token], timeout: .seconds(10))
    }

    // MARK: Hello

    private func opened(_ connection: Connection) {
        // Nearly always nothing to do. After a restore it visits all restored events, so no timeout is set yet.
        ask("SELECT sync.repair_after_restore()", timeout: Self.repairTimeout) { [weak self] rows in
            if let repaired = rows.integer(0, 0), repaired > 0 {
                self?.logger.notice(
                    "the database was restored: positions begin a new epoch", metadata: ["events": "\(repaired)"])
            }
        }
        let serverTimeout = configuration.statementTimeout.components.seconds * 1000
        ask(
            "SELECT set_config('idle_session_timeout', '0', false), set_config('statement_timeout', $1, false)",
            [String(max(serverTimeout, 1000))]
        ) { _ in }
        checkPublished()
        ask(
            """
            SELECT snapshot, schema_version, in_recovery, database, current_setting('server_encoding'), \
            current_setting('is_superuser')::bool, epoch, system_identifier, timeline \
            FROM sync.hub_hello()
            """
        ) { [weak self] rows throws(MalformedAnswer) in
            try self?.greeted(rows)
        }
    }

    private func greeted(_ rows: Rows) throws(MalformedAnswer) {
        guard let snapshot = rows.string(0, 0), let version = rows.integer(0, 1), let inRecovery = rows.boolean(0, 2),
            let epoch = rows.string(0, 6), let server = ServerIncarnation(rows, 7)
        else { throw MalformedAnswer() }
        if let complaint = complaint(version, inRecovery, encoding: rows.string(0, 4) ?? "") {
            return drop(complaint)
        }
        self.server = server
        isUp = true
        slot?.established(["database": "\(rows.string(0, 3) ?? "")", "schema": "\(version)"])
        warn(version, isSuperuser: rows.boolean(0, 5) ?? false)
        connected(snapshot, epoch)
    }

    /// Warns of what works but should be changed.
    private func warn(_ version: Int64, isSuperuser: Bool) {
        let known = configuration.schemaVersion
        if version > known {
            logger.warning(
                "the database was migrated by a newer program: install that one here too",
                metadata: ["schema": "\(version)", "known": "\(known)"])
        }
        if isSuperuser {
            logger.warning("connected to PostgreSQL as a superuser: use carillon_hub")
        }
    }

    private func complaint(_ version: Int64, _ inRecovery: Bool, encoding: String) -> PostgresError? {
        let needed = configuration.schemaVersion
        if version < needed {
            return PostgresError(
                .unexpectedResult, "the schema is at version \(version) and must be at \(needed): run carillon migrate")
        }
        if inRecovery { return .standby }
        if encoding != "UTF8" {
            return PostgresError(.unexpectedResult, "the database's encoding is \(encoding) and must be UTF8")
        }
        return nil
    }

    // MARK: Steps

    private func ask(
        _ sql: String, _ parameters: [String?] = [], timeout: Duration? = nil,
        _ answered: @escaping (Rows) throws(MalformedAnswer) -> Void
    ) {
        // The server's own timeout must fire first, since its error says so.
        let timeout = timeout ?? configuration.statementTimeout + .seconds(1)
        slot?.connection?.query(sql, parameters, timeout: timeout, completion(answered))
    }

    private func ask(
        _ statement: PreparedStatement, _ parameters: [String?],
        _ answered: @escaping (Rows) throws(MalformedAnswer) -> Void
    ) {
        // Text that PostgreSQL cannot hold becomes no parameters, which the server refuses.
        slot?.connection?.execute(
            statement, CStringList(parameters) ?? CStringList(),
            timeout: configuration.statementTimeout + .seconds(1), completion(answered))
    }

    private func completion(
        _ answered: @escaping (Rows) throws(MalformedAnswer) -> Void
    ) -> Connection.Completion {
        { [weak self] answer in
            switch answer {
            case .failure(let error):
                self?.drop(error)
            case .success(let rows):
                do throws(MalformedAnswer) {
                    try answered(rows)
                } catch {
                    self?.drop(.malformedAnswer)
                }
            }
        }
    }

    /// One row per epoch, nearly always one: numbers of its streams among the `count` requested, from 1, and their offsets.
    private func positions(_ rows: Rows, of count: Int) throws(MalformedAnswer) -> [StreamPosition] {
        let unknown = StreamPosition(epoch: "", offset: -1)
        var positions = [StreamPosition](repeating: unknown, count: count)
        for row in 0..<rows.count {
            guard let epoch = rows.string(row, 0, known: lastEpoch.string), let ordinals = rows.integers(row, 1),
                let tops = rows.integers(row, 2), ordinals.count == tops.count
            else { throw MalformedAnswer() }
            if !epoch.hasSameBytes(as: lastEpoch.string) { lastEpoch = Epoch(epoch) }
            for (ordinal, top) in zip(ordinals, tops) {
                guard ordinal >= 1, ordinal <= count else { throw MalformedAnswer() }
                positions[Int(ordinal) - 1] = StreamPosition(in: lastEpoch, offset: top)
            }
        }
        guard positions.allSatisfy({ $0.offset >= 0 }) else { throw MalformedAnswer() }
        return positions
    }

    private func wasLost() {
        isUp = false
        isCheckingPublished = false
        lost()
    }
}

extension Tail.Query {
    fileprivate func counter(in metrics: FeedMetrics) -> Counter {
        switch self {
        case .positions: metrics.reads["positions"]
        case .check: metrics.reads["check"]
        case .replay: metrics.reads["replay"]
        case .tail: metrics.tailReads
        }
    }
}

extension PostgresError {
    static let standby = PostgresError(.statement, "the server is a standby", sqlstate: "25006")
    /// The database's functions from `sql/` are not those of this program.
    static let malformedAnswer = PostgresError(
        .unexpectedResult, "the functions in the database are not those of this version: run carillon migrate")
}
