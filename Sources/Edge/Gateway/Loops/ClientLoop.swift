import Bytes
import Clock
import Feed
import HTTP
import HubEngine
import Identity
import Metrics
import Pusher
import Reactor
import Store
import Sync
import WebSocket

/// One loop of the gateway: its connections, its engine, and the streams, channels and users it owns. Used on its thread.
///
/// Everything that happens is an input to the engine or to owners, or news from owners for subscribers; `Runner` runs them.
/// Frames are queued to connections at once, so that each check of room sees what is queued already. A client's messages are
/// taken one at a time, and so are the feed's outputs.
final class ClientLoop: EffectPerformer {
    let loop: EventLoop
    let hubContext: HubContext
    let metrics: GatewayMetrics
    let engine: SessionEngine
    let buffers: LoopBuffers
    let settings: ConnectionSettings
    let budget: MemoryBudget
    let runner: Runner
    let due: DueWork
    let streams: StreamOwner
    let channels: ChannelOwner
    let users: UserOwner
    let delivery: LoopDelivery
    let identities: IdentityWatch
    let webSockets: WebSockets
    let handshakes: Handshakes
    let intake: ConnectionIntake
    let drainage: ConnectionDrain
    let apps: ServedApps
    var effects = SessionEngine.Effects()

    /// Nil in a hub without a console.
    var trace: EventTrace? { delivery.trace }
    var slowReaders: SlowReaders { delivery.slowReaders }
    var eventStreams: EventStreams { webSockets.eventStreams }
    var turns: ConnectionTurns { webSockets.turns }
    var compression: LoopCompression? { delivery.compression }
    var router: Router { runner.router }
    var directory: LoopDirectory { LoopDirectory(own: self) }
    var mailbox: Mailbox<LoopMessage> { router.mailbox }
    /// Whether clients are to go elsewhere: a connection serves no further request.
    var isLeaving: Bool { isStopping || drainage.isUnderWay }
    /// Whether the hub ends.
    var isStopping: Bool { drainage.isStopping }
    /// How long a peer has to answer a close frame, or to read what is left for it.
    var closeTime: Duration { isStopping ? settings.timeouts.farewell : settings.timeouts.close }

    init(_ number: Int, on loop: EventLoop, _ context: HubContext) throws(ReactorError) {
        self.loop = loop
        hubContext = context
        let configuration = context.configuration
        metrics = context.metrics
        settings = ConnectionSettings(configuration)
        let router = Router(here: number, on: loop, context.mailboxes, metrics)
        runner = Runner(router)
        due = try DueWork(on: loop) { router.mailbox.post(.due) }
        engine = SessionEngine(
            limits: configuration.channelLimits, identityTimes: configuration.timeouts.identity,
            metrics: metrics.engine, now: UnixTime.read)
        engine.identities.isRevocationCurrent = !context.hasFeed
        buffers = LoopBuffers(requestBytesMax: configuration.httpLimits.messageBytes)
        budget = MemoryBudget(on: loop, configuration, metrics)
        let compression = configuration.compression.map { [metrics] in LoopCompression($0, metrics.compression) }
        let slowReaders = SlowReaders(on: loop, due, stalled: configuration.timeouts.stalled, metrics)
        let trace = configuration.keepsTraces ? try EventTrace(on: loop) : nil
        delivery = LoopDelivery(on: loop, router, engine, settings, slowReaders, compression, metrics, trace)
        let turns = ConnectionTurns(on: loop, engine, due, settings)
        let shardLimits = configuration.shardLimits.share(of: configuration.loops)
        streams = StreamOwner(on: loop, runner, due, context, compression, trace)
        let link = try LoopLink(configuration.sharedLink, loop: number, on: loop, context)
        channels = ChannelOwner(on: loop, runner, due, context, compression, turns, limits: shardLimits, link, trace)
        users = UserOwner(on: loop, runner, due, context, limits: shardLimits, link)
        identities = IdentityWatch(on: loop, due, context.verifier, router.mailbox)
        webSockets = WebSockets(on: loop, delivery, identities, turns, settings, metrics)
        handshakes = Handshakes(on: loop, due, configuration, metrics)
        intake = ConnectionIntake(on: loop)
        drainage = ConnectionDrain(on: loop, due, metrics, share: configuration.loops)
        apps = ServedApps(context.firstApps, engine, due)
        try loop.add(budget)
        budget.pressureChanged = { [settings] in settings.pressureChanged($0) }
        runner.perform = { [unowned self] (message: consuming OwnerMessage) in perform(message) }
        due.perform = { [unowned self] in perform($0) }
        loop.overtake = { [unowned self] in intake.overtake() }
        loop.attach(router.mailbox) { [unowned self] in received($0) }
        link?.serves(self)
    }

    // MARK: Messages

    private func received(_ message: LoopMessage) {
        switch message {
        case .owner(let message):
            router.received(message)
            runner.run { perform(message) }
        case .feed(let outputs, let readAt):
            trace?.readAt = readAt
            received(outputs)
        case .accepted(let descriptor, let address, let refusal, let usesTLS, let time):
            accepted(descriptor, address, refusal, usesTLS: usesTLS, beginsAt: time)
        case .shared(let arrival): arrival.perform(on: self)
        case .ask(let question): question(self)
        case .answer(let id, .token(let result)): identities.verified(id, result)
        case .answer(let id, .action(let answer)):
            if let connection = connection(id) { webSockets.acted(answer, connection) }
        case .answer(let id, .response(let response)):
            if let connection = connection(id) { connection.conversation?.answered(response, connection) }
        case .answer(let id, .piece(let piece)):
            if let connection = connection(id) { connection.conversation?.came(piece, connection) }
        case .serve(let apps): serve(apps)
        case .due: due.turn()
        case .drain(let order): drainage.follow(order)
        case .shutdown(let hasSuccessor): shutdown(hasSuccessor: hasSuccessor)
        }
    }

    /// Performs a request to an owner, or news from one.
    private func perform(_ message: consuming OwnerMessage) {
        switch consume message {
        case .request(.join(let join), let from): streams.join(join, from: from)
        case .request(.forget(let session, let name), let from): streams.forget(session, name, from: from)
        case .request(.leave(let name), let from): streams.leave(name, from: from)
        case .request(.channel(let request), let from): channels.received(request, from: from)
        case .request(.channelWithRoom(let request), let from): channels.judge(request, from: from)
        case .request(.users(let requests), let from): users.received(requests, from: from)
        case .news(.joined(let joined)): self.joined(joined)
        case .news(.joinRefused(let session, let serial, let refusal)): joinRefused(session, serial, refusal)
        case .news(.event(let name, let offset, let frame, let variants)):
            delivery.deliver(frame, variants, at: offset, to: name)
        case .news(.reset(let name, let position, let loss)): delivery.reset(name, to: position, loss)
        case .news(.answer(let answer)): received(answer)
        case .news(.publish(let key, let frame, let except, let variants, _)):
            let told = delivery.deliver(frame, variants, to: key, except: except)
            apps.table.app(index: key.app)?.counts.deliveries.add(told)
        case .news(.users(let news)): delivery.told(news)
        }
    }

    private func perform(_ kind: DueWork.Kind) {
        switch kind {
        case .departures: turns.closeDeparted()
        case .drain: drainage.turn()
        case .turns: turns.take()
        case .strangers: turns.takeStrangers()
        case .apps: replaceApps()
        case .channels: channels.tick()
        case .users: users.tick()
        case .pauses: streams.pausesDue()
        case .identities: identities.looksDue(lookAtIdentity)
        case .handshakes: handshakes.tick()
        case .lingering: streams.sweep()
        case .readers: slowReaders.sweep()
        }
    }

    private func received(_ outputs: [FeedOutput]) {
        defer { hubContext.backlog.subtract(outputs) }
        for output in outputs {
            switch output {
            case .revoked(let revocations): revoked(revocations)
            case .revocationsCurrent(let isCurrent): engine.identities.isRevocationCurrent = isCurrent
            case .topics(let topics): published(topics)
            case .degraded(let isDegraded): delivery.degraded(isDegraded)
            default: streams.received(output)
            }
        }
        measure(outputs)
    }

    /// Records the time from each event's commit until all events of the batch were handed on.
    private func measure(_ outputs: [FeedOutput]) {
        let now = Instant.read()
        for case .event(let event) in outputs where event.committedAt > 0 {
            metrics.deliveries.latency.record(now.duration(since: Instant(nanoseconds: event.committedAt)))
        }
    }

    func connection(_ id: SessionID) -> ClientConnection? { loop.connection(id) }

    // MARK: The engine

    /// Gives the engine an input about a connection, and performs the effects on the connection.
    func engage(_ connection: ClientConnection, _ input: (SessionEngine, inout SessionEngine.Effects) -> Void) {
        run({ input(engine, &$0) }, { (effect: consuming Effect) in perform(consume effect, for: connection) })
    }

    // Not inlined: most inputs want one message sent. Consuming: messages with a second reference cannot be framed in place.
    @inline(never)
    private func perform(_ effect: consuming Effect, for connection: ClientConnection) {
        switch consume effect {
        case .pong: if connection.isEstablished { connection.queue(settings.pongFrame) }
        case .send(let messages): if connection.isEstablished { connection.send(messages) }
        case .share(let messages):
            if connection.isEstablished { connection.queue(delivery.frames(messages.variants, for: connection)) }
        case .queue(let messages): if connection.isEstablished { connection.queue(messages.variants.plain) }
        case .verify(let token):
            webSockets.pause(connection)
            identities.verify(token, for: connection.sessionID)
        case .watchIdentity(let wait): identities.watch(connection, after: wait)
        case .tellBackoff:
            let backoff = BackoffRange(for: connection)
            if connection.isEstablished { connection.send(.backoff(minMs: backoff.minMs, maxMs: backoff.maxMs)) }
        case .close(let code): connection.close(code)
        case .act(let envelope, let user): act(envelope, as: user, for: connection.sessionID)
        case .join(let join):
            // The answer to who is back leaves with what the sign-in was answered.
            if join.isBack, !router.owns(join.name.stream) { loop.late.append(connection, of: loop) }
            router.ask(.join(join))
        case .forget(let name): router.ask(.forget(connection.sessionID, name))
        case .leave(let name): router.ask(.leave(name))
        case .users(let requests): router.ask(.users(requests))
        case .request(let request): ask(request)
        }
    }

    /// Has the action applied; `WebSockets.acted` gets the answer.
    private func act(_ envelope: ActionEnvelope, as user: String, for id: SessionID) {
        let mailbox = mailbox
        guard let store = hubContext.store else {
            return mailbox.post(.answer(id, .action(.withoutStore(envelope))))
        }
        store.submit(ActionRequest(user: user, envelope: envelope) { mailbox.post(.answer(id, .action($0))) })
    }

    /// A session of this loop enters an ordinary channel, leaves it, or sends an event to the others.
    private func ask(_ request: ChannelRequest) {
        switch request {
        case .relay:
            // Its sender waits for nothing, and could fill the mailboxes of slower loops.
            guard !isOverloaded(by: request.key.app) else { return metrics.engine.droppedClientEvent() }
        case .enter(let entry) where entry.isRepeated:
            // It was answered before, and may be repeated any number of times.
            guard !isOverloaded(by: request.key.app) else {
                guard let session = connection(entry.session)?.session else { return }
                return engine.ordinary.leftUnanswered(entry, session)
            }
        case .enter, .withdraw, .exit:
            break
        }
        router.ask(.channel(request))
    }

    /// Whether so much of the app is between loops that no more of it is taken.
    func isOverloaded(by app: Int) -> Bool {
        metrics.publishes.isFull(for: app, max: settings.limits.publishesUnderWayMax * router.loops)
    }

    /// Whether so much is between loops that a backend must wait until its event is with the subscribers.
    var isBusyPublishing: Bool { metrics.publishes.count > settings.limits.publishesUnderWayMax / 16 }

    // MARK: Connections

    /// Accepts the hub's connections on this loop.
    func listen(on socket: ListeningSocket, usesTLS: Bool) throws(ReactorError) {
        let acceptor = try Acceptor(socket, on: loop, admission: hubContext.admission, metrics: metrics) {
            [unowned self] descriptor, address, target, refusal, time in
            router.hand(.accepted(descriptor, address, refusal, usesTLS: usesTLS, beginsAt: time), to: target) {
                accepted(descriptor, address, refusal, usesTLS: usesTLS, beginsAt: time)
            }
        }
        intake.add(acceptor)
    }

    private func accepted(
        _ descriptor: Int32, _ address: PeerAddress, _ refusal: AdmissionControl.Refusal?, usesTLS: Bool,
        beginsAt: Instant
    ) {
        guard !isStopping else {
            Socket.close(descriptor)
            return hubContext.admission.left(address, loop: router.here, wasRefused: refusal != nil)
        }
        let connection = ClientConnection(descriptor, address, refusal, usesTLS: usesTLS, self)
        do throws(ReactorError) {
            let waits = beginsAt > loop.now
            try loop.add(connection, descriptor: descriptor, interest: waits ? [] : .readable)
            if waits { connection.conversation?.begins(at: beginsAt, connection) } else { connection.begin() }
            metrics.arrivals.accepted.add()
            metrics.connections.add(1)
            intake.came(connection.sessionID)
        } catch {
            // Out of epoll watches or memory: the connection closes with its last reference, here.
            hubContext.admission.left(address, loop: router.here, wasRefused: refusal != nil)
            if intake.isOpen { intake.rest() } else if !isStopping { router.ask(0) { $0.intake.rest() } }
        }
    }

    /// The peer of an open WebSocket has gone. Its turn to be closed will come.
    func departed(_ connection: ClientConnection) {
        hubContext.admission.departed(connection.address, loop: router.here, wasRefused: connection.wasRefused)
        turns.departed(connection.sessionID)
    }

    func left(_ connection: ClientConnection, hasDeparted: Bool) {
        identities.unwatch(connection)
        metrics.connections.add(-1)
        if hasDeparted {
            hubContext.admission.closedDeparted()
        } else {
            hubContext.admission.left(connection.address, loop: router.here, wasRefused: connection.wasRefused)
        }
        if isStopping, loop.sourceCount == 0 { loop.handle.stop() }
    }

    // MARK: Ending

    /// Closes all connections (`WebSockets.goAway`).
    ///
    /// The listening sockets close first: a client that comes back finds this hub's successor, or nobody. The accepting loop
    /// tells the others when it accepts no more: so in each mailbox every dealt connection comes before the shutdown.
    private func shutdown(hasSuccessor: Bool) {
        drainage.stops(hasSuccessor: hasSuccessor)
        // The loop ends with its last source.
        for source in [budget, due, trace] as [EventSource?] { if let source { loop.remove(source) } }
        if intake.isOpen {
            intake.close()
            router.handOthers(.shutdown(hasSuccessor: hasSuccessor))
        }
        loop.forEachConnection { $0.hubEnds() }
        users.endLink()
        if loop.sourceCount == 0 { loop.handle.stop() }
    }
}
