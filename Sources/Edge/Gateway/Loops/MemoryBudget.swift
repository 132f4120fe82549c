import HTTP
import Metrics
import Pusher
import Reactor
import WebSocket

/// Bytes that connections hold together, and their bound. Valid while `moved` reports every change of a connection's part.
struct HeldBytes {
    let bytesMax: Int
    private(set) var bytes = 0

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    mutating func moved(from old: UInt32, to new: UInt32) {
        bytes += Int(new) - Int(old)
    }

    var isExceeded: Bool { bytes > bytesMax }
    var isHalfFull: Bool { bytes > bytesMax / 2 }

    /// What is left when enough are closed: an eighth below the bound, so that the next bytes close nobody.
    var bytesKept: Int { bytesMax - bytesMax / 8 }

    /// The holders to close, the largest first, so that no more than `bytesKept` is left.
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

/// What the connections of one loop hold for their peers, within the loop's share of the hub's bounds: bytes queued to slow
/// readers, and bytes of unfinished messages.
///
/// Each connection reports after it has written or read, if something was left; never for a delivery. Judged at the end of a
/// tick, when sockets have got what they take. All loops have equal shares, because connections are spread evenly.
final class MemoryBudget: EventSource {
    private(set) var queued: HeldBytes
    private(set) var unfinished: HeldBytes
    /// The queued bytes have risen above half of their bound, or fallen below it.
    var pressureChanged: (Bool) -> Void = { _ in }
    private var isPressed = false
    private let loop: EventLoop
    private let metrics: GatewayMetrics

    init(on loop: EventLoop, _ configuration: GatewayConfiguration, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.metrics = metrics
        queued = HeldBytes(bytesMax: configuration.queuedBytesOfLoop)
        unfinished = HeldBytes(bytesMax: configuration.unfinishedBytesOfLoop)
    }

    func queuedMoved(from old: UInt32, to new: UInt32) {
        queued.moved(from: old, to: new)
        metrics.held.queuedBytes.add(Int(new) - Int(old))
        if queued.isExceeded || isPressed != queued.isHalfFull { loop.markDirty(self) }
    }

    func unfinishedMoved(from old: UInt32, to new: UInt32) {
        unfinished.moved(from: old, to: new)
        metrics.held.unfinishedBytes.add(Int(new) - Int(old))
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

    /// All connections that hold anything: thousands, but only once for each eighth of the bound that comes anew.
    private func holders(_ part: (ClientConnection) -> UInt32) -> [(bytes: UInt32, holder: ClientConnection)] {
        var holders: [(bytes: UInt32, holder: ClientConnection)] = []
        loop.forEachConnection { connection in
            let bytes = part(connection)
            if bytes > 0 { holders.append((bytes, connection)) }
        }
        return holders
    }

    // MARK: Parts

    func queuedChanged(_ connection: ClientConnection) {
        let bytes = UInt32(clamping: connection.transport.unsentBytes)
        guard bytes != connection.queuedHeld, !connection.hasEnded else { return }
        queuedMoved(from: connection.queuedHeld, to: bytes)
        connection.queuedHeld = bytes
    }

    /// What is held of the client's unfinished message may have changed.
    func unfinishedChanged(_ connection: ClientConnection) {
        let held = connection.webSocket?.heldBytes ?? connection.conversation?.heldCount ?? 0
        let bytes = UInt32(clamping: held &+ connection.transport.heldBytes)
        guard bytes != connection.unfinishedHeld, !connection.hasEnded else { return }
        unfinishedMoved(from: connection.unfinishedHeld, to: bytes)
        connection.unfinishedHeld = bytes
    }

    func left(_ connection: ClientConnection) {
        if connection.queuedHeld > 0 { queuedMoved(from: connection.queuedHeld, to: 0) }
        if connection.unfinishedHeld > 0 { unfinishedMoved(from: connection.unfinishedHeld, to: 0) }
        connection.queuedHeld = 0
        connection.unfinishedHeld = 0
    }

    /// All connections together hold too much of unfinished messages, and this one's is among the largest. The client may
    /// come back with a smaller one, or when others have finished.
    func dropUnfinished(_ connection: ClientConnection) {
        if connection.transport.state == .open, let conversation = connection.conversation {
            conversation.refuseUnfinished(connection)
        } else if connection.isEstablished {
            connection.close(.overCapacity)
            // The rest of the message cannot be told from the next one, so only the peer's end is awaited.
            connection.finish()
        } else {
            connection.drop()
        }
        unfinishedChanged(connection)
    }
}
