import Logging
import Metrics
import Postgres
import Reactor
import Sync

/// The catch-up connection: pages of the log for those who are behind, in a pipeline, so that no replay delays the live
/// tail; and revocations, which are few.
///
/// Any statement stands for itself: what is under way when the connection is lost is sent again on the next one.
final class CatchUp {
    private static let readLog = PreparedStatement(
        """
        SELECT epoch, top, o, name, data \
        FROM sync.read_log($1::text, $2::text, $3::bigint, $4::bigint, $5::int, $6::int)
        """)
    private static let revocations = PreparedStatement(
        "SELECT snapshot, user_id, before FROM sync.revocations($1::pg_snapshot, $2::text, $3::int)")

    private let loop: EventLoop
    private let configuration: FeedConfiguration
    private let logger: Logger
    private let metrics: FeedMetrics
    private let changed: () -> Void
    private let put: (FeedOutput) -> Void
    private var slot: ConnectionSlot?
    private var queue: ReadQueue
    private var revoked = RevocationTail()
    /// When the last read of revocations began.
    private var lastRevocations = Instant(nanoseconds: 0)
    private var revocationsDue: Alarm?
    /// Whether hello was said and reads may be sent.
    private(set) var isUp = false

    /// - Parameters:
    ///   - changed: it is up, or no longer, or more can be sent.
    ///   - put: takes an answer.
    init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: FeedConfiguration, _ logger: Logger,
        _ metrics: FeedMetrics, _ meter: ConnectionMeter, changed: @escaping () -> Void,
        put: @escaping (FeedOutput) -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.logger = logger
        self.metrics = metrics
        self.changed = changed
        self.put = put
        queue = ReadQueue(readsMax: configuration.readsMax)
        slot = try ConnectionSlot(
            "the catch-up connection", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, depth: FeedLimits.readDepth, logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] in self?.opened($0) }, lost: { [weak self] in self?.lost() }))
        revocationsDue = try Alarm(loop, changed)
    }

    /// Whether a page could be asked for.
    var wantsPage: Bool { isUp && queue.wantsTurn }

    func start() {
        slot?.connect()
    }

    /// A home asks for a page.
    func read(_ read: StreamRead) {
        if !queue.append(read) { put(.unreadable(read, .busy)) }
    }

    /// Something was committed, or it is time to look for revocations.
    func wake() {
        revoked.wake()
    }

    /// Sends what may be sent. Revocations first: one read of them at a time.
    ///
    /// - Parameters:
    ///   - readsPages: whether the receivers have room for pages.
    ///   - isWanted: whether anybody looks at the answer.
    func pump(readsPages: Bool, where isWanted: (StreamRead) -> Bool) {
        metrics.pagesWaiting.set(queue.count)
        guard isUp else { return }
        readRevocations()
        while readsPages, isUp, let turn = queue.next(where: isWanted) { send(turn) }
    }

    /// At most so often, for every commit of anything wakes.
    private func readRevocations() {
        guard revoked.wantsRead else { return }
        let pause = configuration.revocationInterval - loop.now.duration(since: lastRevocations)
        guard revoked.isAmidRead || pause <= .zero else {
            revocationsDue?.set(after: pause)
            return
        }
        lastRevocations = loop.now
        if let query = revoked.nextQuery() { send(query) }
    }

    // MARK: Hello

    private func opened(_ connection: Connection) {
        let serverTimeout = configuration.statementTimeout.components.seconds * 1000
        connection.query(
            """
            SELECT in_recovery, set_config('idle_session_timeout', '0', false), \
            set_config('statement_timeout', $1, false) \
            FROM sync.hub_hello()
            """, [String(max(serverTimeout, 1000))], timeout: timeout
        ) { [weak self] answer in
            guard let self else { return }
            switch answer {
            case .failure(let error):
                slot?.drop(error)
            case .success(let rows) where rows.boolean(0, 0) == false:
                isUp = true
                slot?.established()
                revoked.connected()
                changed()
            case .success:
                slot?.drop(PostgresError(.statement, "the server is a standby", sqlstate: "25006"))
            }
        }
    }

    private func lost() {
        isUp = false
        revoked.disconnected()
        for read in queue.lost() { put(.unreadable(read, .busy)) }
        changed()
    }

    // MARK: The log

    private func send(_ turn: ReadQueue.Turn) {
        let read = turn.read
        let parameters = CStringList([
            read.stream.user, read.stream.topic, String(read.after), String(read.upTo), String(FeedLimits.readRows),
            String(FeedLimits.readBytes),
        ])
        guard let connection = slot?.connection, let parameters else {
            queue.done(turn)
            return put(.unreadable(read, .busy))
        }
        let start = Instant.read()
        metrics.reads["log"].add()
        connection.execute(Self.readLog, parameters, timeout: timeout) { [weak self] answer in
            guard let self else { return }
            metrics.readSeconds.record(Instant.read().duration(since: start))
            switch answer {
            case .success(let rows): answered(turn, rows)
            case .failure(let error): failed(turn, error)
            }
            changed()
        }
    }

    private func answered(_ turn: ReadQueue.Turn, _ rows: Rows) {
        do throws(MalformedAnswer) {
            let answer = try LogPage(rows, turn.read)
            queue.done(turn)
            switch answer {
            case .events(let events): put(.page(turn.read, events))
            case .none(let failure): put(.unreadable(turn.read, failure))
            }
        } catch {
            failed(turn, .malformedAnswer)
        }
    }

    private func failed(_ turn: ReadQueue.Turn, _ error: PostgresError) {
        // A server that goes away is no fault of the read's: with the connection it comes back to the queue.
        guard !error.isOfConnection else {
            slot?.drop(error)
            return
        }
        logger.warning("PostgreSQL: a page of the log was not to be had: \(error)")
        if !queue.failed(turn) { put(.unreadable(turn.read, .busy)) }
        if error.advice == .reconnect { slot?.drop(error) }
    }

    // MARK: Revocations

    private func send(_ query: RevocationTail.Query) {
        let parameters = CStringList([query.previous, query.after, String(FeedLimits.revocationRows)])
        guard let connection = slot?.connection, let parameters else { return revoked.failed() }
        connection.execute(Self.revocations, parameters, timeout: timeout) { [weak self] answer in
            guard let self else { return }
            switch answer {
            case .success(let rows):
                do throws(MalformedAnswer) {
                    let page = try RevocationRows(rows)
                    revoked.received(page.revocations, snapshot: page.snapshot)
                    metrics.revocations.add(page.revocations.count)
                    if !page.revocations.isEmpty { put(.revoked(page.revocations)) }
                } catch {
                    slot?.drop(.malformedAnswer)
                }
            case .failure(let error):
                // Another connection reads them all anew.
                slot?.drop(error)
            }
            changed()
        }
    }

    /// The server's own timeout comes first and says so.
    private var timeout: Duration { configuration.statementTimeout + .seconds(1) }
}

extension PostgresError {
    /// Whether it is the connection that ends, or leads to the wrong server, and not the statement that was refused.
    fileprivate var isOfConnection: Bool {
        switch kind {
        case .statement: severity == .fatal || severity == .panic || sqlstate == "25006"
        case .connecting, .timeout, .lost: true
        case .connectionString, .notSent, .unexpectedResult: false
        }
    }
}
