import Bytes
import Clock
import Logging
import Metrics
import Postgres
import Reactor

/// Documents that clients append, on their way to the database: accepted at once and written in batches on a connection of
/// their own, so that neither clients nor actions wait for them. Belongs to the store's loop.
///
/// Each function has a line of its own, and lines take turns: one whose function fails waits, and holds up no other. A line
/// is bounded, for all users and for each (`StoreLimits.appends…`); one more document is refused. So are those of a user who
/// sends faster than a user may, or of whom the function says that it has as many as it keeps. Lines are lost with the hub,
/// and documents may be written twice if a connection ends: that must do no harm.
///
/// Worst interleavings, each with its test in `OwnAppendTests`:
/// - The connection ends with a batch in flight: the same batch is written again, before what came meanwhile.
/// - The server writes nothing any more: the batch is written on another connection.
/// - One document fails the whole batch: each document is written alone, and that one is skipped.
/// - A function fails again and again: its line fills up, and the documents of other functions are written.
final class AppendWriter {
    private static let pause = Duration.milliseconds(100)
    private static let pauseAfterFailure = Duration.seconds(1)

    private let loop: EventLoop
    private let faults: FaultLog
    private let skipped: Counter
    private let timeout: Duration
    private let rate: Rate
    private var slot: ConnectionSlot?
    private var due: Alarm?
    /// One for each function of the route table that was called.
    private var lines: [AppendQueue] = []
    private var isUnderWay = false

    /// - Parameter skipped: counts the documents that functions or the database did not take.
    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ meter: PostgresConnectionMetrics, _ faults: FaultLog, skipped: Counter
    ) throws(ReactorError) {
        (self.loop, self.faults, self.skipped, timeout) = (loop, faults, skipped, configuration.statementTimeout)
        rate = configuration.userRate
        due = try Alarm(loop) { [weak self] in self?.write() }
        slot = try ConnectionSlot(
            "the appending connection", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, logger: logger, meter: meter,
            greeting: ConnectionSlot.Greeting(
                """
                SELECT set_config('statement_timeout', $1, false), set_config('idle_session_timeout', '0', false),
                    set_config('default_transaction_isolation', 'read committed', false)
                """,
                [timeout.setting], timeout: timeout),
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.write() }, lost: { [weak self] in self?.isUnderWay = false }))
        slot?.connect()
    }

    /// Accepts all documents or none.
    func append(_ request: AppendRequest) {
        let line = line(of: request.function)
        let answer = line.accept(request, now: loop.now)
        request.answer(answer)
        guard answer == .taken else { return }
        line.want(at: line.isLong ? loop.now : loop.now.advanced(by: Self.pause))
        wait()
    }

    private func line(of function: AppendFunction) -> AppendQueue {
        if let line = lines.first(where: { $0.function === function }) { return line }
        lines.append(AppendQueue(function, rate: rate))
        return lines[lines.count - 1]
    }

    /// The line that has waited longest for its turn.
    private var next: (AppendQueue, Instant)? {
        lines.compactMap { line in line.due.map { (line, $0) } }.min { $0.1 < $1.1 }
    }

    private func wait() {
        if let next { due?.set(within: next.1.duration(since: loop.now)) }
    }

    private func write() {
        guard slot?.isUp == true, !isUnderWay, let (line, at) = next else { return }
        guard at <= loop.now else { return wait() }
        let documents = line.take()
        isUnderWay = true
        let parameters = CStringList([documents.users, documents.texts])
        slot?.connection?.execute(
            line.function.statement, parameters ?? CStringList(), timeout: timeout + .seconds(1)
        ) { [weak self] in self?.written(line, documents.count, $0) }
    }

    private func written(_ line: AppendQueue, _ count: Int, _ answer: Result<Rows, PostgresError>) {
        isUnderWay = false
        switch answer {
        case .success(let rows):
            for row in 0..<rows.count {
                skipped.add(max(0, Int(clamping: rows.integer(row, 0) ?? 0)))
                if let user = rows.string(row, 1) { line.isFull(user, now: loop.now) }
            }
            line.isDone(count, now: loop.now, pause: Self.pause)
        case .failure(let error):
            if error.kind == .statement { failed(line, count, error) }
            slot?.failed(error)
        }
        write()
    }

    private func failed(_ line: AppendQueue, _ count: Int, _ error: PostgresError) {
        // Errors of the server or the function must not lose a document.
        let isOfDocument = error.sqlstate?.fault == .values
        if isOfDocument, count > 1 { return line.isSpoiled(count, now: loop.now) }
        faults.tell(error)
        if isOfDocument {
            skipped.add(count)
            line.isDone(count, now: loop.now, pause: Self.pause)
        } else {
            line.hold(until: loop.now.advanced(by: Self.pauseAfterFailure))
        }
    }
}
