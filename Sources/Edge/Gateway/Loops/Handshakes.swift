import Clock
import HTTP
import HubEngine
import Metrics
import Reactor

/// The TLS handshakes of a loop: their queue, and the sessions they need.
final class Handshakes {
    private var queue: HandshakeQueue
    private let loop: EventLoop
    private let due: DueWork
    private let server: TLSServer?
    /// How long a handshake may keep a slot that others wait for.
    private let turnTime: Duration
    private let queueTime: Duration
    private let metrics: GatewayMetrics
    /// The ciphertext buffers, shared by the loop's connections; made for the first one with TLS.
    private var wire: TLSWire?

    init(on loop: EventLoop, _ due: DueWork, _ configuration: GatewayConfiguration, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.due = due
        self.metrics = metrics
        server = configuration.tls
        turnTime = configuration.timeouts.tlsTurn
        queueTime = configuration.timeouts.tlsQueue
        queue = HandshakeQueue(
            underWayMax: max(1, configuration.admission.tlsHandshakesMax / configuration.loops),
            waitingMax: max(1, configuration.admission.tlsHandshakesWaitingMax / configuration.loops))
    }

    /// A session for a connection of a TLS listener; nil where OpenSSL has no memory.
    private func newSession() -> TLSSession? {
        guard let server else { return nil }
        do throws(TLSError) {
            let wire: TLSWire
            if let own = self.wire { wire = own } else { wire = try TLSWire() }
            self.wire = wire
            return try server.session(on: wire)
        } catch {
            return nil
        }
    }

    private func arrived(_ connection: ClientConnection) -> HandshakeQueue.Turn {
        let turn = queue.arrived(connection.sessionID, of: connection.address.network, at: loop.now)
        if case .wait = turn {
            metrics.tls.delayed.add()
            awaitTick()
        }
        return turn
    }

    /// Whether the connection's handshake continues now. A connection whose client has sent nothing is not queued: it may be
    /// looked at before anything has come (`ConnectionIntake.overtake`), or at its end.
    func mayGoOn(_ connection: ClientConnection) -> Bool {
        if connection.transport.tls != nil { return true }
        switch Socket.peek(connection.transport.descriptor) {
        case .bytes: break
        case .wouldBlock: return false
        case .endOfStream, .failed:
            failed(connection, .closed)
            return false
        }
        switch arrived(connection) {
        case .begin: return begin(connection)
        case .wait:
            loop.setInterest(connection, [])
            loop.setDeadline(connection, loop.now.advanced(by: queueTime))
            return false
        case .shed:
            failed(connection, .shed)
            return false
        }
    }

    private func turnCame(_ connection: ClientConnection) {
        guard connection.transport.state == .securing, connection.transport.tls == nil else { return }
        // Before it begins, because the interest tells who waits. The time in the queue was not the client's.
        connection.begin()
        queue.begin(connection.sessionID, at: loop.now)
        if begin(connection) { connection.readable() }
    }

    private func begin(_ connection: ClientConnection) -> Bool {
        metrics.tls.underWay.add(1)
        awaitTick()
        connection.transport.secure(with: newSession())
        if connection.transport.tls != nil { return true }
        ended()
        failed(connection, .shed)
        return false
    }

    /// Bytes of the handshake were read. Returns whether it is complete, so that HTTP follows.
    func advanced(_ connection: ClientConnection, _ result: TransferResult) -> Bool {
        guard let tls = connection.transport.tls else { return false }
        switch result {
        case .endOfStream:
            failed(connection, .closed)
            return false
        case .failed:
            failed(connection, tls.failure ?? .closed)
            return false
        case .bytes, .wouldBlock: break
        }
        if !tls.isEstablished {
            connection.updateInterest()
            return false
        }
        ended()
        metrics.tls.handshakes[tls.isResumed ? "resumed" : "full"].add()
        connection.transport.opened()
        if let conversation = connection.conversation {
            metrics.tls.times.record(loop.now.duration(since: conversation.startedAt))
            conversation.secured(at: loop.now)
        }
        loop.setDeadline(connection, loop.now.advanced(byNanoseconds: connection.owner.settings.http.time))
        connection.updateInterest()
        return true
    }

    /// The handshake has failed. A client that speaks plain HTTP is told what to do.
    func failed(_ connection: ClientConnection, _ reason: TLSFailure) {
        guard connection.transport.state == .securing else { return }
        let tls = connection.transport.tls
        // A client that leaves without a word has not tried: a load balancer that checks the port.
        if reason != .closed || tls?.hasBegun == true { metrics.tls.failures[reason.rawValue].add() }
        guard reason == .plainHTTP else { return connection.drop() }
        if tls != nil { ended() }
        connection.transport.secure(with: nil)
        connection.transport.opened()
        connection.conversation?.answer(
            .problem(.badRequest, "This port speaks TLS: use https:// or wss://."), keepsAlive: false, connection)
    }

    /// A handshake in progress is over: the next in the queue begins in the next tick.
    private func ended() {
        queue.ended()
        metrics.tls.underWay.add(-1)
        awaitTick()
    }

    /// The connection goes away, for any reason: it frees its slot, or its place in the queue.
    func left(_ connection: ClientConnection) {
        guard connection.transport.state == .securing else { return }
        if connection.transport.tls != nil { return ended() }
        if waits(connection) { queue.leaves(waits) }
    }

    /// Whether it is in the queue.
    private func waits(_ connection: ClientConnection) -> Bool {
        connection.transport.state == .securing && connection.transport.tls == nil && connection.interest == []
            && connection.conversation?.awaitsBeginning != true
    }

    private func waits(_ id: SessionID) -> Bool { loop.connection(id).map(waits) == true }

    /// Has `tick` called in the next tick, or when a handshake has held up others for too long.
    private func awaitTick() {
        if queue.awaitsTick {
            due.setNow(.handshakes)
        } else if queue.isHeldUp, let longest = longest() {
            due.set(.handshakes, at: longest.since.advanced(by: turnTime))
        }
    }

    private func longest() -> (id: SessionID, since: Instant)? {
        queue.longest { id in
            loop.connection(id).map { $0.transport.state == .securing && $0.transport.tls != nil } ?? false
        }
    }

    /// A new tick: handshakes whose turn it is begin. If all slots are taken, the client that has held one longest beyond
    /// its time loses it. Otherwise a thousand clients that send half a hello would keep out everybody else.
    func tick() {
        queue.tick()
        let longest = longest()
        if queue.isHeldUp, let longest, longest.since.advanced(by: turnTime) <= loop.now {
            loop.connection(longest.id).map { failed($0, .shed) }
        }
        while let id = queue.popReady(waits) { loop.connection(id).map(turnCame) }
        awaitTick()
    }
}
