import Clock
import Logging
import Metrics
import Reactor

/// Keeps one connection up: connects, and after a loss connects anew after a pause. One attempt at a time.
package final class ConnectionSlot {
    /// A connection that held this long begins its next outage with the shortest pauses.
    private static let provenAfter = Duration.seconds(5)

    /// What the slot tells its owner. Called on the loop; the closures must not keep the owner alive.
    package struct Handlers {
        let opened: (Connection) -> Void
        let notified: (Connection.Notification) -> Void
        let lost: () -> Void

        /// - Parameters:
        ///   - opened: a new connection is there; what must be said on it first is the owner's to send.
        ///   - notified: a NOTIFY of a channel that it listens to.
        ///   - lost: it is gone, or was not to be had; another attempt follows by itself.
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

    private let name: String
    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connectTimeout: Duration
    private let depth: Int
    private let logger: Logger
    private let handlers: Handlers
    private let meter: ConnectionMeter?
    private var wasEstablished = false
    private var backoff = Backoff()
    private var random = SystemRandomNumberGenerator()
    private var openedAt: Instant?
    private let complaints: LogDeduplicator
    /// The connection, from the attempt to make it until it is lost.
    package private(set) var connection: Connection?
    private var retry: Alarm?

    /// - Parameters:
    ///   - name: what logs call it.
    ///   - depth: statements sent ahead, as `Connection` has it.
    ///   - meter: counts the connection among those of its role.
    package init(
        _ name: String, loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration, depth: Int = 1,
        logger: Logger, meter: ConnectionMeter? = nil, handlers: Handlers
    ) throws(ReactorError) {
        self.name = name
        self.loop = loop
        self.parameters = parameters
        self.connectTimeout = connectTimeout
        self.depth = depth
        self.logger = logger
        self.handlers = handlers
        self.meter = meter
        complaints = meter?.complaints ?? LogDeduplicator()
        meter?.slots.add(1)
        retry = try Alarm(loop) { [weak self] in self?.connect() }
    }

    deinit {
        meter?.slots.add(-1)
        if openedAt != nil { meter?.up.add(-1) }
    }

    /// Begins to connect; from now on there is a connection, an attempt or a pause before one.
    package func connect() {
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

    /// The owner has found the connection good for its purpose.
    package func established(_ metadata: Logger.Metadata = [:]) {
        if openedAt == nil { meter?.up.add(1) }
        if wasEstablished { meter?.reconnects.add() }
        wasEstablished = true
        openedAt = loop.now
        complaints.forget()
        logger.info("PostgreSQL: \(name) is up", metadata: metadata)
    }

    /// The owner finds the connection bad: drops it and connects anew after a pause.
    package func drop(_ error: PostgresError) {
        guard let connection else { return }
        connection.close()
        lost(error)
    }

    /// Sends a statement without which the connection is of no use: should it fail, another one is made. As
    /// `Connection.query` otherwise.
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

    private func opened() {
        guard let connection else { return }
        handlers.opened(connection)
    }

    private func lost(_ error: PostgresError) {
        connection = nil
        // What a statement met is counted where it was met.
        if error.kind != .statement { meter?.failed(error) }
        if openedAt != nil { meter?.up.add(-1) }
        if let openedAt, loop.now.duration(since: openedAt) >= Self.provenAfter { backoff.reset() }
        openedAt = nil
        let pause = backoff.next(using: &random)
        retry?.set(after: pause)
        complain(error)
        handlers.lost()
    }

    /// Once for each thing that is wrong, not for each attempt nor each connection.
    private func complain(_ error: PostgresError) {
        let complaint = error.description
        guard complaints.isNew(complaint) else { return }
        let level: Logger.Level = error.isPassing ? .warning : .error
        logger.log(
            level: level, "PostgreSQL: \(name) is down: \(complaint); trying again (told once for all connections)",
            metadata: ["server": "\(parameters.summary)"])
    }
}
