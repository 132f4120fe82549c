import Bytes
import Clock
import Postgres
import Reactor

/// Exports, each from one snapshot on a connection leased from those that read, a page at a time as its reader takes it. Belongs to
/// the store's loop.
///
/// Where as many are under way as may be, or one of the same user's, the answer is to come again. A page holds as many rows as make
/// some `StoreLimits.exportPieceBytes`, going by the page before. Each `pull` is answered: by a piece, or by `broken` where the
/// export is none any more.
///
/// Worst interleavings, each with its test in `OwnExportTests` and `ExportTests`:
/// - a statement fails behind the first piece: the reader is told `broken`, and the connection goes back;
/// - the reader goes while a page is under way: that goes nowhere, and the connection goes back behind it;
/// - the reader takes nothing for a minute: the server ends the transaction, which holds back vacuum.
final class ExportDesk {
    /// Of one statement: the first may have to sort all. And of the reader, from one to the next.
    private static let timeout = Duration.seconds(60)

    /// An export, from its question to its end. Looked up by its number, so that what comes behind the end goes nowhere.
    private final class Reading {
        let number: Int
        let request: ExportRequest
        let begunAt: Instant
        var lease: Lease?
        var connection: Connection?
        /// The question has been answered.
        var hasBegun = false
        /// Rows of the next page.
        var rows = 16
        /// Pieces asked for that have not come.
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
    ///   - pool: lends connections that only read, and see one snapshot in a transaction.
    ///   - readingsMax: how many it lends.
    init(
        _ loop: EventLoop, _ messages: Mailbox<StoreMessage>, _ pool: RequestPool, _ faults: FaultLog, readingsMax: Int
    ) {
        (self.loop, self.messages, self.pool, self.faults) = (loop, messages, pool, faults)
        self.readingsMax = readingsMax
    }

    /// Takes a question.
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

    /// The reader has room. `piece` is called once for each call, and once more where it fails.
    func pull(_ number: Int, _ piece: (ExportPiece) -> Void) {
        guard let reading = readings[number] else { return piece(.broken) }
        reading.pulls += 1
        if reading.pulls == 1 { fetch(reading) }
    }

    /// Nobody reads it any more.
    func end(_ number: Int) {
        if let reading = readings[number] { leave(reading) }
    }

    /// The store ends: what is under way is not whole.
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

    /// What is under way goes nowhere, and the connection back behind it.
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

    /// Those who are sent away together come back one by one.
    private static var unavailable: ExportAnswer { .unavailable(after: .seconds(1) * Double.random(in: 2...5)) }
}
