import Bytes
import Clock
import Logging
import Reactor

/// A fixed number of pipelined connections that carry requests. Users are served in turn within a kind, and each kind has
/// its own bounds. Belongs to one loop. Every input only changes state; `pump`, called at the end of the tick, sends.
///
/// Invariants:
/// - A request is told its answer or its end. An accepted request is told one of them by its deadline.
/// - In a serial kind, one request of a user is in flight at a time. They are carried out in order on any connections, and
///   a locked user costs one lock timeout at a time (`FairQueue`).
/// - A request in flight on a lost connection may or may not have been carried out. It is sent again before any later
///   request of its user, unless its time is over. A request that changes data must be safe to execute twice.
/// - A request lost together with others is next sent alone, and only a loss alone is held against it. So a request that
///   ends every connection ends by itself and not the others beside it. The oldest unanswered request may be innocent:
///   libpq forgets answers it has read when it finds the connection lost while sending, and the network may lose answers
///   too (`answersThatAreLostAreHeldAgainstNobody`).
/// - A read behind a slow statement is taken back and sent on an idle connection. So a read waits for another user's
///   statement no longer than for a free connection plus a moment. Worst interleaving: the second connection comes up, or
///   is given back, just after the read was sent behind the slow one on the first (`aRequestBehindASlowReadIsTakenBack`).
/// - One request of all suspects is in flight at a time; if there are several connections, it has one to itself.
package final class RequestPool {
    private static let sweepInterval = Duration.milliseconds(250)
    /// Requests in flight on a connection that keep it busy for a while.
    private static let crowd = 6

    private let loop: EventLoop
    private let settings: PoolSettings
    private let opened: () -> Void
    private let changed: () -> Void
    private var queues: [FairQueue<TextKey, Request>]
    /// For each kind, how many requests may be sent before a later kind must have its turn.
    private var credits: [Int]
    private var connections: [PooledConnection] = []
    private var suspects = Suspects()
    private var suspectUnderWay: Request?
    /// The connection reserved for suspects while there are any.
    private var quarantine: PooledConnection?
    private var leases = Fifo<Lease>()
    /// Gets no new requests, so that it becomes idle for the next lease.
    private var drained: PooledConnection?
    private var outage = Outage()
    private var sweep: Alarm?
    private var isSweepSet = false
    private var isStopping = false

    /// Makes the connections, which stay up from `start` on. The closures must not keep the pool's owner alive.
    ///
    /// - Parameters:
    ///   - opened: a connection has come up.
    ///   - changed: `pump` may have something to do.
    package init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ settings: PoolSettings, _ logger: Logger,
        opened: @escaping () -> Void = {}, changed: @escaping () -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.settings = settings
        self.opened = opened
        self.changed = changed
        queues = settings.kinds.map { FairQueue($0.bounds, isSerial: $0.isSerial) }
        credits = settings.kinds.map(\.weight)
        for (name, meter) in settings.connections {
            connections.append(try PooledConnection(name, self, loop, parameters, settings, logger, meter))
        }
        sweep = try Alarm(loop) { [weak self] in self?.sweepDue() }
    }

    /// Opens the connections. Called once, on the loop's thread.
    package func start() {
        for connection in connections { connection.start() }
    }

    /// Whether requests can be sent at all.
    package var isUp: Bool { up > 0 }
    /// The number of connections on which requests can be sent.
    package var up: Int { connections.count { $0.isUp } }
    /// Whether every connection is lost or failed to connect.
    package var isAway: Bool { outage.isOn }
    /// Requests in the queues.
    package var waiting: Int {
        var count = 0
        // By index: iterating would retain a copy of each queue.
        for kind in queues.indices { count += queues[kind].count }
        return count
    }
    /// Requests in the queues and in flight.
    package var count: Int {
        var count = waiting
        for index in connections.indices { count += connections[index].load }
        return count
    }
    /// Whether nothing is queued or in flight.
    package var isIdle: Bool { queues.allSatisfy { $0.count == 0 && $0.underWay == 0 } }
    /// Whether so much is in flight on each connection that none runs dry in a few milliseconds, and more requests wait.
    package var isCrowded: Bool {
        guard waiting > 0, isUp else { return false }
        return connections.allSatisfy { !$0.isUp || $0.load >= Self.crowd }
    }
    /// Whether a queued request could be sent now.
    package var wantsTurn: Bool { waiting > 0 && freest() != nil }

    /// How long to stay away while there is no connection; it grows with the outage (`Outage`).
    package func pause(atLeast least: Duration) -> Duration { outage.pause(atLeast: least, at: loop.now) }

    /// Accepts a request, or tells it at once why not.
    @discardableResult package func append(_ request: Request) -> Bool {
        if let end = refusal(request) {
            request.end(end)
            return false
        }
        if !isSweepSet {
            isSweepSet = true
            sweep?.set(after: Self.sweepInterval)
        }
        return true
    }

    private func refusal(_ request: Request) -> RequestFailure? {
        if outage.isOn, settings.outages != .waitedOut { return .away }
        if let (pause, reason) = suspects.hold(of: request.user, at: loop.now) { return .held(pause, reason) }
        request.line = queues[request.kind].append(
            request, of: request.user, cost: request.parameters.byteCount, isApart: suspects.contains(request.user))
        return request.line == nil ? .full : nil
    }

    /// Ends the queued requests for which `isOver` is true.
    package func end(_ end: RequestFailure, where isOver: (Request) -> Bool) {
        for kind in queues.indices {
            for request in queues[kind].remove(where: isOver) { request.end(end) }
        }
    }

    /// Ends the queued requests. Requests in flight get their answers, unless their connection is lost.
    package func stop() {
        isStopping = true
        end(.stopping) { _ in true }
    }

    /// Ends the requests in flight too, although they may be carried out.
    package func abandon() {
        for connection in connections {
            for index in 0..<connection.underWay.count { connection.underWay[index].end(.stopping) }
        }
    }

    /// Whether a lease can be had, now or after earlier leases: one connection that is up stays for requests.
    package var canLease: Bool { settings.leasesMax > 0 && connections.count { $0.isUp } > 1 }

    /// Asks for a connection, in order; given when one is idle. `lost` is called if none can be leased, or no longer.
    package func lease(_ handlers: Lease.Handlers) -> Lease {
        let lease = Lease(handlers)
        if canLease, leases.count < PostgresLimits.leasesWaitingMax { leases.append(lease) } else { lease.wasLost() }
        changed()
        return lease
    }

    // MARK: Out

    /// Sends what can be sent. Costs almost nothing if nothing is queued.
    package func pump() {
        guard waiting > 0 || !leases.isEmpty || drained != nil || quarantine != nil else { return }
        if !suspects.isEmpty || quarantine != nil { pumpSuspects() }
        if !leases.isEmpty || drained != nil { pumpLeases() }
        while let connection = freest(), let request = next(for: connection) { send(request, connection) }
    }

    /// The next request: of the first kind that has one and some credit left. Nil also if the request must be sent alone
    /// while the connection, the least busy one, has something in flight: it then gets nothing until it is idle.
    private func next(for connection: PooledConnection) -> Request? {
        for _ in 0..<2 {
            for kind in queues.indices where credits[kind] > 0 {
                while let request = queues[kind].next() {
                    if request.mayBeDone, connection.load > 0 {
                        putBack(request)
                        return nil
                    }
                    guard request.willBeSent() else {
                        finish(request)
                        continue
                    }
                    credits[kind] -= 1
                    guard let batching = settings.kinds[kind].batching, takesBatch(connection) else { return request }
                    return queues[kind].joined(request, batching)
                }
            }
            for kind in queues.indices { credits[kind] = settings.kinds[kind].weight }
        }
        return nil
    }

    /// Of several connections, one stays free of batches.
    private func takesBatch(_ connection: PooledConnection) -> Bool {
        connection.load == 0 && (up == 1 || connections.count { $0.isUp && $0.hasBatch } < up - 1)
    }

    private func send(_ request: Request, _ connection: PooledConnection) {
        #if DEBUG
        if isCut(.beforeSend, request) {
            putBack(request)
            return connection.drop(.cut)
        }
        #endif
        connection.send(request)
        #if DEBUG
        if isCut(.afterSend, request) { connection.drop(.cut) }
        #endif
    }

    /// The free connection with the fewest requests in flight; nil if none is free.
    private func freest() -> PooledConnection? {
        let now = loop.now
        var best: PooledConnection?
        for connection in connections where connection.load < best?.load ?? .max && connection.isFree(at: now) {
            best = connection
        }
        return best
    }

    /// Sends a suspect's request if none is in flight. If there are several connections, one is reserved for suspects while
    /// there are any, so that nobody else waits behind them.
    private func pumpSuspects() {
        let isAnyWaiting = queues.contains { $0.isAnyApart }
        let isSeveral = connections.count { $0.isUp && $0.lease == nil } > 1
        if let kept = quarantine, !isSeveral || !kept.isUp || suspectUnderWay == nil && !isAnyWaiting {
            kept.isReserved = false
            quarantine = nil
        }
        guard suspectUnderWay == nil, isAnyWaiting else { return }
        if isSeveral, quarantine == nil, let connection = freest() {
            quarantine = connection
            connection.isReserved = true
        }
        guard let connection = isSeveral ? quarantine : freest(), !isSeveral || connection.load == 0 else { return }
        for kind in queues.indices {
            while let request = queues[kind].next(isApart: true) {
                guard request.willBeSent() else {
                    finish(request)
                    continue
                }
                suspectUnderWay = request
                return send(request, connection)
            }
        }
    }

    /// The next lease gets the first connection that becomes idle.
    private func pumpLeases() {
        if drained?.isUp != true { drained = nil }
        while let lease = leases.first {
            if lease.isOver {
                leases.popFirst()
                continue
            }
            let leased = connections.count { $0.lease != nil }
            guard leased < min(settings.leasesMax, connections.count { $0.isUp } - 1) else { break }
            let free = connections.filter { $0.isFree(at: loop.now) }
            guard let connection = drained ?? free.last(where: { $0.load == 0 }) ?? free.last else { return }
            drained = connection
            connection.isReserved = true
            guard connection.load == 0 else { return }
            drained = nil
            leases.popFirst()
            connection.give(to: lease)
        }
        drained?.isReserved = false
        drained = nil
    }

    // MARK: Calls of the connections

    func cameUp() {
        outage.ends()
        opened()
        changed()
    }

    func hasRoom() { changed() }

    func answered(_ connection: PooledConnection, _ request: Request, _ answer: Result<Rows, PostgresError>) {
        var failure: PostgresError?
        if case .failure(let error) = answer {
            // The connection is at fault, not the statement.
            if error.isOfConnection { return connection.drop(error, with: request) }
            failure = error
        }
        #if DEBUG
        if failure == nil, isCut(.afterCommit, request) { return connection.drop(.cut, with: request) }
        #endif
        if suspectUnderWay === request { suspectUnderWay = nil }
        follow(request.answered(answer), request)
        if let failure, failure.advice == .readOnly { connection.leave(failure) }
        #if DEBUG
        if failure == nil, isCut(.afterReply, request) { connection.drop(.cut) }
        #endif
        changed()
    }

    /// A connection was lost, or could not be made.
    func lost(_ requests: Fifo<Request>) {
        if !isUp { outage.begins(at: loop.now) }
        for index in (0..<requests.count).reversed() {
            let request = requests[index]
            if let batch = request as? RequestBatch {
                for part in batch.parts { part.mayBeDone = true }
                takeApart(batch, after: 0)
                continue
            }
            if index == 0, request.mayBeDone || requests.count == 1 { request.losses += 1 }
            request.mayBeDone = true
            if suspectUnderWay === request { suspectUnderWay = nil }
            if request.losses > settings.lossesMax {
                finish(request)
                request.end(.lost)
            } else {
                again(request)
            }
        }
        while !canLease, let lease = leases.popFirst() { lease.wasLost() }
        changed()
    }

    // MARK: What follows

    private func follow(_ step: NextStep, _ request: Request) {
        switch step {
        case .done:
            finish(request)
        case .decided:
            if suspects.acquit(request.user), let line = request.line { queues[request.kind].set(line, isApart: false) }
            finish(request)
        case .again:
            again(request)
        case .later where request.isOver || isStopping:
            again(request)
        case .later:
            guard let line = request.line else { return }
            queues[request.kind].later(request, line, cost: request.parameters.byteCount)
        case .rest(let done):
            if let batch = request as? RequestBatch { takeApart(batch, after: done) } else { again(request) }
        case .hold(let reason):
            hold(request, reason)
        }
    }

    private func finish(_ request: Request) {
        guard let line = exchange(&request.line, with: nil) else { return }
        queues[request.kind].done(line)
    }

    private func again(_ request: Request) {
        guard request.isOver || isStopping else { return putBack(request) }
        finish(request)
        request.end(.stopping)
    }

    private func putBack(_ request: Request) {
        if let batch = request as? RequestBatch { return takeApart(batch, after: 0) }
        guard let line = request.line else { return }
        request.wasTried = true
        queues[request.kind].again(request, line, cost: request.parameters.byteCount)
    }

    private func takeApart(_ batch: RequestBatch, after done: Int) {
        queues[batch.kind].takeApart(batch, after: done, isStopping: isStopping)
    }

    private func hold(_ request: Request, _ reason: HoldReason) {
        guard let line = request.line else { return }
        guard let pause = suspects.hold(request.user, at: loop.now, pause: settings.holdPause, reason) else {
            finish(request)
            return request.end(.held(settings.holdPause, reason))
        }
        let rest = queues[request.kind].removeWaiting(of: line)
        queues[request.kind].set(line, isApart: true)
        finish(request)
        for request in [request] + rest { request.end(.held(pause, reason)) }
    }

    // MARK: Time

    private func sweepDue() {
        let now = loop.now
        end(.expired) { $0.deadline <= now }
        if outage.isLong(at: now), settings.outages != .waitedOut {
            end(.away) { !$0.mayBeDone || settings.outages == .told }
        }
        if settings.isOfReads { takeBackWhatStands() }
        for connection in connections {
            for index in 0..<connection.underWay.count { connection.underWay[index].expire(at: now) }
        }
        suspects.expire(at: now) { user in !queues.contains { $0.contains(user) } }
        isSweepSet = !isIdle || !suspects.isEmpty
        if isSweepSet { sweep?.set(after: Self.sweepInterval) }
        changed()
    }

    /// Moves reads behind a slow one to the front of an idle connection. If executed twice, their first answer is ignored.
    private func takeBackWhatStands() {
        for connection in connections where connection.load > 1 && connection.isSlow(at: loop.now) {
            guard let idle = freest(), idle.load == 0 else { return }
            for request in connection.takeBackWaiting().reversed() { again(request) }
            pump()
        }
    }

    #if DEBUG
    private func isCut(_ moment: Failpoint, _ request: Request) -> Bool {
        settings.failpoint?(moment, request) ?? false
    }
    #endif
}

#if DEBUG
extension PostgresError {
    fileprivate static let cut = PostgresError(.lost, "a failpoint was reached")
}
#endif
