import HTTP
import Metrics
import Pusher
import Reactor
import WebSocket

/// Bytes that connections hold, and the bound of what they may hold together.
///
/// Valid while every change of a connection's part is told by `moved`.
struct Holding {
    /// The bound.
    let bytesMax: Int
    /// What they hold now.
    private(set) var bytes = 0

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// A connection's part has changed.
    mutating func moved(from old: UInt32, to new: UInt32) {
        bytes += Int(new) - Int(old)
    }

    var isExceeded: Bool { bytes > bytesMax }
    var isHalfFull: Bool { bytes > bytesMax / 2 }

    /// What is left when enough have gone: an eighth below the bound, so that who comes next is not the next to go.
    var bytesKept: Int { bytesMax - bytesMax / 8 }

    /// Who must go so that no more than `bytesKept` is left: the largest first.
    func excess<Holder>(of holders: [(bytes: UInt32, holder: Holder)]) -> ArraySlice<(bytes: UInt32, holder: Holder)> {
        let sorted = holders.sorted { $0.bytes > $1.bytes }
        var left = bytes
        var count = 0
        while left > bytesKept, count < sorted.count {
            left -= Int(sorted[count].bytes)
            count += 1
        }
        return sorted[..<count]
    }
}

/// What the connections of one loop hold for their peers, within the loop's share of the hub's bounds: what is queued to
/// those who do not read, and what has come of messages that are not finished.
///
/// Told by each connection after it has written or read, where that left something; never for a delivery. Judged at the
/// end of a tick, when sockets have got what they take. Every loop has an equal share, for connections are spread evenly
/// and a bound on each is one on all of them.
final class Holdings: EventSource {
    private(set) var queued: Holding
    private(set) var unfinished: Holding
    /// More than half of what may be queued is, or no longer.
    var pressureChanged: (Bool) -> Void = { _ in }
    private var isPressed = false
    private let loop: EventLoop
    private let metrics: GatewayMetrics

    init(on loop: EventLoop, _ configuration: GatewayConfiguration, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.metrics = metrics
        queued = Holding(bytesMax: configuration.queuedBytesOfLoop)
        unfinished = Holding(bytesMax: configuration.unfinishedBytesOfLoop)
    }

    /// What is queued to a connection has changed.
    func queuedMoved(from old: UInt32, to new: UInt32) {
        queued.moved(from: old, to: new)
        metrics.queuedBytes.add(Int(new) - Int(old))
        if queued.isExceeded || isPressed != queued.isHalfFull { loop.markDirty(self) }
    }

    /// What a connection holds of unfinished messages has changed.
    func unfinishedMoved(from old: UInt32, to new: UInt32) {
        unfinished.moved(from: old, to: new)
        metrics.unfinishedBytes.add(Int(new) - Int(old))
        if unfinished.isExceeded { loop.markDirty(self) }
    }

    override func tickEnded() {
        if queued.isExceeded {
            for (_, connection) in queued.excess(of: holders({ $0.queuedHeld })) {
                metrics.overloaded(.sendQueues, connection.address)
                connection.owner.slowReaders.close(connection)
                queuedChanged(connection)
            }
        }
        if unfinished.isExceeded {
            for (_, connection) in unfinished.excess(of: holders({ $0.unfinishedHeld })) {
                metrics.overloaded(.unfinished, connection.address)
                dropUnfinished(connection)
            }
        }
        if isPressed != queued.isHalfFull {
            isPressed = queued.isHalfFull
            pressureChanged(isPressed)
        }
    }

    /// All who hold anything: thousands, seldom, and the next time only after an eighth of the bound has come anew.
    private func holders(_ part: (Connection) -> UInt32) -> [(bytes: UInt32, holder: Connection)] {
        var holders: [(bytes: UInt32, holder: Connection)] = []
        loop.forEachSource { source in
            guard let connection = source as? Connection else { return }
            let bytes = part(connection)
            if bytes > 0 { holders.append((bytes, connection)) }
        }
        return holders
    }

    // MARK: Parts

    /// What is queued to the connection may have changed.
    func queuedChanged(_ connection: Connection) {
        let bytes = UInt32(clamping: connection.transport.unsentBytes)
        guard bytes != connection.queuedHeld, !connection.hasEnded else { return }
        queuedMoved(from: connection.queuedHeld, to: bytes)
        connection.queuedHeld = bytes
    }

    /// What is held of what the connection's client has not finished may have changed.
    func unfinishedChanged(_ connection: Connection) {
        let held = connection.webSocket?.heldBytes ?? connection.conversation?.heldCount ?? 0
        let bytes = UInt32(clamping: held &+ connection.transport.heldBytes)
        guard bytes != connection.unfinishedHeld, !connection.hasEnded else { return }
        unfinishedMoved(from: connection.unfinishedHeld, to: bytes)
        connection.unfinishedHeld = bytes
    }

    /// The connection is gone, and holds nothing.
    func left(_ connection: Connection) {
        if connection.queuedHeld > 0 { queuedMoved(from: connection.queuedHeld, to: 0) }
        if connection.unfinishedHeld > 0 { unfinishedMoved(from: connection.unfinishedHeld, to: 0) }
        connection.queuedHeld = 0
        connection.unfinishedHeld = 0
    }

    /// All connections together hold too much of messages that are not finished, and this one's is among the largest. It
    /// may come back later, with a smaller one or when others have finished theirs.
    func dropUnfinished(_ connection: Connection) {
        if connection.transport.state == .open, let conversation = connection.conversation {
            conversation.refuseUnfinished(connection)
        } else if connection.isEstablished {
            connection.close(.overCapacity)
            // The rest of the message cannot be told from the next one; only the peer's end is awaited.
            connection.finish()
        } else {
            connection.drop()
        }
        unfinishedChanged(connection)
    }
}
