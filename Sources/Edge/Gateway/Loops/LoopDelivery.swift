import Bytes
import HubEngine
import Metrics
import Pusher
import Reactor
import Sync
import WebSocket

/// Delivers owners' news to this loop's sessions: from the channel's list of subscribers to the connections' queues.
final class LoopDelivery {
    private let loop: EventLoop
    private let engine: SessionEngine
    private let settings: ConnectionSettings
    private let router: Router
    let slowReaders: SlowReaders
    private let metrics: GatewayMetrics
    let compression: LoopCompression?
    let trace: EventTrace?
    /// Counters of deliveries, each with a stream of its topic: found without a lock.
    private var topicCounters: [(stream: StreamID, counter: Counter)] = []
    /// Whether the database is out of reach, and connections were told so.
    private var isDegraded = false

    init(
        on loop: EventLoop, _ router: Router, _ engine: SessionEngine, _ settings: ConnectionSettings,
        _ slowReaders: SlowReaders, _ compression: LoopCompression?, _ metrics: GatewayMetrics, _ trace: EventTrace?
    ) {
        self.loop = loop
        self.router = router
        self.engine = engine
        self.settings = settings
        self.slowReaders = slowReaders
        self.compression = compression
        self.metrics = metrics
        self.trace = trace
    }

    // MARK: Streams

    /// Queues the frame to this loop's subscribers of the stream. A subscriber with too much queued is fed by pages from now
    /// on. `variants`: nil where nobody needs the frame compressed.
    func deliver(_ frame: SharedBytes, _ variants: FrameVariants?, at offset: Int64, to name: StreamName) {
        guard let channel = engine.channels[name] else { return }
        var slow: [SessionID] = []
        // A copy, because a subscriber whose socket is found broken leaves the channel.
        let subscribers = channel.subscribers
        if let only = subscribers.only { deliver(frame, variants, to: only, &slow) }
        for id in subscribers.many { deliver(frame, variants, to: id, &slow) }
        // While those that fall behind are still subscribers.
        if let trace { trace.tells(name, channel.position?.epoch, offset, subscribers, slow: slow) }
        // Before the channel moves on: the event before this one is the last that they were handed.
        for id in slow {
            guard engine.streams.fellBehind(id, in: channel), let connection = loop.connection(id) else { continue }
            metrics.deliveries.pullModeEntries.add()
            slowReaders.pull(connection)
        }
        channel.advanced(to: offset)
        count(channel.subscribers.count, of: name)
    }

    @inline(__always)
    private func deliver(
        _ frame: SharedBytes, _ variants: FrameVariants?, to id: SessionID, _ slow: inout [SessionID]
    ) {
        // A channel's subscribers are sessions of this loop, and a session's id is its connection's. The generation is
        // compared although a session leaves its channels before its slot is free: this is health data, and a slip in that
        // bookkeeping must not hand it to a stranger.
        guard let source = loop.unretainedSource(slot: id.slot, generation: id.generation) else { return }
        source._withUnsafeGuaranteedRef { source in
            let connection = unsafeDowncast(source, to: ClientConnection.self)
            if connection.isCrowded(settings.limits), slowReaders.isSlow(connection) {
                slow.append(id)
            } else if let variants {
                connection.queue(frames(variants, for: connection), on: loop)
            } else {
                connection.queue(frame, on: loop)
            }
        }
    }

    /// The form of frames for many that the connection wants.
    func frames(_ variants: FrameVariants, for connection: ClientConnection) -> SharedBytes {
        guard let compression, let window = connection.deflateWindow else { return variants.plain }
        return compression.frames(variants, window)
    }

    /// An event has been queued to that many subscribers of the stream.
    private func count(_ subscribers: Int, of name: StreamName) {
        metrics.deliveries.fanout.record(UInt64(subscribers))
        if let counter = topicCounters.first(where: { $0.stream.hasSameTopic(as: name.stream) })?.counter {
            return counter.add(subscribers)
        }
        let counter = metrics.deliveries.topics[name.stream.topic]
        counter.add(subscribers)
        if topicCounters.count < TopicCounters.topicsMax { topicCounters.append((name.stream, counter)) }
    }

    /// Tells all subscribers of the stream that it continues at `position`.
    func reset(_ name: StreamName, to position: StreamPosition, _ loss: ResumeLoss) {
        guard let channel = engine.channels[name] else { return }
        trace?.resets(name.stream, to: position)
        let frame = FrameWriter.frames(of: engine.streams.reset(channel, to: position, loss))
        for id in channel.subscribers { loop.connection(id)?.queue(frame) }
    }

    // MARK: Ordinary channels

    /// Queues the frame to the channel's subscribers here, except one. Returns how many. `variants`: nil for no compression.
    func deliver(_ frame: SharedBytes, _ variants: FrameVariants?, to key: ChannelKey, except: Exclusion?) -> Int {
        guard let channel = engine.channels[key] else { return 0 }
        // A copy, because one that is closed leaves the channel.
        let subscribers = channel.subscribers
        let excluded = except.flatMap { session($0, in: subscribers) } ?? .nobody
        if let only = subscribers.only, only != excluded { deliver(frame, variants, to: only) }
        if excluded == .nobody {
            for id in subscribers.many { deliver(frame, variants, to: id) }
        } else {
            for id in subscribers.many where id != excluded { deliver(frame, variants, to: id) }
        }
        // A sender may have left meanwhile.
        let isOneLeftOut = excluded != .nobody && subscribers.contains(excluded)
        let told = subscribers.count - (isOneLeftOut ? 1 : 0)
        metrics.deliveries.fanout.record(UInt64(told))
        metrics.deliveries.ofChannels.add(told)
        return told
    }

    /// The excluded session; nil where it is not among these.
    private func session(_ exclusion: Exclusion, in subscribers: SubscriberList) -> SessionID? {
        switch exclusion {
        case .session(let id, let loop): router.isHere(loop) ? id : nil
        case .socket(let socketID):
            subscribers.first { id in
                loop.unretainedSource(slot: id.slot, generation: id.generation)?._withUnsafeGuaranteedRef {
                    unsafeDowncast($0, to: ClientConnection.self).session?.socketID == socketID
                } ?? false
            }
        }
    }

    /// A subscriber that reads too slowly is closed: there is no log to continue from. But first the socket gets what it
    /// takes, because a burst in one tick says nothing about the reader.
    @inline(__always)
    private func deliver(_ frame: SharedBytes, _ variants: FrameVariants?, to id: SessionID) {
        guard let source = loop.unretainedSource(slot: id.slot, generation: id.generation) else { return }
        source._withUnsafeGuaranteedRef { source in
            let connection = unsafeDowncast(source, to: ClientConnection.self)
            if connection.isOverfull(settings.limits), slowReaders.isTooSlow(connection) { return }
            if let variants {
                connection.queue(frames(variants, for: connection), on: loop)
            } else {
                connection.queue(frame, on: loop)
            }
        }
    }

    // MARK: Users

    func told(_ news: [UserNews]) {
        engine.watchlists.told(news) { sessions, messages in
            let frame = FrameWriter.frames(of: messages)
            for id in sessions { loop.connection(id)?.queue(frame) }
        }
    }

    // MARK: The database

    /// The database has been out of reach for a while, or is back and everything missed has been read.
    func degraded(_ isDegraded: Bool) {
        guard isDegraded != self.isDegraded else { return }
        self.isDegraded = isDegraded
        let frame = FrameWriter.frames(of: .status(isDegraded: isDegraded))
        loop.forEachConnection { connection in
            if connection.isEstablished, connection.session?.app.ownsDatabase == true { connection.queue(frame) }
        }
    }

    /// Tells a connection that has just opened of an ongoing outage.
    func tellStatus(_ connection: ClientConnection) {
        guard isDegraded, connection.session?.app.ownsDatabase == true else { return }
        connection.queue(FrameWriter.frames(of: .status(isDegraded: true)))
    }
}

extension EventLoop {
    func connection(_ id: SessionID) -> ClientConnection? {
        source(slot: id.slot, generation: id.generation) as? ClientConnection
    }

    /// Calls `body` for every connection; it may remove the connection.
    func forEachConnection(_ body: (ClientConnection) -> Void) {
        forEachSource { if let connection = $0 as? ClientConnection { body(connection) } }
    }
}
