import Bytes
import CPostgres
import Clock
import Reactor

/// libpq on an event loop: one connection to PostgreSQL, never waiting. One statement at a time, or a pipeline of them.
///
/// Lifecycle: `connect()` → `Handlers.ready` → statements, notifications → `close()`, or `Handlers.lost`, once.
/// A connection that has ended is thrown away; who wants another makes another, after a pause (`Backoff`).
///
/// Invariants:
/// - The loop lets go of the socket before libpq closes it; where libpq closes it by itself, nobody touches its number
///   again, and the connection ends.
/// - A statement's completion is called at most once, in the order of the statements, and never after the end of the
///   connection: what `lost` finds unanswered may or may not have been carried out.
/// - Each statement is a transaction of its own, and success is told only after its commit: in a pipeline every
///   statement has its own sync, and its rows come before that, while a deferred constraint may still refuse them.
/// - After `close()`, which any handler may call, no handler is called.
///
/// libpq would resolve a host's name on the loop, and wait: that is done before (`HostResolver`), and libpq gets addresses.
/// Only a host that stands in a service file is left to it.
package final class Connection: EventSource {
    /// What the connection tells its owner. Called on the loop; the closures must not keep the owner alive.
    package struct Handlers {
        let ready: () -> Void
        let notified: (Notification) -> Void
        let lost: (PostgresError) -> Void

        /// - Parameters:
        ///   - ready: connected and authenticated; statements may be sent.
        ///   - notified: a NOTIFY of a channel that this connection listens to.
        ///   - lost: never connected, or no longer. The last call.
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

    /// A NOTIFY as it came.
    package struct Notification: Sendable, Equatable {
        package let channel: String
        package let payload: String
    }

    /// Gets the rows or the server's refusal.
    package typealias Completion = (Result<Rows, PostgresError>) -> Void

    /// Valid transitions: idle → resolving → connecting → ready → ended; idle → connecting; any → ended.
    private enum State { case idle, resolving, connecting, ready, ended }

    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connectTimeout: Duration
    private let depth: Int
    private let resolver: HostResolver
    /// The names that are being resolved.
    private var lookUp: HostLookUp?
    /// When connecting must have ended.
    private var connectEnd = Instant(nanoseconds: 0)
    private let handlers: Handlers
    private let meter: ConnectionMeter?
    private var state = State.idle
    private var pg: OpaquePointer?
    private var waiting = Fifo<Statement>()
    /// Sent and not answered: at most `depth`, the oldest first. Results come in this order.
    private var inFlight = Fifo<Statement>()
    /// What has come of the oldest statement in flight: its rows or its error, an error after the rows included.
    private var answer: Result<Rows, PostgresError>?
    /// In a pipeline: the results of the oldest statement have ended, and only its sync is still to come.
    private var awaitsSync = false
    private var prepared = PreparedNames()

    /// - Parameters:
    ///   - connectTimeout: from `connect()` to `ready`; libpq's own is not in force on this path.
    ///   - depth: statements sent before the first of them is answered. 1 is no pipeline, and the only depth at which
    ///     notifications come without delay.
    ///   - meter: counts the statements that fail.
    package convenience init(
        loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration = .seconds(10), depth: Int = 1,
        meter: ConnectionMeter? = nil, handlers: Handlers
    ) {
        self.init(
            loop: loop, parameters: parameters, connectTimeout: connectTimeout, depth: depth, resolver: .system,
            meter: meter, handlers: handlers)
    }

    /// The same, with names resolved by `resolver`.
    init(
        loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration, depth: Int = 1,
        resolver: HostResolver, meter: ConnectionMeter? = nil, handlers: Handlers
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
    /// Whether no statement is under way or waiting.
    package var isIdle: Bool { inFlight.isEmpty && waiting.isEmpty }
    /// The server process, for tests and logs; 0 before `ready`.
    package var backendPID: Int32 { pg.map { PQbackendPID($0) } ?? 0 }

    /// Begins to connect. Once.
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
            // One name that hangs must not keep the hub from the other hosts.
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
        // Before its descriptor is closed, with the last reference.
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

    /// Sends a statement when those before it have been answered, or so many of them that there is room in the pipeline.
    ///
    /// - Parameters:
    ///   - parameters: in text format, for `$1` and on.
    ///   - timeout: from sending it, or from the answer to the one before it, to its answer; past that the connection
    ///     ends, for libpq 15 has no way to cancel that neither waits nor forgets encryption.
    ///   - completion: called on the loop, later than this call except where the statement is not sent at all.
    package func query(
        _ sql: String, _ parameters: [String?] = [], timeout: Duration = .seconds(10),
        _ completion: @escaping Completion
    ) {
        guard let list = CStringList(parameters) else {
            return completion(.failure(PostgresError(.notSent, "a parameter is not a text of PostgreSQL's")))
        }
        enqueue(.text(sql), list, timeout, completion)
    }

    /// Prepares a statement before anybody needs it, and so learns what is wrong with it. As `query` otherwise.
    package func prepare(
        _ statement: PreparedStatement, timeout: Duration = .seconds(10), _ completion: @escaping Completion
    ) {
        enqueue(.prepare(statement), CStringList(), timeout, completion)
    }

    /// Executes a prepared statement; prepares it before, where this connection has not yet. As `query` otherwise.
    ///
    /// Where the server has forgotten it or its plan is out of date (26000, 0A000), that is the answer, and the next
    /// execution prepares it anew.
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

    /// Ends the connection without a word to the handlers.
    package func close() {
        guard state != .ended else { return }
        state = .ended
        if let pg, PQsocket(pg) < 0 { loop.descriptorClosed(self) }
        loop.remove(self)
        // After the loop has let go of its descriptor.
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
            // A hangup too is found by reading: what the server said last comes before it.
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

    /// After every poll, for libpq may have taken another socket, even under the same number.
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
                    // Should it fail, the execution does too.
                    let prepare = Statement(
                        work: .prepare(statement), parameters: CStringList(), timeout: next.timeout,
                        completion: { _ in })
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

    /// libpq.sgml, PQflush: 1 means "wait for the socket to become read- or write-ready", and both are to be served,
    /// or a server that waits for us to read would wait for ever.
    private func flush(_ pg: OpaquePointer) {
        switch PQflush(pg) {
        case 0: loop.setInterest(self, .readable)
        case 1: loop.setInterest(self, [.readable, .writable])
        default: end(PostgresError(.lost, "the connection to PostgreSQL was lost"))
        }
    }

    /// Takes out all that libpq holds: it may hold what the socket no longer shows.
    private func drain() {
        // PQgetResult waits while PQisBusy, so never then.
        while let pg, !inFlight.isEmpty, PQisBusy(pg) == 0 {
            // An answer that libpq makes itself looks like a refusal by the server, which this is not.
            if endIfBroken(pg) { return }
            if let result = PQgetResult(pg) {
                keep(result)
            } else if depth == 1 {
                finishStatement()
            } else if !awaitsSync {
                // libpq.sgml, 34.5.1.2: a NULL ends each statement's results, and none follows a sync.
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

    /// Ends the connection if libpq has given it up: bytes that are no protocol of PostgreSQL's show in no return code,
    /// and no event follows.
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
        // A copy would be reported again and again, and its statement never end.
        guard error.kind != .unexpectedResult else { return end(error) }
        // Also after rows: they were not committed then.
        answer = .failure(error)
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
        // The completion may have sent the next one, or closed.
        sendNext()
    }

    private func end(_ error: PostgresError) {
        guard state != .ended else { return }
        close()
        handlers.lost(error)
    }
}
