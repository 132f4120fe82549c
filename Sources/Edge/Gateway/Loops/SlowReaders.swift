import Channels
import Clock
import Metrics
import Pusher
import Reactor

/// What was last seen of a connection that has still to take what it is sent.
struct PullProgress {
    /// `WriteQueue.sentCount`.
    let sentCount: UInt32
    /// What the kernel, and TLS, have of that and the peer has not. Of who reads little the socket is writable but once in
    /// many seconds, when half of what it may hold has gone.
    let untaken: UInt32
    /// When one of them was seen to change, or nothing was queued.
    let since: Instant

    /// Nothing, of a connection that was not looked at.
    static let none = PullProgress()
    var isNone: Bool { since == .min }

    private init() { (sentCount, untaken, since) = (0, 0, .min) }

    /// What is to be seen now.
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

/// Connections that are fed by pages, for they take too slowly what they are sent. One that takes nothing is closed.
final class SlowReaders {
    private let loop: EventLoop
    private let due: DueWork
    private let stalled: Duration
    private let metrics: GatewayMetrics
    private var pulling: [SessionID: PullProgress] = [:]

    /// How often they are looked at, while there are any.
    private static let sweepInterval = Duration.seconds(1)

    init(on loop: EventLoop, _ due: DueWork, stalled: Duration, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.due = due
        self.stalled = stalled
        self.metrics = metrics
    }

    /// The connection is fed by pages: at the end of the tick it gets the next, if it has room, and it is watched for
    /// whether it takes anything.
    func pull(_ connection: Connection) {
        connection.isPulled = true
        loop.markDirty(connection)
        if pulling[connection.sessionID] == nil {
            pulling[connection.sessionID] = PullProgress(connection.transport, at: loop.now)
            sweepLater()
        }
    }

    /// A session that is behind gets its next page when little is left of what was queued.
    func pullIfDrained(_ connection: Connection) {
        guard let session = connection.session, session.isBehind else {
            connection.isPulled = false
            return
        }
        let (output, limits) = (connection.transport.output, connection.owner.settings.limits)
        guard connection.isEstablished, output.byteCount <= limits.pullQueueBytesMax / 4,
            output.frameCount <= limits.pullQueueFramesMax / 4
        else { return }
        let now = loop.now
        connection.owner.engage(connection) { $0.drained(session, now: now, &$1) }
    }

    private func sweepLater() { if !due.isSet(.readers) { due.set(.readers, after: min(Self.sweepInterval, stalled)) } }

    // MARK: Too much queued

    /// A burst in one tick says nothing about the reader: whether the queue is too long for its streams still when the socket
    /// has got what it takes.
    func isSlow(_ connection: Connection) -> Bool {
        connection.flush()
        return connection.isCrowded(connection.owner.settings.limits)
    }

    /// Closes it, unless the socket takes enough of what is queued.
    func isTooSlow(_ connection: Connection) -> Bool {
        connection.flush()
        guard !connection.hasEnded else { return true }
        guard connection.isOverfull(connection.owner.settings.limits) else { return false }
        overfull(connection)
        return true
    }

    /// The socket has not taken all.
    func leftUnsent(_ connection: Connection) {
        metrics.queued.record(UInt64(connection.transport.output.byteCount))
        // An answer to a request may be longer than that: no further one is made before it is sent (`HTTPMachine.reads`), and
        // who does not take it is found by what stays unacknowledged.
        if connection.webSocket != nil, connection.transport.state == .open,
            connection.isOverfull(connection.owner.settings.limits)
        {
            overfull(connection)
        }
        connection.owner.holdings.queuedChanged(connection)
    }

    private func overfull(_ connection: Connection) {
        metrics.overloaded(.sendQueue, connection.address)
        close(connection)
    }

    /// The client does not read what it is sent. It will be told, if it ever reads, that it may come back later.
    func close(_ connection: Connection) {
        connection.transport.dropUnsent()
        guard connection.isEstablished else { return connection.drop() }
        connection.close(.overCapacity)
        connection.flush()
    }

    // MARK: Nothing taken

    /// The time has come to look.
    func sweep() {
        let now = loop.now
        for (id, progress) in pulling {
            guard let connection = loop.connection(id), connection.session?.isBehind == true else {
                pulling[id] = nil
                continue
            }
            // Places that it named too often wait for their time.
            loop.markDirty(connection)
            let seen = PullProgress(connection.transport, at: now)
            if connection.transport.output.isEmpty || seen.isBeyond(progress) {
                pulling[id] = seen
            } else if now.duration(since: progress.since) >= stalled {
                // Its pings are not answered either, but a peer may answer them and read nothing else for ever.
                pulling[id] = nil
                metrics.overloaded(.stalled, connection.address)
                close(connection)
            }
        }
        if !pulling.isEmpty { sweepLater() }
    }
}
