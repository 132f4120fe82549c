import Clock
import HubEngine
import Metrics
import Pusher
import Reactor

/// The last observation of a connection with unread data.
struct PullProgress {
    let sentCount: UInt32
    /// Bytes that the kernel, and TLS, have and the peer has not. A slow reader's socket is writable only once in many
    /// seconds, when half of its buffer is free.
    let untaken: UInt32
    /// When one of them was seen to change, or nothing was queued.
    let since: Instant

    /// For a connection that was not looked at.
    static let none = PullProgress()
    var isNone: Bool { since == .min }

    private init() { (sentCount, untaken, since) = (0, 0, .min) }

    init(_ transport: Transport, at now: Instant) {
        sentCount = transport.output.sentCount
        untaken = Socket.unacknowledged(transport.descriptor) &+ UInt32(clamping: transport.tls?.unsentBytes ?? 0)
        since = now
    }

    /// Whether the peer has taken anything since `earlier`.
    func isBeyond(_ earlier: PullProgress) -> Bool {
        sentCount != earlier.sentCount || untaken != earlier.untaken
    }
}

/// Connections that are fed by pages because they read too slowly. One that reads nothing is closed.
final class SlowReaders {
    private let loop: EventLoop
    private let due: DueWork
    private let stalled: Duration
    private let metrics: GatewayMetrics
    private var pulling: [SessionID: PullProgress] = [:]

    private static let sweepInterval = Duration.seconds(1)

    init(on loop: EventLoop, _ due: DueWork, stalled: Duration, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.due = due
        self.stalled = stalled
        self.metrics = metrics
    }

    /// Feeds the connection by pages: the next at the end of the tick, if it has room. From now on its progress is checked.
    func pull(_ connection: ClientConnection) {
        connection.flags.isPulled = true
        loop.markDirty(connection)
        if pulling[connection.sessionID] == nil {
            pulling[connection.sessionID] = PullProgress(connection.transport, at: loop.now)
            sweepLater()
        }
    }

    /// A session that is behind gets its next page when little is left in its queue.
    func pullIfDrained(_ connection: ClientConnection) {
        guard let session = connection.session, session.isBehind else {
            connection.flags.isPulled = false
            return
        }
        let (output, limits) = (connection.transport.output, connection.owner.settings.limits)
        guard connection.isEstablished, output.byteCount <= limits.pullQueueBytesMax / 4,
            output.frameCount <= limits.pullQueueFramesMax / 4
        else { return }
        let now = loop.now
        connection.owner.engage(connection) { $0.streams.drained(session, now: now, &$1) }
    }

    private func sweepLater() { if !due.isSet(.readers) { due.set(.readers, after: min(Self.sweepInterval, stalled)) } }

    // MARK: Too much queued

    /// Whether the queue is still too long when the socket has got what it takes: a burst in one tick proves no slow reader.
    func isSlow(_ connection: ClientConnection) -> Bool {
        connection.flush()
        return connection.isCrowded(connection.owner.settings.limits)
    }

    /// Closes the connection, unless the socket takes enough of its queue.
    func isTooSlow(_ connection: ClientConnection) -> Bool {
        connection.flush()
        guard !connection.hasEnded else { return true }
        guard connection.isOverfull(connection.owner.settings.limits) else { return false }
        overfull(connection)
        return true
    }

    /// The socket has not taken everything.
    func leftUnsent(_ connection: ClientConnection) {
        metrics.held.queued.record(UInt64(connection.transport.output.byteCount))
        // An HTTP answer may be longer than that. No further one is made before it is sent (`HTTPMachine.reads`), and a
        // reader that takes nothing is found by unacknowledged bytes.
        if connection.webSocket != nil || connection.isEventStream, connection.transport.state == .open,
            connection.isOverfull(connection.owner.settings.limits)
        {
            overfull(connection)
        }
        connection.owner.budget.queuedChanged(connection)
    }

    private func overfull(_ connection: ClientConnection) {
        metrics.overloaded(.sendQueue, connection.address)
        close(connection)
    }

    /// The client does not read. If it ever does, it is told that it may come back later.
    func close(_ connection: ClientConnection) {
        // Lines are no frames: nothing could follow the part of one.
        if connection.isEventStream { return connection.drop() }
        connection.transport.dropUnsent()
        guard connection.isEstablished else { return connection.drop() }
        connection.close(.overCapacity)
        connection.flush()
    }

    // MARK: Nothing taken

    func sweep() {
        let now = loop.now
        for (id, progress) in pulling {
            guard let connection = loop.connection(id), connection.session?.isBehind == true else {
                pulling[id] = nil
                continue
            }
            // Positions beyond the session's allowance wait for their time.
            loop.markDirty(connection)
            let seen = PullProgress(connection.transport, at: now)
            if connection.transport.output.isEmpty || seen.isBeyond(progress) {
                pulling[id] = seen
            } else if now.duration(since: progress.since) >= stalled {
                // It does not answer pings either; but a peer may answer pings and never read anything else.
                pulling[id] = nil
                metrics.overloaded(.stalled, connection.address)
                close(connection)
            }
        }
        if !pulling.isEmpty { sweepLater() }
    }
}
