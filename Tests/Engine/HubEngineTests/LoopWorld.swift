import Bytes
import Clock
import HubEngine
import Pusher
import Sync

/// Several loops with mailboxes, the shard of all streams on loop 0, a feed that reads a log, and connections that read
/// slowly: everything between database and socket, in manual steps.
final class LoopWorld {
    enum Message {
        case join(StreamJoin, from: Int), leave(StreamName, from: Int), forget(SessionID, StreamName, from: Int)
        case joined(StreamJoined)
        case broadcast(StreamName, Int64, [String]), reset(StreamName, StreamPosition, ResumeLoss)
        case positioned(StreamID, StreamPosition, watch: UInt32), event(StreamEvent)
        case feedReset(StreamID, StreamPosition)
        case page(StreamRead, [StreamEvent]), unreadable(StreamRead, StreamReadFailure)
    }

    /// One connection: its session, and messages waiting for its socket.
    final class Wire {
        let loop: Int
        let session: Session
        var queue: [String] = []
        var mostQueued = 0

        init(loop: Int, session: Session) {
            self.loop = loop
            self.session = session
        }
    }

    /// Queued texts above which a connection is served in pages.
    static let crowd = 6
    let engines: [EngineFixture]
    var shard: StreamShard
    let limits: StreamLimits
    var mailboxes: [[Message]]
    private(set) var wires: [Wire] = []
    let feed: ModelFeed
    private(set) var fellBehind = 0
    private var lastGeneration: UInt32 = 0
    /// Time, for streams that linger.
    var now: Instant = 0

    init(loops: Int, limits: StreamLimits) {
        engines = (0..<loops).map { _ in EngineFixture() }
        mailboxes = Array(repeating: [], count: loops)
        self.limits = limits
        shard = StreamShard(limits: limits)
        feed = ModelFeed()
    }

    // MARK: Connections

    /// A new connection of user `u`.
    func connect(_ loop: Int, slot: UInt32) -> Wire {
        lastGeneration += 1
        let wire = Wire(loop: loop, session: engines[loop].session(slot, generation: lastGeneration))
        wires.removeAll { $0.loop == loop && $0.session.id.slot == slot }
        wires.append(wire)
        return wire
    }

    func disconnect(_ wire: Wire) {
        var effects = SessionEngine.Effects()
        engines[wire.loop].core.closed(wire.session, &effects)
        perform(effects, wire)
        wires.removeAll { $0 === wire }
    }

    func send(_ text: String, _ wire: Wire) throws {
        var effects = SessionEngine.Effects()
        var text = text
        let event = try text.withUTF8 { try ClientEvent.decode(UnsafeRawBufferPointer($0)) }
        let hasRoom = wire.queue.count <= Self.crowd
        engines[wire.loop].core.received(event, from: wire.session, hasRoom: hasRoom, now: now, &effects)
        perform(effects, wire)
        pullIfDrained(wire)
    }

    func signin(_ wire: Wire) throws {
        let data = #"{"id":"u"}"#
        let auth = wire.session.app.credentials.sign(.user(userData: data), socketID: wire.session.socketID)
        try send(
            #"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"{\"id\":\"u\"}"}}"#, wire)
    }

    func subscribe(_ channel: String, _ wire: Wire) throws {
        try send(#"{"event":"pusher:subscribe","data":{"channel":"\#(channel)"}}"#, wire)
    }

    func unsubscribe(_ channel: String, _ wire: Wire) throws {
        try send(#"{"event":"pusher:unsubscribe","data":{"channel":"\#(channel)"}}"#, wire)
    }

    func resume(_ channel: String, _ epoch: String, _ offset: Int64, _ wire: Wire) throws {
        let position = #"{"epoch":"\#(epoch)","offset":\#(offset)}"#
        try send(#"{"event":"sync:resume","data":{"v":1,"channels":{"\#(channel)":\#(position)}}}"#, wire)
    }

    /// The socket takes this many texts.
    func read(_ count: Int, _ wire: Wire) -> [String] {
        let taken = Array(wire.queue.prefix(count))
        wire.queue.removeFirst(taken.count)
        if !taken.isEmpty { pullIfDrained(wire) }
        return taken
    }

    private func pullIfDrained(_ wire: Wire) {
        guard wire.session.isBehind, wire.queue.count <= Self.crowd / 4 else { return }
        var effects = SessionEngine.Effects()
        engines[wire.loop].core.streams.drained(wire.session, now: now, &effects)
        perform(effects, wire)
    }

    private func perform(_ effects: SessionEngine.Effects, _ wire: Wire) {
        for effect in effects {
            switch effect {
            case .send(let messages): queue(messages.texts, wire)
            case .share(let messages), .queue(let messages): queue(messages.texts, wire)
            case .join(let join): toShard(.join(join, from: wire.loop), from: wire.loop)
            case .forget(let name):
                toShard(.forget(wire.session.id, name, from: wire.loop), from: wire.loop)
            case .leave(let name): toShard(.leave(name, from: wire.loop), from: wire.loop)
            case .pong, .verify, .act, .watchIdentity, .tellBackoff, .users, .close, .request: break
            }
        }
    }

    private func queue(_ texts: [String], _ wire: Wire) {
        wire.queue += texts
        wire.mostQueued = max(wire.mostQueued, wire.queue.count)
    }

    // MARK: Between the loops

    /// Loop 0, the shard's own, posts nothing to itself, like `ClientLoop`.
    private func toShard(_ message: Message, from loop: Int) {
        if loop == 0 {
            take(message, at: 0)
        } else {
            mailboxes[0].append(message)
        }
    }

    private func post(_ message: Message, to loop: Int) {
        if loop == 0 {
            take(message, at: 0)
        } else {
            mailboxes[loop].append(message)
        }
    }

    /// Loop `loop` processes its next message.
    func look(at loop: Int) {
        guard !mailboxes[loop].isEmpty else { return }
        take(mailboxes[loop].removeFirst(), at: loop)
    }

    func drain(_ loop: Int) {
        while !mailboxes[loop].isEmpty { look(at: loop) }
    }

    private func take(_ message: Message, at loop: Int) {
        switch message {
        case .joined(let joined): self.joined(joined, loop)
        case .broadcast(let name, let offset, let texts): deliver(name, offset, texts, loop)
        case .reset(let name, let position, let loss): reset(name, position, loss, loop)
        case .join(let join, let from): atShard { $0.join(join, from: from, &$1) }
        case .forget(let session, let name, let from): atShard { shard, _ in shard.forget(session, name, from: from) }
        case .leave(let name, let from): atShard { [now] in $0.leave(name, from: from, now: now, &$1) }
        case .positioned(let id, let position, let watch):
            atShard { $0.positioned(id, at: position, watch: watch, &$1) }
        case .event(let event): atShard { $0.received(event, &$1) }
        case .feedReset(let id, let position): atShard { $0.reset(id, to: position, &$1) }
        case .page(let read, let events): atShard { [now] in $0.page(read, events, now: now, &$1) }
        case .unreadable(let read, let failure): atShard { [now] in $0.unreadable(read, failure, now: now, &$1) }
        }
    }

    func sweep() {
        atShard { [now] in $0.sweep(now: now, &$1) }
    }

    /// The shard's timer fires if it is due.
    func endPauses() {
        guard let due = shard.nextPauseEnd, due <= now else { return }
        atShard { [now] in $0.endPauses(now: now, &$1) }
    }

    private func atShard(_ input: (inout StreamShard, inout ContiguousArray<StreamShard.Effect>) -> Void) {
        var effects: ContiguousArray<StreamShard.Effect> = []
        input(&shard, &effects)
        for effect in effects {
            switch effect {
            case .watch(let id, let serial, _): feed.requests.append(.watch(id, serial))
            case .unwatch(let id): feed.requests.append(.unwatch(id))
            case .read(let read): feed.requests.append(.read(read))
            case .joined(let loop, let joined): post(.joined(joined), to: loop)
            case .refused: break
            case .broadcast(let told):
                let (loops, name, offset, messages) = (told.loops, told.name, told.offset, told.messages)
                for loop in mailboxes.indices where loops.contains(loop: loop) {
                    post(.broadcast(name, offset, messages.texts), to: loop)
                }
            case .reset(let loops, let name, let position, let loss):
                for loop in mailboxes.indices where loops.contains(loop: loop) {
                    post(.reset(name, position, loss), to: loop)
                }
            }
        }
    }

    private func wire(_ id: SessionID, _ loop: Int) -> Wire? {
        wires.first { $0.loop == loop && $0.session.id == id }
    }

    private func joined(_ joined: StreamJoined, _ loop: Int) {
        guard let wire = wire(joined.session, loop) else { return }
        var effects = SessionEngine.Effects()
        let hasRoom = wire.queue.count <= Self.crowd
        engines[loop].core.streams.joined(joined, wire.session, hasRoom: hasRoom, now: now, &effects)
        perform(effects, wire)
        pullIfDrained(wire)
    }

    private func deliver(_ name: StreamName, _ offset: Int64, _ texts: [String], _ loop: Int) {
        guard let channel = engines[loop].core.channels[name] else { return }
        for id in channel.subscribers {
            guard let wire = wire(id, loop) else { continue }
            if wire.queue.count > Self.crowd {
                if engines[loop].core.streams.fellBehind(id, in: channel) { fellBehind += 1 }
                pullIfDrained(wire)
            } else {
                queue(texts, wire)
            }
        }
        channel.advanced(to: offset)
    }

    private func reset(_ name: StreamName, _ position: StreamPosition, _ loss: ResumeLoss, _ loop: Int) {
        let engine = engines[loop]
        guard let channel = engine.core.channels[name] else { return }
        let texts = engine.core.streams.reset(channel, to: position, loss).texts
        for id in channel.subscribers {
            guard let wire = wire(id, loop) else { continue }
            queue(texts, wire)
            pullIfDrained(wire)
        }
    }

    /// The feed tells the loop that these topics are published.
    func publish(_ topics: [String], at loop: Int) {
        let engine = engines[loop]
        for id in engine.core.streams.published(PublishedTopics(epoch: "e", topics: topics)) {
            if let wire = wire(id, loop) { pullIfDrained(wire) }
        }
    }

    // MARK: The feed's thread

    /// The feed processes its next request.
    func feedAnswers() {
        if let message = feed.answer() { mailboxes[0].append(message) }
    }

    /// The feed delivers the stream's next event, or a reset when none can follow.
    func feedDelivers(_ id: StreamID) {
        if let message = feed.deliver(id) { mailboxes[0].append(message) }
    }

    /// The feed answers the read at this index of its queue.
    func feedReads(_ index: Int = 0, failing: Bool = false) {
        feedReads(index, failure: failing ? .busy : nil)
    }

    func feedReads(_ index: Int = 0, failure: StreamReadFailure?) {
        if let message = feed.read(index, failing: failure) { mailboxes[0].append(message) }
    }

    /// Runs until the shard waits only for reads, or for time to pass.
    func settleButForReads() {
        while !feed.requests.isEmpty || !mailboxes.allSatisfy(\.isEmpty) {
            feedAnswers()
            for loop in mailboxes.indices { drain(loop) }
        }
    }

    /// Runs until only clients have something left to read.
    func settle() {
        while true {
            let isIdle =
                feed.requests.isEmpty && feed.reads.isEmpty && mailboxes.allSatisfy(\.isEmpty)
                && feed.logs.keys.allSatisfy { !feed.isBehind($0) }
            if isIdle {
                guard let due = shard.nextPauseEnd else { return }
                now = max(now, due)
                endPauses()
            }
            feedAnswers()
            for id in feed.logs.keys { feedDelivers(id) }
            feedReads()
            for loop in mailboxes.indices { drain(loop) }
        }
    }
}
