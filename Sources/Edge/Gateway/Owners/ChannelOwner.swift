import Bytes
import Clock
import HubEngine
import Pusher
import Reactor
import WebSocket

/// The ordinary channels that this loop owns.
final class ChannelOwner: EffectPerformer {
    private var shard: ChannelShard
    var effects = ChannelShard.Effects()
    private let loop: EventLoop
    let runner: Runner
    private let due: DueWork
    private let context: HubContext
    private let compression: LoopCompression?
    private let turns: ConnectionTurns
    private let trace: EventTrace?
    /// Who waits for a reply of the shared state, by the call's number.
    private var askers: [UInt64: @Sendable (ChannelReply) -> Void] = [:]

    init(
        on loop: EventLoop, _ runner: Runner, _ due: DueWork, _ context: HubContext, _ compression: LoopCompression?,
        _ turns: ConnectionTurns, limits: ShardLimits, _ link: LoopLink?, _ trace: EventTrace?
    ) {
        self.loop = loop
        self.runner = runner
        self.due = due
        self.context = context
        self.compression = compression
        self.turns = turns
        self.trace = trace
        shard = ChannelShard(
            loops: context.configuration.loops, limits: limits, metrics: context.metrics.engine,
            link: link.map { LinkedChannels(as: $0.hub, $0.send) })
        // By a link, apps go by their ids from the beginning.
        replace(context.firstApps)
    }

    /// Whether replies come at once.
    var repliesAtOnce: Bool { ask { $0.memory != nil } }

    // MARK: From loops

    /// A loop's session comes, goes, or sends an event to the others.
    func received(_ request: ChannelRequest, from loop: Int) {
        if mayMakeRoom(for: request) { makeRoom(for: request, from: loop) } else { judge(request, from: loop) }
    }

    /// Handles the request once departed connections have made room.
    func judge(_ request: ChannelRequest, from loop: Int) {
        if let trace, case .relay(let relay) = request {
            trace.publishes(
                relay.event.event, relay.event.data.count, to: relay.key.name, of: relay.key.app, isOfClient: true)
        }
        input { shard, now, effects in shard.received(request, from: loop, now: now, &effects) }
    }

    // MARK: From routes

    /// Publishes. Returns the reply; if nil, `later` gets it, once.
    func publish(
        _ publication: Publication, of app: App, _ later: (@Sendable (ChannelReply) -> Void)? = nil
    ) -> ChannelReply? {
        if let trace {
            trace.publishes(
                publication.event, publication.data.count, to: publication.channel, of: app.index, isOfClient: false)
        }
        return reply(
            input { shard, now, effects in shard.publish(publication, of: app, now: now, &effects) }, later)
    }

    /// Asks the shared state. `answer` gets the reply, once: before this returns, if the state is here.
    func ask(_ call: ChannelCall, _ answer: @escaping @Sendable (ChannelReply) -> Void) {
        let asked = input { shard, now, effects in shard.ask(call, now: now, &effects) }
        if let reply = reply(asked, answer) { answer(reply) }
    }

    private func reply(
        _ asked: ChannelAsked, _ later: (@Sendable (ChannelReply) -> Void)?
    ) -> ChannelReply? {
        switch asked {
        case .reply(let reply): return reply
        case .later(let number):
            askers[number] = later
            return nil
        }
    }

    func loops(in key: ChannelKey) -> LoopSet { ask { $0.loops(in: key) } }

    // MARK: From the shared state

    /// The link has brought this: one `ChannelNews`.
    func received(_ bytes: [UInt8]) { input { $0.received(bytes, now: $1, &$2) } }

    /// A backend is to be told: one `ChannelNews.webhook`.
    func tell(_ bytes: [UInt8], _ receipt: WebhookReceipt) throws(SharedProblem) {
        let apps = ask { $0.apps }
        guard case .webhook(let index, let event) = try ChannelNews(bytes, apps), let app = apps[index] else {
            throw .malformed
        }
        context.webhooks?.post(event, of: app, receipt)
    }

    /// The way to the state was broken.
    func assertAll() { input { shard, now, _ in shard.assertAll(now: now) } }

    func replace(_ apps: AppTable) {
        for app in apps.apps { shard.replace(app) }
    }

    // MARK: With time

    func tick() {
        input { shard, now, effects in shard.tick(now: now, &effects) }
    }

    // MARK: Full presence channels

    /// Whether the shard would refuse the newcomer for members whose peers may be gone.
    private func mayMakeRoom(for request: ChannelRequest) -> Bool {
        guard case .enter(let entry) = request, entry.member != nil else { return false }
        return context.admission.hasDepartures && ask { $0.isFull(for: entry) }
    }

    /// Has each loop close its departed connections of the channel, then handles the request, which follows their leaves.
    private func makeRoom(for request: ChannelRequest, from loop: Int) {
        let key = request.key
        turns.closeDeparted(in: key)
        let router = runner.router
        let others = router.others(of: loops(in: key))
        guard !others.isEmpty else { return router.again(.channelWithRoom(request), from: loop) }
        let mailbox = router.mailbox
        let gather = ScatterGather<Void>(others.count) { _ in
            mailbox.post(.owner(.request(.channelWithRoom(request), from: loop)))
        }
        for (index, other) in others.enumerated() {
            router.ask(other) { gather.take($0.turns.closeDeparted(in: key), at: index) }
        }
    }

    // MARK: Effects of the shard

    private func input<Result>(
        _ input: (inout ChannelShard, _ now: Instant, inout ChannelShard.Effects) -> Result
    ) -> Result {
        let result = run(
            { input(&shard, loop.now, &$0) }, { (effect: consuming ChannelShard.Effect) in perform(consume effect) })
        due.set(.channels, at: ask { $0.nextDue })
        return result
    }

    /// Asks the shard in place. Read as a property, its value would be copied first: 38 reference counts.
    private func ask<Answer>(_ question: (inout ChannelShard) -> Answer) -> Answer { question(&shard) }

    private func perform(_ effect: consuming ChannelShard.Effect) {
        switch consume effect {
        case .answer(let loop, let answer):
            if case .refused(_, _, let why) = answer, why.isOfState {
                context.configuration.sharedLink?.wasMissed()
            }
            runner.router.tell(.answer(answer), loop: loop)
        case .broadcast(let loops, let key, .passing(let messages), let except, let isEvent):
            let frame = FrameWriter.frames(of: messages)
            let variants = isWorthCompressing(frame) ? FrameVariants(frame) : nil
            runner.router.tell(.publish(key, frame, except: except, variants, isEvent: isEvent), loops: loops)
        case .broadcast(let loops, let key, .kept(let messages), let except, let isEvent):
            let kept = messages.variants
            let variants = isWorthCompressing(kept.plain) ? kept : nil
            runner.router.tell(.publish(key, kept.plain, except: except, variants, isEvent: isEvent), loops: loops)
        case .webhook(let app, let event): context.webhooks?.post(event, of: app, nil)
        case .reply(let number, let reply): askers.removeValue(forKey: number)?(reply)
        }
    }

    private func isWorthCompressing(_ frame: SharedBytes) -> Bool { compression?.isWorthIt(frame) == true }
}
