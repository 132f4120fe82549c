import Bytes
import Clock
import Logging
import Metrics
import Postgres
import Reactor
import Sync

/// The catch-up connections: they read pages of the log for subscribers that fell behind, in a pipeline, so that no replay
/// delays the live tail. One of them is lent to the bulk reader.
///
/// Users are served in turn, and each has a share of the queue. Pages go before confirmations (reads without a page, see
/// `StreamRead.upTo`): a device that fell behind had no choice, but a client can invent any number of offsets to confirm.
///
/// Each statement stands alone, so reads in flight on a lost connection are sent again on the next one. A read ends if no
/// read is answered for `readTimeout` while the feed is current and the receivers have room: its client is told, instead of
/// waiting for a connection that may not come back.
final class LogReader {
    private let loop: EventLoop
    private let configuration: FeedConfiguration
    private let logger: Logger
    private let metrics: FeedMetrics
    private let isWatched: (StreamRead) -> Bool
    private let put: (FeedOutput) -> Void
    private var pool: RequestPool?
    /// When the feed became current; nil if it is not. `currentBefore` is the total of the earlier times.
    private var currentSince: Instant?
    private var currentBefore = Duration.zero
    /// When a read was last answered, or receivers had no room, by `clock`.
    private var lastProgress = Duration.zero
    private var overdue: Alarm?
    /// Whether reads have expired and no answer has come since: further reads are then refused at once.
    private var isStalled = false

    /// - Parameters:
    ///   - changed: a connection came up or was lost, or more can be sent.
    ///   - isWatched: whether anyone still needs the answer.
    ///   - put: takes an answer.
    init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: FeedConfiguration, _ logger: Logger,
        _ metrics: FeedMetrics, _ meter: PostgresConnectionMetrics, _ bulkMeter: PostgresConnectionMetrics,
        changed: @escaping () -> Void,
        isWatched: @escaping (StreamRead) -> Bool, put: @escaping (FeedOutput) -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.logger = logger
        self.metrics = metrics
        self.isWatched = isWatched
        self.put = put
        let bounds = FairQueue<TextKey, Request>.Bounds(
            count: configuration.readsMax, countOfKey: configuration.readsPerUserMax)
        let serverTimeout = configuration.statementTimeout.components.seconds * 1000
        var settings = PoolSettings(
            connections: [("the catch-up connection", meter), ("the bulk connection", bulkMeter)],
            depth: FeedLimits.readDepth,
            connectTimeout: configuration.connectTimeout, statementTimeout: configuration.statementTimeout,
            greeting: (
                """
                SELECT in_recovery, set_config('idle_session_timeout', '0', false), \
                set_config('statement_timeout', $1, false) FROM sync.hub_hello()
                """, [String(max(serverTimeout, 1000))]
            ),
            kinds: [
                // Pages, then confirmations; one confirmation has its turn after `pagesInARow` pages.
                PoolSettings.Kind(weight: FeedLimits.pagesInARow, bounds, isSerial: false),
                PoolSettings.Kind(bounds, isSerial: false),
            ], outages: .waitedOut, lossesMax: FeedLimits.readLossesMax)
        settings.leasesMax = 1
        settings.isOfReads = true
        settings.complaint = { $0.boolean(0, 0) == false ? nil : .standby }
        pool = try RequestPool(
            loop, parameters, settings, logger, opened: { [weak self] in self?.isStalled = false },
            changed: changed)
        overdue = try Alarm(loop) { [weak self] in
            self?.expire()
            changed()
        }
    }

    var wantsPage: Bool { currentSince != nil && pool?.wantsTurn == true }

    func start() {
        pool?.start()
    }

    var canLease: Bool { pool?.canLease == true }

    func lease(_ handlers: Lease.Handlers) -> Lease? { pool?.lease(handlers) }

    /// Queues a shard's request for a page.
    func read(_ read: StreamRead) {
        guard !isStalled else { return put(.unreadable(read, .busy)) }
        pool?.append(LogRead(read, since: clock, self))
    }

    /// Whether the feed knows all revocations. Only then the log is read, and the timeouts of reads run.
    func current(_ isCurrent: Bool) {
        guard isCurrent != (currentSince != nil) else { return }
        isStalled = false
        currentBefore = clock
        currentSince = isCurrent ? loop.now : nil
    }

    /// - Parameter hasRoom: whether the receivers have room for pages.
    func pump(hasRoom: Bool) {
        guard let pool else { return }
        metrics.pagesWaiting.set(pool.count)
        guard currentSince != nil else { return }
        if hasRoom { pool.pump() } else { lastProgress = clock }
        if pool.waiting > 0 { overdue?.set(within: configuration.readTimeout / 4) }
    }

    // MARK: Timeouts

    /// The total time for which the feed has been current.
    private var clock: Duration {
        currentBefore + (currentSince.map { loop.now.duration(since: $0) } ?? .zero)
    }

    private func expire() {
        let start = clock - configuration.readTimeout
        guard let pool, currentSince != nil, lastProgress <= start else { return }
        let waiting = pool.waiting
        pool.end(.expired) { ($0 as? LogRead)?.since ?? start <= start }
        isStalled = isStalled || pool.waiting < waiting
    }

    // MARK: Calls of the reads

    func isWanted(_ read: StreamRead) -> Bool {
        guard isWatched(read) else { return false }
        metrics.reads["log"].add()
        return true
    }

    func ended(_ read: StreamRead) { put(.unreadable(read, .busy)) }

    /// Takes an answer, or a failure on a living server; a read may have `readFailuresMax` of those.
    func answered(_ read: LogRead, _ answer: Result<Rows, PostgresError>, after time: Duration) -> NextStep {
        metrics.readSeconds.record(time)
        isStalled = false
        do {
            let page = try LogPage(answer.get(), read.read)
            lastProgress = clock
            switch page {
            case .events(let events): put(.page(read.read, events))
            case .none(let failure): put(.unreadable(read.read, failure))
            }
            return .done
        } catch {
            let error = error as? PostgresError ?? .malformedAnswer
            logger.warning("PostgreSQL: a page of the log was not to be had: \(error)")
            read.failures += 1
            if read.failures < FeedLimits.readFailuresMax { return .later }
            put(.unreadable(read.read, .busy))
            return .done
        }
    }
}

/// A read of the log on its way to PostgreSQL.
final class LogRead: Request {
    private static let readLog = PreparedStatement(
        """
        SELECT epoch, top, o, name, data \
        FROM sync.read_log($1::text, $2::text, $3::bigint, $4::bigint, $5::int, $6::int)
        """)

    private unowned let logReader: LogReader
    let read: StreamRead
    /// When it was requested, by `LogReader.clock`.
    let since: Duration
    var failures = 0
    private var sentAt = Instant(nanoseconds: 0)

    init(_ read: StreamRead, since: Duration, _ logReader: LogReader) {
        self.read = read
        self.since = since
        self.logReader = logReader
        super.init(Terms(kind: read.after < read.upTo ? 0 : 1, of: TextKey(read.stream.user), Self.readLog))
    }

    /// Makes the parameters only now: in a flood, most reads are dropped before.
    override func willBeSent() -> Bool {
        guard logReader.isWanted(read),
            let list = CStringList([
                read.stream.user, read.stream.topic, String(read.after), String(read.upTo), String(FeedLimits.readRows),
                String(FeedLimits.readBytes),
            ])
        else { return false }
        parameters = list
        sentAt = .read()
        return true
    }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep {
        logReader.answered(self, answer, after: Instant.read().duration(since: sentAt))
    }

    override func ended(_ end: RequestFailure) { logReader.ended(read) }
}
