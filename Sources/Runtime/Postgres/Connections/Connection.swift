import Bytes
import CPostgres
import Clock
import Reactor

/// libpq on an event loop: one connection to PostgreSQL that never blocks. One statement at a time, or a pipeline.
///
/// Lifecycle: `connect()` → `Handlers.ready` → statements, notifications → `close()`, or `Handlers.lost`, once.
/// A connection that has ended is not reused: its owner makes another after a pause (`Backoff`).
///
/// Invariants:
/// - The loop lets go of the socket before libpq closes it. If libpq closes it first, its number is not used again.
/// - A statement's completion is called at most once, in the order of the statements, and never after the connection's end.
///   Statements that are unanswered at `lost` may or may not have been carried out.
/// - Each statement is its own transaction, and success is reported only after its commit. In a pipeline every statement
///   has its own sync; its rows come before the sync, while a deferred constraint may still refuse them.
/// - After `close()`, which any handler may call, no handler is called.
///
/// libpq would block the loop to resolve host names, so `HostResolver` does that first, except for a service file's host.
package final class Connection: EventSource {
    /// What the connection tells its owner. Called on the loop; the closures must not keep the owner alive.
    package struct Handlers {
        let ready: () -> Void
        let notified: (Notification) -> Void
        let lost: (PostgresError) -> Void

        /// - Parameters:
        ///   - ready: connected and authenticated; statements may be sent.
        ///   - notified: a NOTIFY on a channel that this connection listens to.
        ///   - lost: connecting failed, or the connection was lost. The last call.
        package init(
            ready: @escaping () -> Void,
            notified: @escaping (Notification) -> Void = { _ in },
            lost: @escaping (PostgresError) -> Void
        ) {
            self.ready = ready
            self.notified = notified
            self.lost = lost
        }
    }

    /// A NOTIFY as received.
    package struct Notification: Sendable, Equatable {
        /// The channel of LISTEN.
        package let channel: String
        /// The payload, as it came: at most 8,000 bytes from PostgreSQL.
        package let payload: String
    }

    /// Gets the rows or the error.
    package typealias Completion = (Result<Rows, PostgresError>) -> Void

    /// Valid transitions: idle → resolving → connecting → ready → ended; idle → connecting; any → ended.
    private enum State { case idle, resolving, connecting, ready, ended }

    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connectTimeout: Duration
    private let depth: Int
    private let resolver: HostResolver
    private var lookUp: HostLookUp?
    private var connectEnd = Instant(nanoseconds: 0)
    private let handlers: Handlers
    private let meter: PostgresConnectionMetrics?
    private var state = State.idle
    private var pg: OpaquePointer?
    private var waiting = Fifo<Statement>()
    /// Sent and not answered: at most `depth`, the oldest first. Results come in this order.
    private var inFlight = Fifo<Statement>()
    /// The result of the oldest statement in flight so far: its rows or its error. An error after rows replaces them.
    private var answer: Result<Rows, PostgresError>?
    /// In a pipeline: the results of the oldest statement have ended, and only its sync is missing.
    private var awaitsSync = false
    private var prepared = PreparedNames()

    /// - Parameters:
    ///   - connectTimeout: from `connect()` to `ready`; libpq's own timeout does not apply here.
    ///   - depth: statements in flight. At 1 there is no pipeline; only then do notifications come without delay.
    ///   - meter: counts the statements that fail.
    package convenience init(
        loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration = .seconds(10), depth: Int = 1,
        meter: PostgresConnectionMetrics? = nil, handlers: Handlers
    ) {
        self.init(
            loop: loop, parameters: parameters, connectTimeout: connectTimeout, depth: depth, resolver: .system,
            meter: meter, handlers: handlers)
    }

    /// Resolves names with `resolver`.
    init(
        loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration, depth: Int = 1,
        resolver: HostResolver, meter: PostgresConnectionMetrics? = nil, handlers: Handlers
    ) {
        precondition(depth >= 1 && depth <= PostgresLimits.pipelineDepthMax, "a pipeline's depth is out of its range")
        self.loop = loop
        self.parameters = parameters
        self.connectTimeout = connectTimeout
        self.depth = depth
        self.resolver = resolver
        self.meter = meter
        self.handlers = handlers
    }

    deinit {
        if let pg { PQfinish(pg) }
    }

    /// Whether statements may be sent.
    package var isReady: Bool { state == .ready }
    /// Whether no statement is in flight or waiting.
    package var isIdle: Bool { inFlight.isEmpty && waiting.isEmpty }
    /// The server process, for tests and logs; 0 before `ready`.
    package var backendPID: Int32 { pg.map { PQbackendPID($0) } ?? 0 }

    /// Starts connecting. Called once.
    package func connect() {
        precondition(state == .idle, "a connection connects once")
        let names = parameters.unresolvedNames
        do {
            try loop.add(self)
            connectEnd = loop.now.advanced(by: connectTimeout)
            guard !names.isEmpty else { return begin(parameters) }
            state = .resolving
            let lookUp = try resolver.lookUp(names)
            self.lookUp = lookUp
            try loop.setDescriptor(self, lookUp.descriptor, .readable)
            // One name that hangs must not keep the hub from its other hosts.
            let patience = parameters.namesOneHost ? connectTimeout : connectTimeout / 2
            loop.setDeadline(self, loop.now.advanced(by: patience))
        } catch {
            end(PostgresError(.connecting, "\(error)"))
        }
    }

    /// The names are resolved, or the time for that is over.
    private func resolved() {
        guard let lookUp else { return }
        self.lookUp = nil
        // The descriptor is closed with the last reference; the loop must let go of it first.
        loop.unwatch(self)
        let answers = lookUp.end()
        if let resolved = parameters.resolved(answers.compactMapValues { try? $0.get() }) { return begin(resolved) }
        let name = lookUp.names.sorted().first ?? ""
        guard case .failure(let failure)? = answers[name] else {
            return end(PostgresError(.timeout, "the host name \"\(name)\" was not resolved in time"))
        }
        end(PostgresError(.connecting, PostgresError.oneLine("host name \"\(name)\": \(failure.reason)")))
    }

    private func begin(_ parameters: ConnectionParameters) {
        state = .connecting
        loop.setDeadline(self, connectEnd)
        guard let pg = parameters.withLists({ PQconnectStartParams($0, $1, 0) }) else {
            return end(PostgresError(.connecting, "out of memory"))
        }
        self.pg = pg
        // Notices may quote rows, and libpq would print them.
        _ = PQsetNoticeReceiver(pg, { _, _ in }, nil)
        guard PQstatus(pg) != CONNECTION_BAD else { return end(PostgresError(connecting: pg)) }
        // libpq.sgml: until PQconnectPoll was called, behave as if it had said PGRES_POLLING_WRITING.
        watch(pg, .writable)
    }

    /// Sends a statement as soon as the pipeline has room.
    ///
    /// - Parameters:
    ///   - parameters: in text format, for `$1` and on.
    ///   - timeout: from sending, or from the answer before it, to its answer. Then the connection ends, since libpq 15
    ///     cannot cancel without either blocking or dropping encryption.
    ///   - completion: called on the loop, after this call returns unless the statement cannot be sent.
    package func query(
        _ sql: String, _ parameters: [String?] = [], timeout: Duration = .seconds(10),
        _ completion: @escaping Completion
    ) {
        guard let list = CStringList(parameters) else {
            return completion(.failure(PostgresError(.notSent, "a parameter is not a text of PostgreSQL's")))
        }
        enqueue(.text(sql), list, timeout, completion)
    }

    /// Prepares a statement ahead of use, so that an error in it shows early. Otherwise as `query`.
    package func prepare(
        _ statement: PreparedStatement, timeout: Duration = .seconds(10), _ completion: @escaping Completion
    ) {
        enqueue(.prepare(statement), CStringList(), timeout, completion)
    }

    /// Executes a prepared statement; prepares it first if this connection has not. Otherwise as `query`.
    ///
    /// If the server lost the statement or its plan is outdated (26000, 0A000), that error is the answer; the next
    /// execution prepares it again.
    package func execute(
        _ statement: PreparedStatement, _ parameters: CStringList, timeout: Duration = .seconds(10),
        _ completion: @escaping Completion
    ) {
        enqueue(.execute(statement), parameters, timeout, completion)
    }

    private func enqueue(
        _ work: Statement.Work, _ parameters: CStringList, _ timeout: Duration, _ completion: @escaping Completion
    ) {
        guard state == .ready, waiting.count < PostgresLimits.waitingStatementsMax else {
            return completion(.failure(PostgresError(.notSent, "the connection is not ready for a statement")))
        }
        guard parameters.count <= PostgresLimits.parametersMax else {
            return completion(.failure(PostgresError(.notSent, "a statement has too many parameters")))
        }
        waiting.append(Statement(work: work, parameters: parameters, timeout: timeout, completion: completion))
        sendNext()
    }

    /// Ends the connection without calling a handler.
    package func close() {
        guard state != .ended else { return }
        state = .ended
        if let pg, PQsocket(pg) < 0 { loop.descriptorClosed(self) }
        loop.remove(self)
        // Only after the loop has let go of the lookup's descriptor.
        _ = lookUp?.end()
        lookUp = nil
        if let pg { PQfinish(pg) }
        pg = nil
        waiting.removeAll()
        inFlight.removeAll()
        prepared.removeAll()
        answer = nil
    }

    // MARK: Calls of the loop

    package override func ready(_ readiness: Readiness) {
        if state == .resolving { return resolved() }
        guard let pg else { return }
        switch state {
        case .connecting:
            poll(pg)
        case .ready:
            // A hangup is also found by reading, since the server's last words come before it.
            if PQconsumeInput(pg) == 0 { return end(PostgresError(.lost, "the connection to PostgreSQL was lost")) }
            flush(pg)
            drain()
        case .idle, .resolving, .ended:
            break
        }
    }

    package override func deadlineReached() {
        switch state {
        case .resolving: resolved()
        case .connecting: end(PostgresError(.timeout, "PostgreSQL did not answer in time while connecting"))
        case .ready: end(PostgresError(.timeout, "PostgreSQL did not answer a statement in time"))
        case .idle, .ended: break
        }
    }

    // MARK: Connecting

    private func poll(_ pg: OpaquePointer) {
        switch PQconnectPoll(pg) {
        case PGRES_POLLING_READING:
            watch(pg, .readable)
        case PGRES_POLLING_WRITING:
            watch(pg, .writable)
        case PGRES_POLLING_OK:
            guard PQsetnonblocking(pg, 1) == 0, depth == 1 || PQenterPipelineMode(pg) == 1 else {
                return end(PostgresError(connecting: pg))
            }
            state = .ready
            loop.setDeadline(self, nil)
            watch(pg, .readable)
            if state == .ready { handlers.ready() }
        default:
            end(PostgresError(connecting: pg))
        }
    }

    /// Called after every poll, since libpq may have opened another socket, even under the same number.
    private func watch(_ pg: OpaquePointer, _ interest: Readiness) {
        let socket = PQsocket(pg)
        guard socket >= 0 else { return end(PostgresError(connecting: pg)) }
        do {
            try loop.setDescriptor(self, socket, interest)
        } catch {
            end(PostgresError(.lost, "\(error)"))
        }
    }

    // MARK: Statements

    private func sendNext() {
        while let pg, inFlight.count < depth, let next = waiting.popFirst() {
            switch next.work {
            case .text:
                break
            case .prepare(let statement):
                next.name = prepared.add(statement)
            case .execute(let statement):
                guard let name = prepared.name(of: statement) else {
                    // If preparing fails, the execution fails too: the server's error answers it if it was sent
                    // already, and this does otherwise. It would be prepared again and again.
                    let prepare = Statement(
                        work: .prepare(statement), parameters: CStringList(), timeout: next.timeout
                    ) { [weak self] answer in
                        guard let self, case .failure = answer, self.waiting.first === next else { return }
                        _ = self.waiting.popFirst()
                        next.completion(answer)
                    }
                    waiting.prepend(next)
                    waiting.prepend(prepare)
                    continue
                }
                next.name = name
            }
            if inFlight.isEmpty { loop.setDeadline(self, loop.now.advanced(by: next.timeout)) }
            inFlight.append(next)
            guard next.send(pg), depth == 1 || PQpipelineSync(pg) == 1 else {
                return end(PostgresError(.lost, "the connection to PostgreSQL was lost"))
            }
            flush(pg)
        }
    }

    /// libpq.sgml, PQflush: 1 means "wait for the socket to become read- or write-ready". Both must be served: a server
    /// that waits for us to read would otherwise wait for ever.
    private func flush(_ pg: OpaquePointer) {
        switch PQflush(pg) {
        case 0: loop.setInterest(self, .readable)
        case 1: loop.setInterest(self, [.readable, .writable])
        default: end(PostgresError(.lost, "the connection to PostgreSQL was lost"))
        }
    }

    /// Takes out everything that libpq holds, since it may hold data that the socket no longer shows.
    private func drain() {
        // PQgetResult blocks while PQisBusy.
        while let pg, !inFlight.isEmpty, PQisBusy(pg) == 0 {
            // A result that libpq makes itself when the connection breaks would look like the server's refusal.
            if endIfBroken(pg) { return }
            if let result = PQgetResult(pg) {
                keep(result)
            } else if depth == 1 {
                finishStatement()
            } else if !awaitsSync {
                // libpq.sgml, 34.5.1.2: a NULL ends each statement's results; no NULL follows a sync.
                awaitsSync = true
            } else {
                return end(PostgresError(.unexpectedResult, "a pipeline's answers ended before their time"))
            }
        }
        while let pg, let notification = PQnotifies(pg) {
            let value = Notification(
                channel: String(cString: notification.pointee.relname),
                payload: String(cString: notification.pointee.extra))
            PQfreemem(notification)
            handlers.notified(value)
        }
        if let pg { endIfBroken(pg) }
    }

    /// Ends the connection if libpq gave up on it: protocol violations show in no return code and cause no event.
    @discardableResult private func endIfBroken(_ pg: OpaquePointer) -> Bool {
        guard PQsocket(pg) < 0 else { return false }
        end(PostgresError(.lost, "the connection to PostgreSQL was lost"))
        return true
    }

    private func keep(_ result: OpaquePointer) {
        awaitsSync = false
        switch PQresultStatus(result) {
        case PGRES_PIPELINE_SYNC:
            PQclear(result)
            return finishStatement()
        case PGRES_PIPELINE_ABORTED:
            PQclear(result)
            answer = .failure(PostgresError(.statement, "the statement did not run, for one before it had failed"))
            return
        default:
            break
        }
        guard let error = PostgresError(result: result) else {
            let rows = Rows(result)
            if answer == nil { answer = .success(rows) }
            return
        }
        PQclear(result)
        // A COPY would be reported again and again, and its statement would never end.
        guard error.kind != .unexpectedResult else { return end(error) }
        // Also after rows: they were not committed.
        answer = .failure(error.naming(inFlight.first?.function))
    }

    /// The oldest statement in flight is over: its transaction has ended.
    private func finishStatement() {
        guard let statement = inFlight.popFirst() else { return }
        let answer = self.answer ?? .failure(PostgresError(.unexpectedResult, "the statement had no answer"))
        self.answer = nil
        if case .failure(let error) = answer {
            meter?.failed(error)
            prepared.failed(statement, error)
        }
        loop.setDeadline(self, inFlight.first.map { loop.now.advanced(by: $0.timeout) })
        statement.completion(answer)
        // The completion may have sent the next statement, or closed the connection.
        sendNext()
    }

    private func end(_ error: PostgresError) {
        guard state != .ended else { return }
        close()
        handlers.lost(error)
    }
}
