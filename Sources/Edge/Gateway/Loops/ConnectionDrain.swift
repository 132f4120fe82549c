import Clock
import HubEngine
import Metrics
import Reactor
import WebSocket

/// The order to drain: how fast a hub closes its connections while it lives, so that their clients go elsewhere.
package struct DrainOrder: Sendable, Equatable {
    /// Connections closed each second, on all loops; nil: all at once.
    package var perSecond: Int?
    /// Whether another hub accepts from these sockets: clients come back at once (4200), otherwise after a second (1001).
    package var hasSuccessor: Bool

    /// At a pace, or at once.
    package init(perSecond: Int?, hasSuccessor: Bool) {
        (self.perSecond, self.hasSuccessor) = (perSecond, hasSuccessor)
    }
}

/// How many connections still wait for an answer that only this hub can give.
package struct UnansweredConnections: Sendable, Equatable {
    /// Nothing has come from them.
    package var silent = 0
    /// A TLS handshake or a request has begun, or waits for its answer.
    package var begun = 0

    /// So many.
    package init(silent: Int = 0, begun: Int = 0) {
        (self.silent, self.begun) = (silent, begun)
    }
}

/// Closes this loop's connections in random order, at the loop's share of the order's pace. In random order, so that one
/// user's devices and one office's do not come back in one moment.
///
/// An action under way is answered first (`WebSockets.hubEnds`). Nobody is closed before an upgrade, or within a request:
/// such a connection has its turn later.
///
/// Worst interleavings, each with its test in `ConnectionDrainTests`:
/// - A connection comes, or upgrades, after the order was shuffled: it is found when the others are closed.
/// - The peer of one that waits for its turn goes, and another has its slot: the name of the first finds nobody.
/// - The order is taken back in the middle: those that are left stay, and are not closed by the turn that is due.
final class ConnectionDrain {
    private let loop: EventLoop
    private let due: DueWork
    private let metrics: GatewayMetrics
    /// Loops that share the pace.
    private let loops: Int
    private var order: DrainOrder?
    /// The hub ends.
    private(set) var isStopping = false
    /// Whether somebody else holds the listening sockets, so that clients may come back at once.
    private(set) var hasSuccessor = false
    /// In the order in which they are closed, the next one last.
    private(set) var waiting: ContiguousArray<SessionID> = []
    private var allowed = 0.0
    private var allowedAt = Instant(nanoseconds: 0)

    /// The time between two turns. Short: those of one turn come back together, and events wait behind them.
    static let interval = Duration.milliseconds(4)
    /// The most connections that one turn closes, where all may go at once.
    static let closingsPerTurnMax = 1_000

    init(on loop: EventLoop, _ due: DueWork, _ metrics: GatewayMetrics, share loops: Int) {
        self.loop = loop
        self.due = due
        self.metrics = metrics
        self.loops = loops
    }

    var isUnderWay: Bool { order != nil }

    func follow(_ order: DrainOrder?) {
        guard !isStopping else { return }
        self.order = order
        hasSuccessor = order?.hasSuccessor ?? false
        waiting = []
        (allowed, allowedAt) = (0, loop.now)
        if order == nil { due.set(.drain, at: nil) } else { due.setNow(.drain) }
    }

    /// The hub closes all connections at once.
    func stops(hasSuccessor: Bool) {
        isStopping = true
        (order, waiting) = (nil, [])
        self.hasSuccessor = hasSuccessor
    }

    func turn() {
        guard let order else { return }
        let now = Instant.read()
        let most = Double(Self.closingsPerTurnMax)
        allowed =
            order.perSecond.map { pace in
                min(most, allowed + Double(pace) / Double(loops) * (now.duration(since: allowedAt) / .seconds(1)))
            } ?? most
        allowedAt = now
        if waiting.isEmpty { collect() }
        while allowed >= 1, let id = waiting.popLast() {
            guard let connection = loop.connection(id), Self.mayGo(connection) else { continue }
            connection.hubEnds()
            metrics.drains.closed.add()
            allowed -= 1
        }
        due.set(.drain, after: Self.interval)
    }

    private func collect() {
        loop.forEachConnection { if Self.mayGo($0) { waiting.append($0.sessionID) } }
        waiting.shuffle()
    }

    /// This loop's connections that `mayGo` keeps, and that are not being closed.
    var visitors: UnansweredConnections {
        var visitors = UnansweredConnections()
        loop.forEachConnection { connection in
            guard let conversation = connection.conversation else { return }
            switch connection.transport.state {
            case .securing:
                let hasBegun = connection.transport.tls?.hasBegun == true || connection.interest == []
                if hasBegun { visitors.begun += 1 } else { visitors.silent += 1 }
            case .open where conversation.isSilent: visitors.silent += 1
            case .open where !conversation.isBetweenRequests: visitors.begun += 1
            case .open, .finishing, .shut: break
            }
        }
        return visitors
    }

    /// Whether the connection can be closed without cutting off what it is about, and is not being closed already.
    private static func mayGo(_ connection: ClientConnection) -> Bool {
        guard connection.transport.state == .open else { return false }
        if connection.isEventStream { return true }
        if let conversation = connection.conversation { return conversation.isBetweenRequests }
        guard case .open? = connection.webSocket?.state else { return false }
        return true
    }
}
