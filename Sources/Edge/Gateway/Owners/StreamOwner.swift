import Bytes
import Clock
import Feed
import HubEngine
import Pusher
import Reactor
import Sync
import WebSocket

/// The streams that this loop owns.
final class StreamOwner: EffectPerformer {
    private var shard: StreamShard
    var effects: ContiguousArray<StreamShard.Effect> = []
    private let loop: EventLoop
    let runner: Runner
    private let due: DueWork
    private let context: HubContext
    private let compression: LoopCompression?
    private let trace: EventTrace?

    private static let sweepInterval = Duration.seconds(1)

    init(
        on loop: EventLoop, _ runner: Runner, _ due: DueWork, _ context: HubContext, _ compression: LoopCompression?,
        _ trace: EventTrace?
    ) {
        self.loop = loop
        self.runner = runner
        self.due = due
        self.context = context
        self.compression = compression
        self.trace = trace
        let configuration = context.configuration
        shard = StreamShard(limits: configuration.channelLimits.streams.share(of: configuration.loops))
    }

    // MARK: From loops

    func join(_ join: StreamJoin, from loop: Int) {
        input { $0.join(join, from: loop, &$1) }
    }

    func forget(_ session: SessionID, _ name: StreamName, from loop: Int) {
        input { shard, _ in shard.forget(session, name, from: loop) }
    }

    func leave(_ name: StreamName, from loop: Int) {
        let now = self.loop.now
        input { $0.leave(name, from: loop, now: now, &$1) }
        sweepLater()
    }

    // MARK: From the feed

    /// Outputs that concern no stream are not for the owner.
    func received(_ output: FeedOutput) {
        let now = loop.now
        switch output {
        case .event(let event):
            if let trace { trace.homes(event, in: shard.position(of: event.stream)?.epoch) }
            input { $0.received(event, &$1) }
        case .positioned(let stream, let serial, let position):
            input { $0.positioned(stream, at: position, watch: serial, &$1) }
        case .refused(let stream, let serial, let refusal):
            input { $0.refused(stream, watch: serial, refusal, &$1) }
        case .reset(let stream, let position):
            input { $0.reset(stream, to: position, &$1) }
        case .page(let read, let events):
            input { $0.page(read, events, now: now, &$1) }
            pauseLater()
        case .unreadable(let read, let failure):
            input { $0.unreadable(read, failure, now: now, &$1) }
            pauseLater()
        case .revoked, .revocationsCurrent, .topics, .degraded, .status:
            break
        }
    }

    /// Where the stream stands here; nil where nobody is in it.
    func position(of stream: StreamID) -> StreamPosition? { shard.position(of: stream) }

    // MARK: With time

    /// Pages that no client asked for are read again when their backoff is over.
    func pausesDue() {
        let now = loop.now
        input { $0.endPauses(now: now, &$1) }
        pauseLater()
    }

    private func pauseLater() {
        due.set(.pauses, at: shard.nextPauseEnd)
    }

    /// Drops streams that nobody came back to.
    func sweep() {
        let now = loop.now
        input { $0.sweep(now: now, &$1) }
        sweepLater()
    }

    private func sweepLater() {
        if shard.lingeringCount > 0, !due.isSet(.lingering) { due.set(.lingering, after: Self.sweepInterval) }
    }

    // MARK: Effects of the shard

    private func input(_ input: (inout StreamShard, inout ContiguousArray<StreamShard.Effect>) -> Void) {
        run({ input(&shard, &$0) }, { (effect: consuming StreamShard.Effect) in perform(consume effect) })
    }

    private func perform(_ effect: consuming StreamShard.Effect) {
        let router = runner.router
        switch consume effect {
        case .watch(let stream, let serial, let isBack):
            context.requestFeed(.watch(stream, serial: serial, isBack: isBack))
        case .unwatch(let stream): context.requestFeed(.unwatch(stream))
        case .read(let read): context.requestFeed(.read(read))
        case .joined(let loop, let joined): router.tell(.joined(joined), loop: loop)
        case .refused(let loop, let session, let serial, let refusal):
            router.tell(.joinRefused(session, serial: serial, refusal), loop: loop)
        case .broadcast(let broadcast): tell(broadcast)
        case .reset(let loops, let name, let position, let loss):
            router.tell(.reset(name, position, loss), loops: loops)
        }
    }
}

extension StreamOwner {
    @inline(never)
    private func tell(_ broadcast: consuming StreamShard.Broadcast) {
        let frame = FrameWriter.frames(of: &broadcast.messages)
        let variants = compression?.isWorthIt(frame) == true ? FrameVariants(frame) : nil
        runner.router.tell(.event(broadcast.name, offset: broadcast.offset, frame, variants), loops: broadcast.loops)
    }
}

extension StreamLimits {
    /// The limits of one shard, where the bounds are the hub's.
    func share(of loops: Int) -> StreamLimits {
        var share = self
        share.windowTotalBytes = max(1, windowTotalBytes / loops)
        share.lingeringMax = lingeringMax / loops
        return share
    }
}
