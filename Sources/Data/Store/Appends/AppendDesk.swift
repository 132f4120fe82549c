import Bytes
import Clock
import Logging
import Postgres
import Reactor

/// Documents that clients append, on their way to the database: accepted at once and written in batches on a connection of
/// their own, so that neither clients nor actions wait for them. Belongs to the store's loop.
///
/// The queue is bounded, for all users and for each (`StoreLimits.appends…`); one more document is refused. It is lost with
/// the hub, and documents may be written twice if a connection ends: that must do no harm.
///
/// Worst interleavings, each with its test in `OwnAppendTests`:
/// - The connection ends with a batch in flight: the same batch is written again, before what came meanwhile.
/// - One document fails the whole batch: each document is written alone, and that one is skipped.
final class AppendDesk {
    private static let pause = Duration.milliseconds(100)

    private struct Entry {
        let user: TextKey
        let name: String
        let function: AppendFunction
        let document: [UInt8]
    }

    private let loop: EventLoop
    private let faults: FaultLog
    private let timeout: Duration
    private var slot: ConnectionSlot?
    private var isUp = false
    private var due: Alarm?
    private var waiting = Fifo<Entry>()
    private var bytes = 0
    private var ofUsers: [TextKey: Int] = [:]
    /// In flight, or to be written again.
    private var batch: [Entry] = []
    private var isUnderWay = false
    /// How many more documents are written alone.
    private var singles = 0

    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ meter: ConnectionMeter, _ faults: FaultLog
    ) throws(ReactorError) {
        (self.loop, self.faults, timeout) = (loop, faults, configuration.statementTimeout)
        due = try Alarm(loop) { [weak self] in self?.write() }
        slot = try ConnectionSlot(
            "the appending connection", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.opened() }, lost: { [weak self] in self?.lost() }))
        slot?.connect()
    }

    /// Accepts all documents or none.
    func append(_ request: AppendRequest) {
        let user = TextKey(request.user)
        let size = request.documents.reduce(0) { $0 + $1.count }
        let count = request.documents.count
        guard waiting.count + count <= StoreLimits.appendsMax, bytes + size <= StoreLimits.appendBytesMax,
            ofUsers[user, default: 0] + count <= StoreLimits.appendsPerUserMax
        else { return request.answer(false) }
        for document in request.documents {
            waiting.append(Entry(user: user, name: request.user, function: request.function, document: document))
        }
        bytes += size
        ofUsers[user, default: 0] += count
        request.answer(true)
        due?.set(within: waiting.count < StoreLimits.appendBatchMax ? Self.pause : .zero)
    }

    private func write() {
        guard isUp, !isUnderWay else { return }
        if batch.isEmpty { takeBatch() }
        guard let first = batch.first else { return }
        let sent = singles > 0 ? 1 : batch.count
        var users = TextArray()
        var documents = TextArray()
        for entry in batch.prefix(sent) {
            users.append(entry.name)
            entry.document.withUnsafeBytes { documents.append($0) }
        }
        isUnderWay = true
        let parameters = CStringList([users.closed(), documents.closed()])
        slot?.connection?.execute(
            first.function.statement, parameters ?? CStringList(), timeout: timeout + .seconds(1)
        ) { [weak self] in self?.written(sent, $0) }
    }

    /// Takes the first documents that have the same function.
    private func takeBatch() {
        while batch.count < StoreLimits.appendBatchMax, let next = waiting.first,
            batch.first.map({ $0.function === next.function }) ?? true
        {
            _ = waiting.popFirst()
            batch.append(next)
            bytes -= next.document.count
            ofUsers[next.user, default: 1] -= 1
            if ofUsers[next.user] == 0 { ofUsers[next.user] = nil }
        }
    }

    private func written(_ sent: Int, _ answer: Result<Rows, PostgresError>) {
        isUnderWay = false
        if case .failure(let error) = answer {
            guard error.kind == .statement else {
                slot?.drop(error)
                return
            }
            // Classes of errors that a document can cause. Errors of the server or the function must not lose a document.
            let isOfDocument = ["22", "23", "P0"].contains(error.sqlstate?.code.prefix(2) ?? "")
            if isOfDocument, sent > 1 {
                singles = sent
                return write()
            }
            faults.tell(error)
            if !isOfDocument {
                due?.set(within: .seconds(1))
                return
            }
        }
        batch.removeFirst(sent)
        singles = max(0, singles - sent)
        if !batch.isEmpty || waiting.count >= StoreLimits.appendBatchMax { return write() }
        if !waiting.isEmpty { due?.set(within: Self.pause) }
    }

    private func opened() {
        slot?.need(
            "SELECT set_config('statement_timeout', $1, false), set_config('idle_session_timeout', '0', false)",
            [timeout.setting], timeout: timeout
        ) { [weak self] _ in
            self?.isUp = true
            self?.slot?.established()
            self?.write()
        }
    }

    private func lost() {
        isUp = false
        isUnderWay = false
    }
}
