import Bytes
import Clock
import HubEngine
import Pusher
import Sync
import Testing

/// Several loops with their mailboxes, each with a shard of ordinary channels, and connections that read at once: everything
/// between a client's message and a receiver's socket, each step by hand. As `ClientLoop` does, a loop posts nothing to
/// itself, and what a shard decides while something is performed is done after that.
final class ChannelWorld {
    enum Message {
        case request(ChannelRequest, from: Int)
        /// With how many events of the channel its shard had handed on before.
        case answer(ChannelAnswer, after: Int)
        case publish(ChannelKey, [String], except: Exclusion?)
        case publication(Publication)
    }

    /// One connection and what it was sent, the beginnings of connections aside.
    final class Wire {
        let loop: Int
        let session: Session
        var heard: [String] = []

        init(loop: Int, session: Session) {
            self.loop = loop
            self.session = session
        }
    }

    private final class Loop {
        let engine: SessionEngine
        var shard: ChannelShard
        /// The state, where it is not in the shard's memory.
        let link: SlowLink?
        var effects = ChannelShard.Effects()
        /// Of each effect that is an answer, how many events of its channel came before it.
        var eventsBefore: [Int] = []
        var isPerforming = false
        var mailbox: [Message] = []
        var nextMessage = 0
        var state: MemoryChannels? { link?.memory ?? shard.memory }

        init(
            loops: Int, limits: ShardLimits, metrics: EngineMetrics, link: SlowLink?, now: @escaping () -> Instant
        ) {
            var all = ChannelLimits()
            all.shards = limits
            engine = SessionEngine(
                limits: all, metrics: metrics, now: { UnixTime(microseconds: Int64(now().nanoseconds / 1_000)) })
            self.link = link
            let linked = link.map { link in
                LinkedChannels(as: ChannelWorld.hub) { request in
                    guard case .channel(let sent) = request else { return }
                    do {
                        try link.send(sent.encoded(link.apps), at: now(), to: [ChannelWorld.hub])
                    } catch {
                        Issue.record("a call cannot be read: \(error)")
                    }
                }
            }
            shard = ChannelShard(loops: loops, limits: limits, metrics: metrics, link: linked)
        }
    }

    private final class Clock {
        var now: Instant = 1_000_000_000
    }

    let app: App
    /// Of all loops.
    let metrics = EngineMetrics()
    private let loops: [Loop]
    private let clock = Clock()
    private var wires: [SessionID: Wire] = [:]
    private var lastGeneration: UInt32 = 0
    /// Whether little is queued to connections.
    var hasRoom = true
    /// In the order in which they were posted.
    var webhooks: [WebhookEvent] = []
    /// Called when a shard hands on an event of a backend or a client.
    var published: (ChannelKey, String, SocketID?) -> Void = { _, _, _ in }
    /// How many events of the channel were handed on so far.
    private var eventCounts: [ChannelKey: Int] = [:]
    /// Called when a connection hears that it is in a channel: which of the things it has heard that is, and how many events
    /// of the channel its shard had handed on before it said so.
    var heardAnswer: (Wire, ChannelKey, Int, Int) -> Void = { _, _, _, _ in }

    /// The one hub, where the state is elsewhere.
    static let hub = HubID(1)
    private var decided: [Decision: [Int]] = [:]

    /// A subscribe whose answer has not come.
    private struct Decision: Hashable {
        let session: SessionID
        let serial: UInt32
    }

    /// - Parameter slow: the seed of a state that is elsewhere; nil: it is in the shards' memory.
    init(
        loops count: Int, limits: ShardLimits = ShardLimits(), appLimits: AppLimits = AppLimits(), slow: UInt64? = nil,
        _ change: (inout AppFeatures) -> Void = { _ in }
    ) {
        var features = AppFeatures()
        features.clientEvents = true
        features.webhooks = [.channelExistence, .presence, .clientEvents, .cacheChannels, .subscriptionCount]
        change(&features)
        app = App(
            id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 3, ownsDatabase: false,
            features: features, limits: appLimits)
        let (clock, metrics, app) = (clock, metrics, app)
        loops = (0..<count).map { loop in
            let link = slow.map {
                SlowLink(limits, metrics: metrics, of: [app], seed: $0 &* 64 &+ UInt64(loop))
            }
            return Loop(loops: count, limits: limits, metrics: metrics, link: link, now: { clock.now })
        }
    }

    // MARK: State

    func key(_ name: String) -> ChannelKey {
        guard let name = ChannelName(name) else { preconditionFailure("no channel's name: \(name)") }
        return ChannelKey(app.index, name)
    }

    /// A channel's name with that beginning whose shard is that loop.
    func name(_ prefix: String, onShard loop: Int) -> String {
        var number = 0
        while key("\(prefix)\(number)").shard(of: loops.count) != loop { number += 1 }
        return "\(prefix)\(number)"
    }

    private func shard(_ name: String) -> Loop { loops[key(name).shard(of: loops.count)] }

    func facts(_ name: String) -> ChannelFacts {
        shard(name).state.map { $0.facts(of: key(name), now: clock.now) } ?? ChannelFacts()
    }

    func users(_ name: String) -> Set<String> { Set(shard(name).state?.users(in: key(name)) ?? []) }

    /// The state of the channel's shard.
    func link(_ name: String) -> SlowLink? { shard(name).link }
    /// Those of all shards.
    var links: [SlowLink] { loops.compactMap(\.link) }

    /// The sessions that get the channel's events, over all loops.
    func subscriberCount(_ name: String) -> Int {
        loops.reduce(0) { $0 + ($1.engine.channels[key(name)]?.subscribers.count ?? 0) }
    }

    /// Whether the connection gets the channel's events.
    func isSubscribed(_ wire: Wire, to name: String) -> Bool {
        loops[wire.loop].engine.channels[key(name)]?.subscribers.contains(wire.session.id) == true
    }

    var loopCount: Int { loops.count }

    func subscribersEverywhere(_ names: [String]) -> Int { names.reduce(0) { $0 + subscriberCount($1) } }

    /// Channels that anything is known of: at shards, and on loops.
    var channelCount: Int { heldCount + loops.reduce(0) { $0 + $1.engine.channels.count(of: app) } }
    /// Those that shards hold.
    var heldCount: Int { loops.reduce(0) { $0 + ($1.state?.channelCount ?? 0) } }
    /// Those with subscribers, at their shards.
    var localCount: Int { loops.reduce(0) { $0 + $1.shard.localCount } }
    var cachedBytes: Int { loops.reduce(0) { $0 + ($1.state?.cachedBytes ?? 0) } }
    var nextDue: Instant? { loops.flatMap { [$0.shard.nextDue, $0.link?.memory.nextDue] }.compactMap(\.self).min() }
    var now: Instant { clock.now }

    // MARK: Connections

    func connect(_ loop: Int) -> Wire {
        lastGeneration += 1
        let session = Session(
            id: SessionID(slot: lastGeneration - 1, generation: lastGeneration), app: app,
            socketID: SocketID(random: UInt64(lastGeneration) << 32 | 7))
        loops[loop].engine.opened(session)
        let wire = Wire(loop: loop, session: session)
        wires[session.id] = wire
        return wire
    }

    /// The connection breaks; or its client says that it leaves.
    func disconnect(_ wire: Wire, mayReturn: Bool = true) {
        wires[wire.session.id] = nil
        engage(wire) { $0.closed(wire.session, mayReturn: mayReturn, &$1) }
    }

    func send(_ text: String, _ wire: Wire) throws {
        var text = text
        let event = try text.withUTF8 { try ClientEvent.decode(UnsafeRawBufferPointer($0)) }
        engage(wire) { [now] in $0.received(event, from: wire.session, now: now, &$1) }
    }

    /// Subscribes, signed where that is needed; `user` becomes `channel_data`.
    func subscribe(_ name: String, user: String? = nil, info: String = #"{"n":1}"#, _ wire: Wire) throws {
        let data = user.map { #"{"user_id":"\#($0)","user_info":\#(info)}"# }
        try subscribe(name, channelData: data, wire)
    }

    func subscribe(_ name: String, channelData: String?, _ wire: Wire) throws {
        let auth = app.credentials.sign(
            .channel(key(name).name, channelData: channelData), socketID: wire.session.socketID)
        let quoted = channelData.map {
            #","channel_data":"\#($0.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))""#
        }
        try send(
            #"{"event":"pusher:subscribe","data":{"channel":"\#(name)","auth":"\#(auth)"\#(quoted ?? "")}}"#, wire)
    }

    func unsubscribe(_ name: String, _ wire: Wire) throws {
        try send(#"{"event":"pusher:unsubscribe","data":{"channel":"\#(name)"}}"#, wire)
    }

    func signin(_ user: String, more: String = "", _ wire: Wire) throws {
        let data = #"{"id":"\#(user)"\#(more)}"#
        let auth = app.credentials.sign(.user(userData: data), socketID: wire.session.socketID)
        try send(
            #"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(data.replacing("\"", with: "\\\""))"}}"#,
            wire)
    }

    private func engage(_ wire: Wire, _ input: (SessionEngine, inout SessionEngine.Effects) -> Void) {
        var effects = SessionEngine.Effects()
        input(loops[wire.loop].engine, &effects)
        for effect in effects {
            switch effect {
            case .send(let messages): wire.heard += messages.texts
            case .share(let messages), .queue(let messages): wire.heard += messages.texts
            case .request(let request):
                post(.request(request, from: wire.loop), to: request.key.shard(of: loops.count), from: wire.loop)
            default: break
            }
        }
    }

    // MARK: Between the loops

    /// An app's backend publishes by that loop: the shard takes it up when it looks.
    func publish(_ name: String, _ event: String, _ data: String, except: SocketID? = nil, by loop: Int = 0) {
        let publication = Publication(channel: key(name).name, event: event, data: Array(data.utf8), except: except)
        post(.publication(publication), to: key(name).shard(of: loops.count), from: loop)
    }

    private func post(_ message: Message, to loop: Int, from: Int) {
        if loop == from { take(message, at: loop) } else { loops[loop].mailbox.append(message) }
    }

    /// Loop `loop` looks at its next message.
    func look(at loop: Int) {
        let from = loops[loop]
        if let news = from.link?.next(for: Self.hub) {
            atShard(loop) { [now] shard, effects in shard.received(news, now: now, &effects) }
        }
        guard from.nextMessage < from.mailbox.count else { return }
        from.nextMessage += 1
        take(from.mailbox[from.nextMessage - 1], at: loop)
        guard from.nextMessage == from.mailbox.count else { return }
        from.mailbox = []
        from.nextMessage = 0
    }

    /// Until no message is under way.
    func settle() {
        while loops.contains(where: { !$0.mailbox.isEmpty || $0.link?.isQuiet == false }) {
            for loop in loops.indices { look(at: loop) }
        }
    }

    /// The way to the state was broken, and is well again.
    func gap() {
        for loop in loops.indices { atShard(loop) { [now] shard, _ in shard.assertAll(now: now) } }
    }

    /// Time passes, and each shard does what is due, in one turn or more.
    func advance(_ time: Duration) {
        clock.now = clock.now.advanced(by: time)
        tick()
    }

    /// Time passes, and nothing is done yet.
    func pass(to time: Instant) { clock.now = time }

    func tick() {
        for loop in loops.indices {
            loops[loop].link?.tick(at: clock.now, to: [Self.hub])
            while let due = loops[loop].shard.nextDue, due <= clock.now { turn(loop) }
        }
    }

    /// One turn of what is due at a shard.
    func turn(_ loop: Int) {
        atShard(loop) { [now] shard, effects in shard.tick(now: now, &effects) }
    }

    private func take(_ message: Message, at loop: Int) {
        switch message {
        case .request(let request, let from):
            if case .relay(let relay) = request {
                eventCounts[relay.key, default: 0] += 1
                published(
                    relay.key, #""data":"\#(String(decoding: relay.event.data, as: UTF8.self))""#,
                    wires[relay.sender]?.session.socketID)
            }
            if case .enter(let entry) = request {
                decided[Decision(session: entry.session, serial: entry.serial), default: []]
                    .append(eventCounts[entry.key] ?? 0)
            }
            atShard(loop) { [now] shard, effects in shard.received(request, from: from, now: now, &effects) }
        case .publication(let publication):
            let key = ChannelKey(app.index, publication.channel)
            eventCounts[key, default: 0] += 1
            published(key, String(decoding: publication.data, as: UTF8.self), publication.except)
            atShard(loop) { [now, app] shard, effects in _ = shard.publish(publication, of: app, now: now, &effects) }
        case .answer(.entered(let entered), let eventsBefore):
            guard let wire = wires[entered.session] else { return answeredTooLate(.entered(entered), at: loop) }
            let index = wire.heard.count
            engage(wire) { $0.ordinary.entered(entered, wire.session, hasRoom: hasRoom, &$1) }
            if wire.heard.count > index { heardAnswer(wire, entered.key, index, eventsBefore) }
        case .answer(.refused(let id, let serial, let refusal), _):
            guard let wire = wires[id] else {
                return answeredTooLate(.refused(id, serial: serial, refusal), at: loop)
            }
            engage(wire) { $0.ordinary.refused(wire.session, serial: serial, refusal, &$1) }
        case .publish(let key, let texts, let except):
            for id in loops[loop].engine.channels[key]?.subscribers.map(\.self) ?? [] {
                guard let wire = wires[id], except != .socket(wire.session.socketID),
                    except != .session(id, loop: loop)
                else { continue }
                wire.heard += texts
            }
        }
    }

    private func answeredTooLate(_ answer: ChannelAnswer, at loop: Int) {
        guard let exit = loops[loop].engine.ordinary.answeredTooLate(answer) else { return }
        post(.request(.exit(exit), from: loop), to: exit.key.shard(of: loops.count), from: loop)
    }

    private func atShard(_ number: Int, _ input: (inout ChannelShard, inout ChannelShard.Effects) -> Void) {
        let loop = loops[number]
        input(&loop.shard, &loop.effects)
        for effect in loop.effects[loop.eventsBefore.count...] {
            var before = 0
            if case .answer(_, .entered(let entered)) = effect {
                let decision = Decision(session: entered.session, serial: entered.serial)
                before = decided[decision]?.removeFirst() ?? 0
                if decided[decision]?.isEmpty == true { decided[decision] = nil }
            }
            loop.eventsBefore.append(before)
        }
        guard !loop.isPerforming else { return }
        loop.isPerforming = true
        var next = 0
        while next < loop.effects.count {
            switch loop.effects[next] {
            case .answer(let target, let answer):
                post(.answer(answer, after: loop.eventsBefore[next]), to: target, from: number)
            case .broadcast(let targets, let key, let messages, let except, _):
                let texts = messages.texts
                for target in loops.indices where targets.contains(loop: target) {
                    post(.publish(key, texts, except: except), to: target, from: number)
                }
            case .webhook(_, let event): webhooks.append(event)
            case .reply: break
            }
            next += 1
        }
        loop.effects = []
        loop.eventsBefore = []
        loop.isPerforming = false
    }
}
