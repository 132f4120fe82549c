import Bytes
import Clock
import Logging
import Reactor

/// One connection of a pool: a pipeline of requests, or leased to one holder.
final class PooledConnection {
    private static let setTimeout = PreparedStatement("SELECT set_config('statement_timeout', $1, false)")

    private unowned let pool: RequestPool
    private let loop: EventLoop
    private let settings: PoolSettings
    private var slot: ConnectionSlot?
    /// Requests in flight, the oldest first.
    private(set) var underWay = Fifo<Request>()
    /// Since when the oldest has been executing, as far as the hub can tell.
    private var oldestSince = Instant(nanoseconds: 0)
    /// Whether the request in flight must be alone on the connection: it was lost before, or it is a batch.
    private var isAlone = false
    /// The server's statement timeout where it differs from the pool's.
    private var timeout: Duration?
    /// Why the connection will be dropped once nothing is in flight.
    private var reasonToLeave: PostgresError?
    private(set) var isUp = false
    /// Whether nothing new is sent, because a lease or the suspects need the connection.
    var isReserved = false
    private(set) var lease: Lease?
    /// One closure for all statements, since answers come in the order of sending.
    private var completion: Connection.Completion = { _ in }
    private var isSending = false

    init(
        _ name: String, _ pool: RequestPool, _ loop: EventLoop, _ parameters: ConnectionParameters,
        _ settings: PoolSettings, _ logger: Logger, _ meter: PostgresConnectionMetrics
    ) throws(ReactorError) {
        self.pool = pool
        self.loop = loop
        self.settings = settings
        completion = { [weak self] in self?.answered($0) }
        slot = try ConnectionSlot(
            name, loop: loop, parameters: parameters, connectTimeout: settings.connectTimeout, depth: settings.depth,
            logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] in self?.opened($0) }, lost: { [weak self] in self?.wasLost() }))
    }

    var load: Int { underWay.count }

    /// Whether it carries out a batch.
    var hasBatch: Bool { underWay.first is RequestBatch }

    /// Whether a request sent now would be answered soon.
    func isFree(at now: Instant) -> Bool {
        isUp && !isReserved && load < settings.depth && (load == 0 || !isAlone && !isSlow(at: now))
    }

    /// Whether the oldest statement in flight is slow.
    func isSlow(at now: Instant) -> Bool { now.duration(since: oldestSince) >= PostgresLimits.patience }

    /// Takes back the requests behind the oldest one. Placeholders discard the answers that still come here.
    func takeBackWaiting() -> [Request] {
        guard let oldest = underWay.popFirst() else { return [] }
        var taken: [Request] = []
        while let request = underWay.popFirst() { taken.append(request) }
        underWay.append(oldest)
        for request in taken {
            underWay.append(Request(.init(kind: request.kind, of: request.user, request.statement)))
        }
        return taken
    }

    func start() { slot?.connect() }

    func send(_ request: Request) {
        if underWay.isEmpty {
            oldestSince = loop.now
            isAlone = request.mayBeDone || request is RequestBatch
        }
        underWay.append(request)
        // A request that could not be sent counts as lost, so that it is never left without an answer.
        guard let connection = slot?.connection else { return wasLost() }
        if request.timeout != timeout { set(request.timeout, connection) }
        isSending = true
        connection.execute(
            request.statement, request.parameters, timeout: settings.statementTimeout + .seconds(1), completion)
        isSending = false
    }

    /// Sets the statement timeout for the statements that follow: `timeout`, or the pool's if nil or longer.
    private func set(_ timeout: Duration?, _ connection: Connection) {
        self.timeout = timeout
        let setting = min(timeout ?? settings.statementTimeout, settings.statementTimeout).setting
        connection.execute(
            Self.setTimeout, CStringList([setting]) ?? CStringList(), timeout: settings.statementTimeout
        ) { [weak self] answer in
            if case .failure(let error) = answer { self?.drop(error) }
        }
    }

    /// Ends the connection; the slot makes another. The pool gets the requests in flight, with `request` first if given.
    func drop(_ error: PostgresError, with request: Request? = nil) {
        if let request { underWay.prepend(request) }
        slot?.drop(error)
    }

    /// Ends the connection when the requests in flight have been answered; nothing more is sent on it.
    func leave(_ reason: PostgresError) {
        isUp = false
        reasonToLeave = reason
        leaveWhereIdle()
    }

    private func leaveWhereIdle() {
        guard let reasonToLeave, underWay.isEmpty else { return }
        slot?.drop(reasonToLeave)
    }

    // MARK: Leases

    /// Gives the connection to the lease. Precondition: it is reserved and nothing is in flight.
    func give(to lease: Lease) {
        guard let connection = slot?.connection else { return lease.wasLost() }
        self.lease = lease
        lease.isGiven(connection, by: self)
    }

    /// Takes the connection back when the lease ends: an open transaction is rolled back.
    func takeBack() {
        slot?.need("ROLLBACK", timeout: settings.statementTimeout) { [weak self] _ in
            self?.lease = nil
            self?.isReserved = false
            self?.pool.hasRoom()
        }
    }

    // MARK: Calls of the slot

    private func opened(_ connection: Connection) {
        slot?.need(settings.greeting.sql, settings.greeting.parameters, timeout: settings.statementTimeout) {
            [weak self] rows in
            guard let self else { return }
            if let complaint = settings.complaint(rows) { return drop(complaint) }
            if settings.prepared.isEmpty { established() }
        }
        for statement in settings.prepared {
            connection.prepare(statement, timeout: settings.statementTimeout) { [weak self] in
                guard let self else { return }
                switch $0 {
                case .failure(let error): drop(error)
                case .success: if statement === settings.prepared.last { established() }
                }
            }
        }
    }

    private func established() {
        isUp = true
        slot?.established()
        pool.cameUp()
    }

    private func answered(_ answer: Result<Rows, PostgresError>) {
        // The answer of a statement that could not be sent at all; that request is behind those that were sent.
        if isSending, case .failure(let error) = answer { return drop(error) }
        guard let request = underWay.popFirst() else { return }
        oldestSince = loop.now
        pool.answered(self, request, answer)
        leaveWhereIdle()
    }

    private func wasLost() {
        isUp = false
        isReserved = false
        reasonToLeave = nil
        timeout = nil
        let lost = exchange(&underWay, with: Fifo())
        let lease = exchange(&self.lease, with: nil)
        pool.lost(lost)
        lease?.wasLost()
    }
}
