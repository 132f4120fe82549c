import Channels
import Clock
import Metrics
import Reactor

/// The TLS handshakes of a loop: the line, and what sessions are made of.
final class Handshakes {
    private var line: HandshakeLine
    private let loop: EventLoop
    private let due: DueWork
    private let server: TLSServer?
    /// How long one may keep a place that others wait for.
    private let turnTime: Duration
    private let metrics: GatewayMetrics
    /// Ciphertext of the connection that is read or written; made for the first one with TLS.
    private var wire: TLSWire?

    init(on loop: EventLoop, _ due: DueWork, _ configuration: GatewayConfiguration, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.due = due
        self.metrics = metrics
        server = configuration.tls
        turnTime = configuration.timeouts.tlsTurn
        line = HandshakeLine(
            underWayMax: max(1, configuration.limits.tlsHandshakesMax / configuration.loops),
            waitingMax: max(1, configuration.limits.tlsHandshakesWaitingMax / configuration.loops))
    }

    /// A session for a connection of a listener with TLS; nil where OpenSSL has no memory.
    func newSession() -> TLSSession? {
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

    /// The first bytes of a connection's client are there.
    func arrived(_ id: SessionID) -> HandshakeLine.Turn {
        let turn = line.arrived(id, at: loop.now)
        if case .wait = turn {
            metrics.tls.delayed.add()
            awaitTick()
        }
        return turn
    }

    /// The handshake of one that had waited begins.
    func begin(_ id: SessionID) {
        line.begin(id, at: loop.now)
    }

    func begun() {
        metrics.tls.underWay.add(1)
        awaitTick()
    }

    /// A handshake that had begun is at its end: the next one in line begins in the next tick.
    func ended() {
        line.ended()
        metrics.tls.underWay.add(-1)
        awaitTick()
    }

    /// One that stands in line goes.
    func leaves() {
        line.leaves(waits)
    }

    private func waits(_ id: SessionID) -> Bool { loop.connection(id)?.waitsForHandshake == true }

    /// Has `tick` called in the next tick, or when one has held up the others for too long.
    private func awaitTick() {
        if line.awaitsTick {
            due.setNow(.handshakes)
        } else if line.isHeldUp, let longest = longest() {
            due.set(.handshakes, at: longest.since.advanced(by: turnTime))
        }
    }

    private func longest() -> (id: SessionID, since: Instant)? {
        line.longest { id in loop.connection(id).map { $0.phase == .securing && $0.tls != nil } ?? false }
    }

    /// A new tick: those whose turn it is begin. Where all places are taken, the client that has kept its own for the longest
    /// time loses it: or a thousand that send half a hello would keep out everybody else.
    func tick() {
        line.tick()
        let longest = longest()
        if line.isHeldUp, let longest, longest.since.advanced(by: turnTime) <= loop.now {
            loop.connection(longest.id)?.handshakeFailed(.shed)
        }
        while let id = line.popReady(waits) { loop.connection(id)?.handshakeTurn() }
        awaitTick()
    }
}
