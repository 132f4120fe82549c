import Bytes
import Clock
import Logging
import Reactor

/// A fixed number of connections that carry requests: users in turn within their kind, each kind with its bounds, pipelined.
/// Belongs to one loop. Whatever happens only changes state; `pump`, called when the tick ends, sends wherever there is room.
///
/// Invariants:
/// - A request is told its answer, or its end, and what was taken is told one of them by its deadline.
/// - Of a serial kind, one request of a user is under way at a time: they are carried out in their order whatever connection each
///   is sent on, and a user who is locked costs one lock timeout at a time (`FairQueue`).
/// - What was sent on a connection that was lost may or may not have been carried out: it is sent again before any later request of
///   its user, unless its time is over. Who sends what changes something sees to it that twice does no harm.
/// - What was lost with others in its pipeline is sent alone the next time, and only a loss by itself is held against a request: one
///   that ends every connection ends by itself, and not the others beside it. The oldest that has no answer may be innocent: libpq
///   forgets the answers that it has read when it finds the connection lost while it sends, and the network may lose them, too
///   (`answersThatAreLostAreHeldAgainstNobody`).
/// - A read that stands behind a slow statement is taken back, and sent again elsewhere, where a connection is idle: nobody waits
///   for another's statement longer than for a free connection, and a moment. Worst interleaving: the second connection comes up,
///   or is given back, just when the read was sent behind the slow one on the first (`whoStandsBehindASlowReadIsTakenBack`).
/// - Of all suspects one request is under way at a time, on a connection that has nothing else, where there are several.
package final class RequestPool {
    /// How often it is looked for requests beyond their time.
    private static let sweepInterval = Duration.milliseconds(250)

    private let loop: EventLoop
    private let settings: PoolSettings
    private let opened: () -> Void
    private let changed: () -> Void
    private var queues: [FairQueue<TextKey, Request>]
    /// For each kind, how many may still go before one of a later kind has to.
    private var credits: [Int]
    private var connections: [PooledConnection] = []
    private var suspects = Suspects()
    private var suspectUnderWay: Request?
    /// Kept for suspects' requests while there are any.
    private var quarantine: PooledConnection?
    private var leases = Fifo<Lease>()
    /// Gets nothing new, until it is idle and the next lease has it.
    private var drained: PooledConnection?
    private var outage = Outage()
    private var sweep: Alarm?
    private var isSweepSet = false
    private var isStopping = false

    /// Makes the connections, and keeps them up from `start` on. The closures must not keep the pool's owner alive.
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

    package func start() {
        for connection in connections { connection.start() }
    }

    /// Whether requests can be sent at all.
    package var isUp: Bool { up > 0 }
    /// Connections on which requests can be sent.
    package var up: Int { connections.count { $0.isUp } }
    /// Whether all connections are lost, or not to be had.
    package var isAway: Bool { outage.isOn }
    /// Requests waiting.
    package var waiting: Int {
        var count = 0
        // By their places: a copy of each would be retained.
        for kind in queues.indices { count += queues[kind].count }
        return count
    }
    /// Requests waiting and under way.
    package var count: Int {
        var count = waiting
        for place in connections.indices { count += connections[place].load }
        return count
    }
    /// Whether nothing waits and nothing is under way.
    package var isIdle: Bool { queues.allSatisfy { $0.count == 0 && $0.underWay == 0 } }
    /// Whether something waits that could be sent.
    package var wantsTurn: Bool { waiting > 0 && freest() != nil }

    /// How long to stay away while there is no connection: the longer, the longer there has been none.
    package func pause(atLeast least: Duration) -> Duration { outage.pause(atLeast: least, at: loop.now) }

    /// Takes a request, or tells it at once why not.
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

    private func refusal(_ request: Request) -> RequestEnd? {
        if outage.isOn, settings.outages != .waitedOut { return .away }
        if let (pause, reason) = suspects.hold(of: request.user, at: loop.now) { return .held(pause, reason) }
        request.line = queues[request.kind].append(
            request, of: request.user, cost: request.parameters.byteCount, isApart: suspects.contains(request.user))
        return request.line == nil ? .full : nil
    }

    /// Ends the waiting requests of which that is true, and tells them what.
    package func end(_ end: RequestEnd, where isOver: (Request) -> Bool) {
        for kind in queues.indices {
            for request in queues[kind].remove(where: isOver) { request.end(end) }
        }
    }

    /// Ends what waits; what is under way gets its answer, unless its connection is lost.
    package func stop() {
        isStopping = true
        end(.stopping) { _ in true }
    }

    /// Ends what is under way, too, though it may be carried out.
    package func abandon() {
        for connection in connections {
            for place in 0..<connection.underWay.count { connection.underWay[place].end(.stopping) }
        }
    }

    /// Whether a connection can be leased, now or when the leases before have ended: one that is up is left for requests.
    package var canLease: Bool { settings.leasesMax > 0 && connections.count { $0.isUp } > 1 }

    /// Asks for a connection for oneself. It is given as soon as one is idle, one after the other. Where none can be leased, or no
    /// longer, that is told.
    package func lease(_ handlers: Lease.Handlers) -> Lease {
        let lease = Lease(handlers)
        if canLease, leases.count < PostgresLimits.leasesWaitingMax { leases.append(lease) } else { lease.wasLost() }
        changed()
        return lease
    }

    // MARK: Out

    /// Sends what may be sent. Costs next to nothing where nothing waits.
    package func pump() {
        guard waiting > 0 || !leases.isEmpty || drained != nil || quarantine != nil else { return }
        if !suspects.isEmpty || quarantine != nil { pumpSuspects() }
        if !leases.isEmpty || drained != nil { pumpLeases() }
        while let connection = freest(), let request = next(for: connection) { send(request, connection) }
    }

    /// The next request: the first kind of which one waits, but for those whose credit is used up while others have some. Nil also
    /// where it must be sent alone, and the connection, which is the least busy, has something under way: it gets nothing until then.
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
                    return request
                }
            }
            for kind in queues.indices { credits[kind] = settings.kinds[kind].weight }
        }
        return nil
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

    /// The connection with the least under way, which a locked user's or a slow one's is not for long; nil where none is free.
    private func freest() -> PooledConnection? {
        let now = loop.now
        var best: PooledConnection?
        for connection in connections where connection.load < best?.load ?? .max && connection.isFree(at: now) {
            best = connection
        }
        return best
    }

    /// One suspect's request is sent where none is under way. Where there are several connections, one is kept for them while
    /// there are any: nobody else waits behind them.
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

    /// The next lease gets the connection that is idle first.
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
        // Nobody wants it any more.
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
            // It is the server that goes away, and not the statement that fails.
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

    /// A connection is gone, or was not to be had.
    func lost(_ requests: Fifo<Request>) {
        if !isUp { outage.begins(at: loop.now) }
        for place in (0..<requests.count).reversed() {
            let request = requests[place]
            if place == 0, request.mayBeDone || requests.count == 1 { request.losses += 1 }
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
        guard let line = request.line else { return }
        queues[request.kind].again(request, line, cost: request.parameters.byteCount)
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
            for place in 0..<connection.underWay.count where connection.underWay[place].deadline <= now {
                connection.underWay[place].mayBeDone = true
                connection.underWay[place].end(.expired)
            }
        }
        suspects.expire(at: now) { user in !queues.contains { $0.contains(user) } }
        isSweepSet = !isIdle || !suspects.isEmpty
        if isSweepSet { sweep?.set(after: Self.sweepInterval) }
        changed()
    }

    /// What stands behind a slow read goes before all others to a connection that is idle. It may be executed twice then, of which
    /// the first answer is lost.
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
