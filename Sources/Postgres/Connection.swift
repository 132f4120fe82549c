import CPostgres
import Reactor

/// libpq on an event loop: one connection to PostgreSQL, never waiting, one statement at a time.
///
/// Lifecycle: `connect()` → `Handlers.ready` → statements, notifications → `close()`, or `Handlers.lost`, once.
/// A connection that has ended is thrown away; who wants another makes another, after a pause (`Backoff`).
///
/// Invariants:
/// - The loop lets go of the socket before libpq closes it.
/// - A statement's completion is called at most once, in the order of the statements, and never after the end of the
///   connection: what `lost` finds unanswered may or may not have been carried out.
/// - After `close()`, which any handler may call, no handler is called.
///
/// One statement at a time is a matter of `sendNext` and `finishStatement` alone: a pipeline keeps the same queue.
///
/// Resolving a host's name blocks the loop inside libpq; strings with `hostaddr` or a socket's folder do not.
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

    /// Valid transitions: idle → connecting → ready → ended; any → ended.
    private enum State { case idle, connecting, ready, ended }

    private struct Statement {
        let sql: String
        let parameters: CStringList
        let timeout: Duration
        let completion: Completion
    }

    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connectTimeout: Duration
    private let handlers: Handlers
    private var state = State.idle
    private var pg: OpaquePointer?
    private var waiting: ContiguousArray<Statement> = []
    private var underWay: Statement?
    /// What has come of the statement under way; a statement has one result, its error or its rows.
    private var answer: Result<Rows, PostgresError>?

    /// - Parameter connectTimeout: from `connect()` to `ready`; libpq's own is not in force on this path.
    package init(
        loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration = .seconds(10), handlers: Handlers
    ) {
        self.loop = loop
        self.parameters = parameters
        self.connectTimeout = connectTimeout
        self.handlers = handlers
    }

    deinit {
        if let pg { PQfinish(pg) }
    }

    /// Whether statements may be sent.
    package var isReady: Bool { state == .ready }
    /// Whether no statement is under way or waiting.
    package var isIdle: Bool { underWay == nil && waiting.isEmpty }
    /// The server process, for tests and logs; 0 before `ready`.
    package var backendPID: Int32 { pg.map { PQbackendPID($0) } ?? 0 }

    /// Begins to connect. Once.
    package func connect() {
        precondition(state == .idle, "a connection connects once")
        state = .connecting
        do {
            try loop.add(self)
        } catch {
            return end(PostgresError(.connecting, "\(error)"))
        }
        loop.setDeadline(self, loop.now.advanced(by: connectTimeout))
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

    /// Sends a statement when those before it have been answered.
    ///
    /// - Parameters:
    ///   - parameters: in text format, for `$1` and on.
    ///   - timeout: from sending it to its answer; past that the connection ends, for libpq 15 has no way to cancel
    ///     that neither waits nor forgets encryption.
    ///   - completion: called on the loop, later than this call except where the statement is not sent at all.
    package func query(
        _ sql: String, _ parameters: [String?] = [], timeout: Duration = .seconds(10),
        _ completion: @escaping Completion
    ) {
        guard state == .ready, waiting.count < PostgresLimits.waitingStatementsMax else {
            return completion(.failure(PostgresError(.notSent, "the connection is not ready for a statement")))
        }
        guard parameters.count <= PostgresLimits.parametersMax, let list = CStringList(parameters) else {
            return completion(.failure(PostgresError(.notSent, "a parameter is not a text of PostgreSQL's")))
        }
        waiting.append(Statement(sql: sql, parameters: list, timeout: timeout, completion: completion))
        if underWay == nil { sendNext() }
    }

    /// Ends the connection without a word to the handlers.
    package func close() {
        guard state != .ended else { return }
        state = .ended
        loop.remove(self)
        if let pg { PQfinish(pg) }
        pg = nil
        waiting.removeAll()
        underWay = nil
        answer = nil
    }

    // MARK: Calls of the loop

    package override func ready(_ readiness: Readiness) {
        guard let pg else { return }
        switch state {
        case .connecting:
            poll(pg)
        case .ready:
            // A hangup too is found by reading: what the server said last comes before it.
            if PQconsumeInput(pg) == 0 { return end(PostgresError(.lost, "the connection to PostgreSQL was lost")) }
            flush(pg)
            drain()
        case .idle, .ended:
            break
        }
    }

    package override func deadlineReached() {
        switch state {
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
            guard PQsetnonblocking(pg, 1) == 0 else { return end(PostgresError(connecting: pg)) }
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
        while underWay == nil, let pg, !waiting.isEmpty {
            let next = waiting.removeFirst()
            underWay = next
            let sent = next.parameters.withPointers { values in
                PQsendQueryParams(pg, next.sql, Int32(next.parameters.count), nil, values, nil, nil, 0)
            }
            guard sent == 1 else { return end(PostgresError(.lost, "the connection to PostgreSQL was lost")) }
            loop.setDeadline(self, loop.now.advanced(by: next.timeout))
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
        while let pg, underWay != nil, PQisBusy(pg) == 0 {
            guard let result = PQgetResult(pg) else {
                finishStatement()
                continue
            }
            keep(result)
        }
        while let pg, let notification = PQnotifies(pg) {
            let value = Notification(
                channel: String(cString: notification.pointee.relname),
                payload: String(cString: notification.pointee.extra))
            PQfreemem(notification)
            handlers.notified(value)
        }
    }

    private func keep(_ result: OpaquePointer) {
        guard let error = PostgresError(result: result) else {
            answer = .success(Rows(result))
            return
        }
        PQclear(result)
        // A copy would be reported again and again, and its statement never end.
        guard error.kind != .unexpectedResult else { return end(error) }
        answer = .failure(error)
    }

    private func finishStatement() {
        guard let statement = underWay else { return }
        let answer = self.answer ?? .failure(PostgresError(.unexpectedResult, "the statement had no answer"))
        underWay = nil
        self.answer = nil
        loop.setDeadline(self, nil)
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
