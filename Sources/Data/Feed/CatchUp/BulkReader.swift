import Clock
import Metrics
import Postgres
import Reactor

/// Reads bulks (`Bulks`) page by page, each with a cursor in its own transaction, on a leased connection.
///
/// Any failure ends the connection and the bulk. `Tail` makes the bulk good by other means, so nothing is read twice here.
/// The server ends a transaction that stands idle because receivers have no room, since it holds back vacuum.
final class BulkReader {
    /// Sorting many millions of events takes a while.
    private static let statementTimeout = Duration.seconds(60)
    /// How long receivers may take for one page.
    private static let idleTimeout = Duration.seconds(60)

    private let metrics: FeedMetrics
    private let logReader: LogReader
    private let received: (_ page: BulkRows, _ number: UInt64) throws(MalformedAnswer) -> Void
    private let ended: (_ number: UInt64, _ isWhole: Bool) -> Void
    private let changed: () -> Void
    private var lease: Lease?
    private var connection: Connection?
    private(set) var number: UInt64?
    /// Whether the cursor is open and no page is in flight.
    private var isReady = false

    /// - Parameters:
    ///   - logReader: lends the connection.
    ///   - received: takes a page of the bulk with that number.
    ///   - ended: the bulk was read, to its end or not. Not called after `cancel`.
    ///   - changed: the next page may be requested.
    init(
        _ logReader: LogReader, _ metrics: FeedMetrics,
        received: @escaping (_ page: BulkRows, _ number: UInt64) throws(MalformedAnswer) -> Void,
        ended: @escaping (_ number: UInt64, _ isWhole: Bool) -> Void, changed: @escaping () -> Void
    ) {
        self.logReader = logReader
        self.metrics = metrics
        self.received = received
        self.ended = ended
        self.changed = changed
    }

    var isUp: Bool { logReader.canLease }

    var wantsPage: Bool { isReady }

    /// Starts reading the bulk, if the server and the database's epoch are still those of its snapshots.
    func begin(_ bulk: Bulk, on server: ServerIncarnation, epoch: String) {
        number = bulk.number
        isReady = false
        lease = logReader.lease(
            Lease.Handlers(
                given: { [weak self] in self?.open(bulk, $0, server, epoch) },
                lost: { [weak self] in self?.lost(bulk.number) }))
    }

    private func open(_ bulk: Bulk, _ connection: Connection, _ server: ServerIncarnation, _ epoch: String) {
        self.connection = connection
        let milliseconds = { (duration: Duration) in String(duration.components.seconds * 1000) }
        ask(bulk.number, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") { _ in }
        ask(
            bulk.number,
            """
            SELECT system_identifier, timeline, sync.open_bulk($1::pg_snapshot, $2::pg_snapshot), \
            set_config('statement_timeout', $3, true), set_config('idle_in_transaction_session_timeout', $4, true) \
            FROM sync.hub_hello()
            """,
            [bulk.previous, bulk.upTo, milliseconds(Self.statementTimeout), milliseconds(Self.idleTimeout)]
        ) { [weak self] rows throws(MalformedAnswer) in
            guard let found = ServerIncarnation(rows, 0), let epochThere = rows.string(0, 2) else {
                throw MalformedAnswer()
            }
            guard found == server, epochThere == epoch else {
                self?.finish(isWhole: false)
                return
            }
            self?.isReady = true
            self?.changed()
        }
    }

    /// Requests the next page. Precondition: `wantsPage`.
    func read() {
        guard let number else { return }
        isReady = false
        metrics.reads["bulk"].add()
        ask(number, "FETCH FORWARD \(FeedLimits.pageRows) FROM bulk") { [weak self] rows throws(MalformedAnswer) in
            let page = try BulkRows(rows, readAt: Instant.read())
            try self?.received(page, number)
            // Receiving the page may have ended the bulk.
            guard let self, self.number == number else { return }
            if page.count < FeedLimits.pageRows {
                finish(isWhole: true)
            } else {
                isReady = true
                changed()
            }
        }
    }

    /// Stops reading a bulk that is no longer needed.
    func cancel() {
        guard number != nil else { return }
        number = nil
        endLease()
    }

    private func finish(isWhole: Bool) {
        guard let number else { return }
        cancel()
        ended(number, isWhole)
    }

    /// Ends the lease; answers still in flight are ignored.
    private func endLease() {
        isReady = false
        connection = nil
        lease?.end()
        lease = nil
    }

    private func lost(_ number: UInt64) {
        guard self.number == number else { return }
        finish(isWhole: false)
    }

    private func ask(
        _ number: UInt64, _ sql: String, _ parameters: [String?] = [],
        _ answered: @escaping (Rows) throws(MalformedAnswer) -> Void
    ) {
        // The server's own timeout must fire first, since its error says so.
        connection?.query(sql, parameters, timeout: Self.statementTimeout + .seconds(1)) { [weak self] answer in
            guard let self, self.number == number else { return }
            switch answer {
            case .failure(let error):
                lease?.drop(error)
            case .success(let rows):
                do throws(MalformedAnswer) {
                    try answered(rows)
                } catch {
                    lease?.drop(.malformedAnswer)
                }
            }
        }
    }
}
