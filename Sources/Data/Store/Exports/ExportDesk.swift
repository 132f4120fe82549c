import Bytes
import Clock
import Logging
import Postgres
import Reactor

/// Exports, each on a connection of its own, from one snapshot, a page at a time as its reader takes it. Belongs to the store's loop.
///
/// Nothing waits here: where all connections are taken, or one by the same user, the answer is to come again. A page holds as
/// many rows as make some `StoreLimits.exportPieceBytes`, going by the page before.
///
/// Worst interleavings, each with its test in `ExportTests`:
/// - a statement fails behind the first piece: the reader is told `broken`, and the connection is made anew;
/// - the reader goes while a page is under way: that goes nowhere, and the connection is free behind it;
/// - the reader takes nothing for a minute: the server ends the transaction, which holds back vacuum.
final class ExportDesk {
    /// Of one statement: the first may have to sort all.
    private static let statementTimeout = Duration.seconds(60)

    /// One connection, and what is read on it.
    private final class Line {
        var slot: ConnectionSlot?
        var isUp = false
        var current: Current?
    }

    private struct Current {
        let number: Int
        let request: ExportRequest
        let begunAt: Instant
        /// Nobody reads it any more, or it has ended.
        var isOver = false
        /// The question has been answered.
        var hasBegun = false
        /// Rows of the next page.
        var rows = 16
        var isUnderWay = false
    }

    private let loop: EventLoop
    private let messages: Mailbox<StoreMessage>
    private let faults: FaultLog
    private var lines: [Line] = []
    private var lastNumber = 0

    init(
        _ loop: EventLoop, _ messages: Mailbox<StoreMessage>, _ configuration: StoreConfiguration,
        _ parameters: ConnectionParameters, _ logger: Logger, _ meter: ConnectionMeter, _ faults: FaultLog
    ) throws(ReactorError) {
        (self.loop, self.messages, self.faults) = (loop, messages, faults)
        for number in 0..<min(configuration.routes.exports, StoreLimits.exportConnectionsMax) {
            let line = Line()
            line.slot = try ConnectionSlot(
                "exporting connection \(number + 1)", loop: loop, parameters: parameters,
                connectTimeout: configuration.connectTimeout, logger: logger, meter: meter,
                handlers: ConnectionSlot.Handlers(
                    opened: { [weak self, weak line] _ in if let line { self?.opened(line) } },
                    lost: { [weak self, weak line] in if let line { self?.lost(line) } }))
            lines.append(line)
        }
        for line in lines { line.slot?.connect() }
    }

    /// Takes a question.
    func ask(_ request: ExportRequest) {
        guard request.arguments.count == request.function.argumentCount,
            CStringList([request.user] + request.arguments) != nil
        else { return request.answer(.missing) }
        let isReading = lines.contains { line in
            line.current.map { !$0.isOver && $0.request.user.hasSameBytes(as: request.user) } ?? false
        }
        guard !isReading, let line = lines.first(where: { $0.isUp && $0.current == nil }) else {
            return request.answer(Self.unavailable)
        }
        lastNumber += 1
        line.current = Current(number: lastNumber, request: request, begunAt: loop.now)
        send(line, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") { _, _ in }
        send(line, request.function.sql, [request.user] + request.arguments) { [weak self] in self?.begun($0, $1) }
    }

    func pull(_ number: Int) {
        guard let line = line(number), let current = line.current, current.hasBegun, !current.isUnderWay else { return }
        guard loop.now.duration(since: current.begunAt) < StoreLimits.exportTimeMax else { return fail(line) }
        line.current?.isUnderWay = true
        send(line, "FETCH FORWARD \(current.rows) FROM export") { [weak self] in self?.fetched($0, $1) }
    }

    /// Nobody reads it any more.
    func end(_ number: Int) {
        if let line = line(number) { leave(line) }
    }

    /// The store ends: what is under way is not whole.
    func stop() {
        for line in lines where line.current?.isOver == false { tell(line, .broken) }
        lines = []
    }

    private func line(_ number: Int) -> Line? {
        lines.first { $0.current?.number == number && $0.current?.isOver == false }
    }

    // MARK: Answers

    private func begun(_ line: Line, _ rows: Rows) {
        guard let current = line.current, !current.isOver else { return }
        guard let type = rows.string(0, 0) else {
            current.request.answer(.missing)
            return leave(line)
        }
        line.current?.hasBegun = true
        current.request.answer(.begun(contentType: type, Export(current.number, messages)))
    }

    private func fetched(_ line: Line, _ rows: Rows) {
        guard let current = line.current, !current.isOver else { return }
        line.current?.isUnderWay = false
        var bytes: [UInt8] = []
        for row in 0..<rows.count { _ = rows.withBytes(row, 0) { bytes.append(contentsOf: $0) } }
        guard bytes.count <= StoreLimits.snapshotBytesMax else { return fail(line) }
        let fitting = current.rows * StoreLimits.exportPieceBytes / max(1, bytes.count)
        line.current?.rows = max(1, min(fitting, 2 * current.rows, StoreLimits.exportRowsMax))
        if rows.count == 0 {
            current.request.piece(.end)
            leave(line)
        } else {
            current.request.piece(.bytes(bytes))
        }
    }

    /// The reader has what it gets; the connection is free when the transaction has ended.
    private func leave(_ line: Line) {
        line.current?.isOver = true
        let number = line.current?.number
        send(line, "ROLLBACK") { line, _ in if line.current?.number == number { line.current = nil } }
    }

    private func fail(_ line: Line) {
        tell(line, .broken)
        leave(line)
    }

    private func tell(_ line: Line, _ piece: ExportPiece) {
        guard let current = line.current, !current.isOver else { return }
        line.current?.isOver = true
        if current.hasBegun { current.request.piece(piece) } else { current.request.answer(Self.unavailable) }
    }

    // MARK: Calls of the slots

    private func send(
        _ line: Line, _ sql: String, _ parameters: [String?] = [], _ done: @escaping (Line, Rows) -> Void
    ) {
        line.slot?.connection?.query(sql, parameters, timeout: Self.statementTimeout + .seconds(1)) {
            [weak self, weak line] answer in
            guard let self, let line else { return }
            switch answer {
            case .success(let rows): done(line, rows)
            case .failure(let error): failed(line, error)
            }
        }
    }

    private func failed(_ line: Line, _ error: PostgresError) {
        guard let current = line.current, !current.isOver else {
            // Behind the end of one: only what ends the transaction matters.
            if error.kind != .statement { line.slot?.drop(error) }
            return
        }
        if !current.hasBegun, let code = error.sqlstate?.code, current.request.function.refusals.contains(code) {
            current.request.answer(.refused(code))
            return leave(line)
        }
        if error.kind == .statement { faults.tell(error) }
        line.slot?.drop(error)
    }

    private func opened(_ line: Line) {
        line.slot?.need(
            """
            SELECT set_config('statement_timeout', '60s', false), set_config('idle_session_timeout', '0', false),
                set_config('idle_in_transaction_session_timeout', '60s', false)
            """, timeout: Self.statementTimeout
        ) { [weak line] _ in
            line?.isUp = true
            line?.slot?.established()
        }
    }

    private func lost(_ line: Line) {
        line.isUp = false
        tell(line, .broken)
        line.current = nil
    }

    /// Those who are sent away together come back one by one.
    private static var unavailable: ExportAnswer { .unavailable(after: .seconds(1) * Double.random(in: 2...5)) }
}
