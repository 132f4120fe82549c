import Clock
import Logging
import Metrics
import Postgres
import Reactor
import Sync

/// The catch-up connection: pages of the log for those who are behind, in a pipeline, so that no replay delays the live
/// tail.
///
/// Any statement stands for itself: what is under way when the connection is lost is sent again on the next one. A read
/// ends where none is answered for `readTimeout`, though the reading connection is current and the receivers have room:
/// those who ask are told, instead of waiting for a connection that may not come back.
final class CatchUp {
    private static let readLog = PreparedStatement(
        """
        SELECT epoch, top, o, name, data \
        FROM sync.read_log($1::text, $2::text, $3::bigint, $4::bigint, $5::int, $6::int)
        """)

    private let loop: EventLoop
    private let configuration: FeedConfiguration
    private let logger: Logger
    private let metrics: FeedMetrics
    private let changed: () -> Void
    private let put: (FeedOutput) -> Void
    private var slot: ConnectionSlot?
    private var queue: ReadQueue
    /// When the feed became current, nil where it is not; and for how long it had been, all told, before.
    private var currentSince: Instant?
    private var currentBefore = Duration.zero
    /// When a read was last answered, or could not be sent because receivers were slow, by `clock`.
    private var lastProgress = Duration.zero
    private var overdue: Alarm?
    /// Whether reads have ended for want of answers, and nothing came back since: others need not wait as long again.
    private var isStalled = false
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
        queue = ReadQueue(readsMax: configuration.readsMax, readsPerUserMax: configuration.readsPerUserMax)
        slot = try ConnectionSlot(
            "the catch-up connection", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, depth: FeedLimits.readDepth, logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.opened() }, lost: { [weak self] in self?.lost() }))
        overdue = try Alarm(loop) { [weak self] in self?.expire() }
    }

    /// Whether a page could be asked for.
    var wantsPage: Bool { isUp && currentSince != nil && queue.wantsTurn }

    func start() {
        slot?.connect()
    }

    /// A home asks for a page.
    func read(_ read: StreamRead) {
        guard !isStalled, queue.append(read, at: clock) else { return put(.unreadable(read, .busy)) }
    }

    /// Whether the feed knows all revocations: only then the log is read, and the time of reads runs.
    func current(_ isCurrent: Bool) {
        guard isCurrent != (currentSince != nil) else { return }
        isStalled = false
        currentBefore = clock
        currentSince = isCurrent ? loop.now : nil
    }

    /// Sends what may be sent.
    ///
    /// - Parameters:
    ///   - hasRoom: whether the receivers have room for pages.
    ///   - isWanted: whether anybody looks at the answer.
    func pump(hasRoom: Bool, where isWanted: (StreamRead) -> Bool) {
        metrics.pagesWaiting.set(queue.count)
        guard currentSince != nil else { return }
        if !hasRoom { lastProgress = clock }
        while hasRoom, isUp, let turn = queue.next(where: isWanted) { send(turn) }
        if queue.isAnyWaiting { overdue?.set(within: configuration.readTimeout / 4) }
    }

    // MARK: The time of reads

    /// The time for which the feed has been current.
    private var clock: Duration {
        currentBefore + (currentSince.map { loop.now.duration(since: $0) } ?? .zero)
    }

    private func expire() {
        let start = clock - configuration.readTimeout
        if currentSince != nil, lastProgress <= start {
            let expired = queue.expire(askedUpTo: start)
            isStalled = isStalled || !expired.isEmpty
            for read in expired { put(.unreadable(read, .busy)) }
        }
        changed()
    }

    // MARK: Hello

    private func opened() {
        let serverTimeout = configuration.statementTimeout.components.seconds * 1000
        slot?.greet(
            "set_config('statement_timeout', $1, false)", [String(max(serverTimeout, 1000))], timeout: timeout
        ) { [weak self] in
            self?.isUp = true
            self?.isStalled = false
            self?.changed()
        }
    }

    private func lost() {
        isUp = false
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
            isStalled = false
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
            lastProgress = clock
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
        guard !error.isOfConnection, error.advice != .readOnly else {
            slot?.drop(error)
            return
        }
        logger.warning("PostgreSQL: a page of the log was not to be had: \(error)")
        if !queue.failed(turn) { put(.unreadable(turn.read, .busy)) }
        if error.advice == .unavailable { slot?.drop(error) }
    }

    /// The server's own timeout comes first and says so.
    private var timeout: Duration { configuration.statementTimeout + .seconds(1) }
}
