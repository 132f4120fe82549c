import Bytes
import Clock
import Postgres
import Reactor

/// Runs exports: each is one snapshot on a leased connection, read at its reader's pace. Belongs to the store's loop.
///
/// If too many exports are running, or one of the same user, the answer is to try again later. The rows of a page are
/// chosen by the size of the previous page, to make about `StoreLimits.exportPieceBytes`. Each `pull` is answered by a
/// piece, or by `broken` if the export has ended.
///
/// Worst interleavings, each with its test in `OwnExportTests` and `ExportTests`:
/// - A statement fails after the first piece: the reader is told `broken`, and the connection is given back.
/// - The reader leaves while a page is in flight: the page is dropped, and the connection is given back after it.
/// - The reader takes nothing for a minute: the server ends the transaction, since it holds back vacuum.
final class ExportRunner {
    /// The timeout of one statement, since the first may have to sort everything; also of the reader between two pages.
    private static let timeout = Duration.seconds(60)

    /// An export, from its request to its end. Looked up by number, so that what comes after its end is ignored.
    private final class Reading {
        let number: Int
        let request: ExportRequest
        let begunAt: Instant
        var lease: Lease?
        var connection: Connection?
        /// Whether the request has been answered.
        var hasBegun = false
        var rows = 16
        /// Pieces requested and not delivered.
        var pulls = 0

        init(_ number: Int, _ request: ExportRequest, begunAt: Instant) {
            (self.number, self.request, self.begunAt) = (number, request, begunAt)
        }
    }

    private let loop: EventLoop
    private let messages: Mailbox<StoreMessage>
    private let pool: RequestPool
    private let faults: FaultLog
    private let readingsMax: Int
    private var readings: [Int: Reading] = [:]
    private var lastNumber = 0

    /// - Parameters:
    ///   - pool: lends read-only connections whose transactions see one snapshot.
    ///   - readingsMax: how many it lends.
    init(
        _ loop: EventLoop, _ messages: Mailbox<StoreMessage>, _ pool: RequestPool, _ faults: FaultLog, readingsMax: Int
    ) {
        (self.loop, self.messages, self.pool, self.faults) = (loop, messages, pool, faults)
        self.readingsMax = readingsMax
    }

    func ask(_ request: ExportRequest) {
        guard request.arguments.count == request.function.argumentCount,
            CStringList([request.user] + request.arguments) != nil
        else { return request.answer(.missing) }
        let isReading = readings.values.contains { $0.request.user.hasSameBytes(as: request.user) }
        guard !isReading, readings.count < min(readingsMax, pool.up - 1) else {
            return request.answer(Self.unavailable)
        }
        lastNumber += 1
        let reading = Reading(lastNumber, request, begunAt: loop.now)
        readings[lastNumber] = reading
        reading.lease = pool.lease(
            Lease.Handlers(
                given: { [weak self, weak reading] in if let reading { self?.begin(reading, $0) } },
                lost: { [weak self, weak reading] in if let reading { self?.fail(reading) } }))
    }

    /// The reader has room. `piece` is called once per call, and once more if the export fails.
    func pull(_ number: Int, _ piece: (ExportPiece) -> Void) {
        guard let reading = readings[number] else { return piece(.broken) }
        reading.pulls += 1
        if reading.pulls == 1 { fetch(reading) }
    }

    /// The reader has left.
    func end(_ number: Int) {
        if let reading = readings[number] { leave(reading) }
    }

    /// The store is stopping: running exports are incomplete.
    func stop() {
        for reading in readings.values { fail(reading) }
    }

    // MARK: Answers

    private func begin(_ reading: Reading, _ connection: Connection) {
        reading.connection = connection
        send(reading, "BEGIN") { _ in }
        send(
            reading,
            """
            SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true)
            """, [Self.timeout.setting]
        ) { _ in }
        let request = reading.request
        send(reading, request.function.sql, [request.user] + request.arguments) { [weak self] rows in
            guard let self else { return }
            guard let type = rows.string(0, 0) else {
                leave(reading)
                return request.answer(.missing)
            }
            reading.hasBegun = true
            request.answer(.begun(contentType: type, Export(reading.number, messages, request.piece)))
        }
    }

    private func fetch(_ reading: Reading) {
        guard loop.now.duration(since: reading.begunAt) < StoreLimits.exportTimeMax else { return fail(reading) }
        send(reading, "FETCH FORWARD \(reading.rows) FROM export") { [weak self] in self?.fetched(reading, $0) }
    }

    private func fetched(_ reading: Reading, _ rows: Rows) {
        var bytes: [UInt8] = []
        for row in 0..<rows.count { _ = rows.withBytes(row, 0) { bytes.append(contentsOf: $0) } }
        guard bytes.count <= StoreLimits.snapshotBytesMax else { return fail(reading) }
        guard rows.count > 0 else {
            leave(reading)
            return reading.request.piece(.end)
        }
        let fitting = reading.rows * StoreLimits.exportPieceBytes / max(1, bytes.count)
        reading.rows = max(1, min(fitting, 2 * reading.rows, StoreLimits.exportRowsMax))
        reading.pulls -= 1
        reading.request.piece(.bytes(bytes))
        if reading.pulls > 0 { fetch(reading) }
    }

    /// Ignores answers in flight; the connection is given back after them.
    private func leave(_ reading: Reading) {
        readings[reading.number] = nil
        reading.connection = nil
        reading.lease?.end()
    }

    private func fail(_ reading: Reading) {
        guard readings[reading.number] != nil else { return }
        leave(reading)
        if reading.hasBegun { reading.request.piece(.broken) } else { reading.request.answer(Self.unavailable) }
    }

    private func send(
        _ reading: Reading, _ sql: String, _ parameters: [String?] = [], _ done: @escaping (Rows) -> Void
    ) {
        reading.connection?.query(sql, parameters, timeout: Self.timeout + .seconds(1)) { [weak self] answer in
            guard let self, readings[reading.number] != nil else { return }
            switch answer {
            case .success(let rows): done(rows)
            case .failure(let error): failed(reading, error)
            }
        }
    }

    private func failed(_ reading: Reading, _ error: PostgresError) {
        if !reading.hasBegun, let code = error.sqlstate?.code, reading.request.function.refusals.contains(code) {
            leave(reading)
            return reading.request.answer(.refused(code))
        }
        if error.kind == .statement { faults.tell(error) }
        if error.isOfConnection { reading.lease?.drop(error) }
        fail(reading)
    }

    /// Random, so that clients refused together come back one by one.
    private static var unavailable: ExportAnswer { .unavailable(after: .seconds(1) * Double.random(in: 2...5)) }
}
