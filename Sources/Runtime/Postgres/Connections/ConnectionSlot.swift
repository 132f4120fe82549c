import Clock
import Logging
import Metrics
import Reactor

/// Keeps one connection up: reconnects after a loss and a pause. One attempt at a time.
package final class ConnectionSlot {
    /// After a connection held this long, the next outage starts with the shortest pauses.
    private static let provenAfter = Duration.seconds(5)

    /// What the slot tells its owner. Called on the loop; the closures must not keep the owner alive.
    package struct Handlers {
        let opened: (Connection) -> Void
        let notified: (Connection.Notification) -> Void
        let lost: () -> Void

        /// - Parameters:
        ///   - opened: a new connection is up; the owner sends what it needs first.
        ///   - notified: a NOTIFY on a channel that it listens to.
        ///   - lost: the connection was lost or could not be made; the slot tries again by itself.
        package init(
            opened: @escaping (Connection) -> Void,
            notified: @escaping (Connection.Notification) -> Void = { _ in },
            lost: @escaping () -> Void
        ) {
            self.opened = opened
            self.notified = notified
            self.lost = lost
        }
    }

    /// One statement that makes a new connection fit for use.
    package struct Greeting {
        let sql: String
        let parameters: [String?]
        let timeout: Duration

        /// A statement with its parameters, and how long it may take.
        package init(_ sql: String, _ parameters: [String?], timeout: Duration) {
            (self.sql, self.parameters, self.timeout) = (sql, parameters, timeout)
        }
    }

    private let name: String
    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connectTimeout: Duration
    private let depth: Int
    private let logger: Logger
    private let handlers: Handlers
    private let greeting: Greeting?
    private let meter: PostgresConnectionMetrics?
    private var wasEstablished = false
    private var backoff = Backoff()
    private var random = SystemRandomNumberGenerator()
    private var openedAt: Instant?
    private let complaints: LogDeduplicator
    /// The connection, from the attempt to make it until its loss.
    package private(set) var connection: Connection?
    private var check: SessionCheck?
    private var retry: Alarm?

    /// Whether the connection is fit for use.
    package var isUp: Bool { openedAt != nil }

    /// - Parameters:
    ///   - name: its name in logs.
    ///   - depth: statements in flight, as for `Connection`.
    ///   - meter: counts the connection under its role.
    ///   - greeting: comes before `opened`, and its answer establishes the connection.
    package init(
        _ name: String, loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration, depth: Int = 1,
        logger: Logger, meter: PostgresConnectionMetrics? = nil, greeting: Greeting? = nil, handlers: Handlers
    ) throws(ReactorError) {
        self.name = name
        self.loop = loop
        self.parameters = parameters
        self.connectTimeout = connectTimeout
        self.depth = depth
        self.logger = logger
        self.handlers = handlers
        self.greeting = greeting
        self.meter = meter
        complaints = meter?.complaints ?? LogDeduplicator()
        meter?.slots.add(1)
        retry = try Alarm(loop) { [weak self] in self?.attempt() }
    }

    deinit {
        meter?.slots.add(-1)
        if openedAt != nil { meter?.up.add(-1) }
    }

    /// Starts connecting, at the process's pace. From then on the slot has a connection, an attempt or a pause before one.
    package func connect() {
        guard connection == nil else { return }
        let wait = ConnectPace.process.wait(at: loop.now)
        if wait > .zero { retry?.set(after: wait) } else { attempt() }
    }

    private func attempt() {
        guard connection == nil else { return }
        let connection = Connection(
            loop: loop, parameters: parameters, connectTimeout: connectTimeout, depth: depth, meter: meter,
            handlers: Connection.Handlers(
                ready: { [weak self] in self?.opened() },
                notified: { [weak self] in self?.handlers.notified($0) },
                lost: { [weak self] in self?.lost($0) }))
        self.connection = connection
        connection.connect()
    }

    /// The owner has found the connection fit for use.
    package func established(_ metadata: Logger.Metadata = [:]) {
        if openedAt == nil { meter?.up.add(1) }
        if wasEstablished { meter?.reconnects.add() }
        wasEstablished = true
        openedAt = loop.now
        complaints.forget(name)
        logger.info("PostgreSQL: \(name) is up", metadata: metadata)
    }

    /// The owner has found the connection unfit: drops it and reconnects after a pause.
    package func drop(_ error: PostgresError) {
        guard let connection else { return }
        connection.close()
        lost(error)
    }

    /// Sends a statement as `Connection.query`, and drops the connection if it fails.
    package func need(
        _ sql: String, _ parameters: [String?] = [], timeout: Duration, done: @escaping (Rows) -> Void = { _ in }
    ) {
        connection?.query(sql, parameters, timeout: timeout) { [weak self] answer in
            switch answer {
            case .failure(let error): self?.drop(error)
            case .success(let rows): done(rows)
            }
        }
    }

    /// A statement of the owner has failed: leaves a connection that is at fault, or whose server writes nothing any more.
    package func failed(_ error: PostgresError) {
        if error.isOfConnection || error.advice == .readOnly { drop(error) }
    }

    private func opened() {
        guard let connection else { return }
        check = SessionCheck(loop, parameters, connection) { [weak self] error in
            self?.check = nil
            if let error { self?.drop(error) } else { self?.checked() }
        }
        check?.start()
    }

    private func checked() {
        guard let connection else { return }
        guard let greeting else { return handlers.opened(connection) }
        need(greeting.sql, greeting.parameters, timeout: greeting.timeout) { [weak self] _ in
            guard let self, let connection = self.connection else { return }
            established()
            handlers.opened(connection)
        }
    }

    private func lost(_ error: PostgresError) {
        connection = nil
        check?.close()
        check = nil
        // Errors of statements were counted when they were met.
        if error.kind != .statement { meter?.failed(error) }
        if openedAt != nil { meter?.up.add(-1) }
        if let openedAt, loop.now.duration(since: openedAt) >= Self.provenAfter { backoff.reset() }
        openedAt = nil
        let pause = backoff.next(using: &random)
        retry?.set(after: pause)
        complain(error)
        handlers.lost()
    }

    /// Logs each distinct failure once, not for each attempt or connection.
    private func complain(_ error: PostgresError) {
        let complaint = error.description
        guard complaints.isNew(complaint, of: name) else { return }
        let level: Logger.Level = error.isPassing ? .warning : .error
        logger.log(
            level: level, "PostgreSQL: \(name) is down: \(complaint); trying again (told once for all connections)",
            metadata: ["server": "\(parameters.summary)"])
    }
}
