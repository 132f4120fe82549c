import Logging
import Postgres
import Reactor

/// Keeps one connection up: connects, and after a loss connects anew after a pause. One attempt at a time.
final class ConnectionSlot {
    /// A connection that held this long begins its next outage with the shortest pauses.
    private static let provenAfter = Duration.seconds(5)

    struct Handlers {
        /// A new connection is there. What must be said on it first is the owner's to send.
        let opened: (Connection) -> Void
        let notified: (Connection.Notification) -> Void
        /// It is gone; another attempt follows by itself.
        let lost: () -> Void
    }

    private let name: String
    private let loop: EventLoop
    private let parameters: ConnectionParameters
    private let connectTimeout: Duration
    private let logger: Logger
    private let handlers: Handlers
    private var backoff = Backoff()
    private var random = SystemRandomNumberGenerator()
    private var openedAt: Instant?
    private var lastComplaint: String?
    private(set) var connection: Connection?
    private var retry: Alarm?

    /// - Parameter name: what logs call it.
    init(
        _ name: String, loop: EventLoop, parameters: ConnectionParameters, connectTimeout: Duration, logger: Logger,
        handlers: Handlers
    ) throws(ReactorError) {
        self.name = name
        self.loop = loop
        self.parameters = parameters
        self.connectTimeout = connectTimeout
        self.logger = logger
        self.handlers = handlers
        retry = try Alarm(loop) { [weak self] in self?.connect() }
    }

    /// Begins to connect; from now on there is a connection, an attempt or a pause before one.
    func connect() {
        guard connection == nil else { return }
        let connection = Connection(
            loop: loop, parameters: parameters, connectTimeout: connectTimeout,
            handlers: Connection.Handlers(
                ready: { [weak self] in self?.opened() },
                notified: { [weak self] in self?.handlers.notified($0) },
                lost: { [weak self] in self?.lost($0) }))
        self.connection = connection
        connection.connect()
    }

    /// The owner has found the connection good for its purpose.
    func established(_ metadata: Logger.Metadata = [:]) {
        openedAt = loop.now
        lastComplaint = nil
        logger.info("PostgreSQL: \(name) is up", metadata: metadata)
    }

    /// The owner finds the connection bad: drops it and connects anew after a pause.
    func drop(_ error: PostgresError) {
        guard let connection else { return }
        connection.close()
        lost(error)
    }

    private func opened() {
        guard let connection else { return }
        handlers.opened(connection)
    }

    private func lost(_ error: PostgresError) {
        connection = nil
        if let openedAt, loop.now.duration(since: openedAt) >= Self.provenAfter { backoff.reset() }
        openedAt = nil
        let pause = backoff.next(using: &random)
        retry?.set(after: pause)
        complain(error)
        handlers.lost()
    }

    /// Once for each thing that is wrong, not for each attempt.
    private func complain(_ error: PostgresError) {
        let complaint = error.description
        guard complaint != lastComplaint else { return }
        lastComplaint = complaint
        let level: Logger.Level = error.advice == .operatorNeeded || error.advice == .rejected ? .error : .warning
        logger.log(
            level: level, "PostgreSQL: \(name) is down: \(complaint); trying again",
            metadata: ["server": "\(parameters.summary)"])
    }
}
