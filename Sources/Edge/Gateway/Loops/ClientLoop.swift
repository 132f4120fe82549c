import Bytes
import Channels
import Feed
import Glibc
import HTTP
import Identity
import Metrics
import Pusher
import Reactor
import Store
import Sync
import WebSocket

/// One loop of the gateway: its connections, its engine, and the streams whose home it is. Built and used on its thread.
///
/// The way of an event: `feed` (from the feed, to the stream's home) → `StreamHome` → `broadcast` (to each loop that has
/// takers) → the write queue of every subscriber → the end of the tick.
final class ClientLoop {
    let number: Int
    let loop: EventLoop
    let hubContext: HubContext
    let hub: Hub
    let metrics: GatewayMetrics
    let readBuffer: UnsafeMutableRawBufferPointer
    /// Scratch for gathered writes.
    let gather: UnsafeMutableBufferPointer<iovec>
    let messageLimits: MessageLimits
    /// As configured, but for where streams begin to be fed by pages, which `Holdings` moves.
    var limits: GatewayLimits
    /// What the connections hold together.
    let holdings: Holdings
    let timeouts: GatewayTimeouts
    let trustedPeers: TrustedPeers
    let hasTrustedPeers: Bool
    let messageRate: Rate
    let controlRate: Rate
    // For each connection that opens: a `Duration` costs hundreds of instructions to be taken apart.
    let activityNanoseconds: UInt64
    let activitySeconds: Int
    private let handshakeNanoseconds: UInt64
    let pingFrame: SharedBytes
    /// Nil where messages are never compressed.
    let compression: LoopCompression?
    private(set) var isStopping = false
    /// Connections whose peers have gone, in that order: closed in turns.
    var departures = Fifo<SessionID>()
    /// Whether the next turn has been posted.
    var awaitsDepartureTurn = false
    /// Connections that wait for their turn, and whether that of the first ones is posted.
    var turns = Fifo<SessionID>()
    var awaitsTurns = false
    /// Connections taken in since more was ready than one turn takes, the oldest first; at most `overtakersMax`.
    var newcomers: ContiguousArray<SessionID> = []
    var home: StreamHome
    /// Room for what `home` wants done, and what the engine wants done, kept from one input to the next.
    var homeEffects: ContiguousArray<StreamHome.Effect> = []
    private var hubEffects = Hub.Effects()
    /// The users whose home this loop is, and what rings when one may be offline.
    var userHome: UserHome
    private(set) var userAlarm: Alarm?
    /// Whether a turn of what is due has been posted.
    var awaitsUserTurn = false
    var apps: AppTable
    /// The slot of the next connection that has still to learn of new apps; nil where all have.
    var nextReplaced: Int?
    var verifications = Verifications()
    /// The ordinary channels whose home this loop is, what rings when something of them is due, and what is still to be
    /// done of what they decided.
    var channelHome: ChannelHome
    private(set) var channelAlarm: Alarm?
    var channelEffects = ChannelHome.Effects()
    var isPerformingChannelEffects = false
    /// When `channelAlarm` is set to ring; nil where it is not.
    var channelsDueAt: UInt64?
    /// Whether a turn of what is due has been posted.
    var awaitsChannelTurn = false
    /// Of the loop that takes in all connections.
    private(set) var acceptors: [Acceptor] = []
    /// When whose identity is to be looked at, and what rings then.
    var identityQueue = IdentityQueue()
    private(set) var identityAlarm: Alarm?
    /// Whether `identitiesDue` is under way to this loop.
    var awaitsIdentityTurn = false
    /// Ciphertext of the connection that is read or written; made for the first one with TLS.
    var wire: TLSWire?
    /// TLS handshakes under way, and those that wait.
    var handshakes: HandshakeLine
    private(set) var handshakeAlarm: Alarm?
    /// Whether `handshakeAlarm` is set to ring.
    var awaitsHandshakeTick = false
    /// Counters of deliveries, each with a stream of its topic: found without a lock.
    var topicCounters: [(stream: StreamID, counter: Counter)] = []
    /// Whether the database is out of reach, and connections were told so.
    var isDegraded = false
    /// Connections that are fed by pages, and what was last seen of them.
    var pulling: [SessionID: PullProgress] = [:]
    private(set) var sweep: Alarm?
    /// Whether `sweep` is set to ring.
    var isSweepSet = false
    /// Rings when a pause of those who wait for pages is over.
    private(set) var pauseAlarm: Alarm?
    /// When it is set to ring; nil where it is not.
    var pauseAlarmAt: UInt64?

    static let continueResponse = SharedBytes.copy("HTTP/1.1 100 Continue\r\n\r\n")
    /// The most effects whose room is kept.
    static let effectsKept = 64
    /// What part of `pullQueueBytesMax` streams wait for while much is queued to all.
    private static let pressedPart = 16
    /// Bytes read at a time, beside what a connection holds of an unfinished request.
    static let readRoom = 65_536

    /// How long a peer has to answer a close frame, or to read what is left for it.
    var closeTime: Duration { isStopping ? timeouts.farewell : timeouts.close }
    var configuration: GatewayConfiguration { hubContext.configuration }
    var mailbox: Mailbox<LoopMessage> { hubContext.mailboxes[number] }

    init(_ number: Int, on loop: EventLoop, _ context: HubContext) {
        self.number = number
        self.loop = loop
        hubContext = context
        metrics = context.metrics
        let configuration = context.configuration
        limits = configuration.limits
        holdings = Holdings(on: loop, configuration, context.metrics)
        timeouts = configuration.timeouts
        trustedPeers = configuration.trustedPeers
        hasTrustedPeers = trustedPeers != TrustedPeers()
        messageRate = Rate(perSecond: limits.messagesPerSecond, burst: limits.messagesBurst)
        controlRate = Rate(perSecond: limits.controlFramesPerSecond, burst: limits.controlFramesBurst)
        activityNanoseconds = timeouts.activity.wholeNanoseconds
        activitySeconds = Int(timeouts.activity.components.seconds)
        handshakeNanoseconds = timeouts.handshake.wholeNanoseconds
        apps = context.firstApps
        var homeLimits = configuration.channelLimits.homes.share(of: configuration.loops)
        // Or who comes would be closed for not reading a list that no queue can hold.
        homeLimits.membersBytesMax = min(homeLimits.membersBytesMax, limits.sendQueueBytesMax / 4)
        userHome = UserHome(limits: homeLimits)
        hub = Hub(
            limits: configuration.channelLimits, identityTimes: configuration.timeouts.identity,
            metrics: context.metrics.engine, now: UnixTime.read)
        hub.isRevocationCurrent = !context.hasFeed
        home = StreamHome(limits: configuration.channelLimits.streams.share(of: configuration.loops))
        channelHome = ChannelHome(
            loops: configuration.loops, limits: homeLimits, metrics: context.metrics.engine)
        handshakes = HandshakeLine(
            underWayMax: max(1, limits.tlsHandshakesMax / configuration.loops),
            waitingMax: max(1, limits.tlsHandshakesWaitingMax / configuration.loops))
        readBuffer = .allocate(byteCount: configuration.httpLimits.messageBytes + Self.readRoom, alignment: 64)
        gather = .allocate(capacity: Socket.gatheredBuffersMax)
        compression = configuration.compression.map { LoopCompression($0, context.metrics.compression) }
        var messageLimits = MessageLimits()
        messageLimits.messageBytes = configuration.limits.messageBytesMax
        messageLimits.fragments = configuration.limits.messageFragmentsMax
        self.messageLimits = messageLimits
        var writer = ByteWriter(capacity: 16)
        FrameWriter.append(control: Opcode.ping, UnsafeRawBufferPointer(start: nil, count: 0), to: &writer)
        pingFrame = writer.finish()
        loop.attach(mailbox) { [unowned self] in received($0) }
        loop.overtake = { [unowned self] in overtake() }
        holdings.pressureChanged = { [unowned self] isPressed in
            limits.pullQueueBytesMax = configuration.limits.pullQueueBytesMax / (isPressed ? Self.pressedPart : 1)
        }
        do throws(ReactorError) {
            try loop.add(holdings)
            sweep = try Alarm(loop) { [unowned self] in swept() }
            pauseAlarm = try Alarm(loop) { [unowned self] in pausesDue() }
            identityAlarm = try Alarm(loop) { [unowned self] in identitiesDue() }
            userAlarm = try Alarm(loop) { [unowned self] in usersDue() }
            channelAlarm = try Alarm(loop) { [unowned self] in
                channelsDueAt = nil
                channelsDue()
            }
            handshakeAlarm = try Alarm(loop) { [unowned self] in handshakesDue() }
        } catch {
            preconditionFailure("a source without a descriptor asks the kernel for nothing: \(error)")
        }
    }

    deinit {
        readBuffer.deallocate()
        gather.deallocate()
    }

    /// Takes in the hub's connections, on this loop.
    func listen(on socket: ListeningSocket, usesTLS: Bool) throws(ReactorError) {
        let acceptor = try Acceptor(socket, on: loop, census: hubContext.census, metrics: metrics) {
            [unowned self] descriptor, address, target, refusal in
            if target == number {
                accepted(descriptor, address, refusal, usesTLS: usesTLS)
            } else {
                hubContext.mailboxes[target].post(.accepted(descriptor, address, refusal, usesTLS: usesTLS))
            }
        }
        acceptors.append(acceptor)
    }

    // MARK: Messages

    private func received(_ message: LoopMessage) {
        switch message {
        case .broadcast(let name, let offset, let frame, let variants):
            deliver(frame, variants, at: offset, to: name)
            hubContext.backlog.subtractBroadcast()
        case .reset(let name, let position, let loss): reset(name, to: position, loss)
        case .joined(let joined): self.joined(joined)
        case .joinRefused(let session, let serial, let refusal): joinRefused(session, serial, refusal)
        case .feed(let outputs): received(outputs)
        case .join(let join, let from): atHome { $0.join(join, from: from, &$1) }
        case .forget(let session, let name, let from): atHome { home, _ in home.forget(session, name, from: from) }
        case .leave(let name, let from): left(name, from: from)
        case .accepted(let descriptor, let address, let refusal, let usesTLS):
            accepted(descriptor, address, refusal, usesTLS: usesTLS)
        case .users(let requests, let from): atUserHome(requests, from: from)
        case .told(let news): told(news)
        case .usersDue:
            awaitsUserTurn = false
            usersDue()
        case .identitiesDue:
            awaitsIdentityTurn = false
            identitiesDue()
        case .serve(let apps): serve(apps)
        case .replaceApps: replaceApps()
        case .verified(let id, let result): verified(id, result)
        case .acted(let id, let answer): connection(id)?.acted(answer)
        case .answered(let id, let response): connection(id)?.answered(response)
        case .request(let request, let from):
            if request.isInBacklog { metrics.publishes.subtract(of: request.key.app) }
            received(request, from: from)
        case .roomMade(let request, let from): atHome(request, from: from)
        case .answer(let answer):
            if let app = answer.appInBacklog { metrics.publishes.subtract(of: app) }
            received(answer)
        case .publish(let key, let frame, let except, let variants, let isEvent):
            deliver(frame, variants, to: key, except: except)
            if isEvent { metrics.publishes.subtract(of: key.app) }
        case .ask(let question): question(self)
        case .channelsDue:
            awaitsChannelTurn = false
            channelsDue()
        case .departuresDue: closeDeparted()
        case .turnsDue: takeTurns()
        case .shutdown: shutdown()
        }
    }

    func connection(_ id: SessionID) -> Connection? {
        loop.source(slot: id.slot, generation: id.generation) as? Connection
    }

    private func accepted(
        _ descriptor: Int32, _ address: PeerAddress, _ refusal: ConnectionCensus.Refusal?, usesTLS: Bool
    ) {
        guard !isStopping else {
            Socket.close(descriptor)
            return hubContext.census.left(address, loop: number, wasRefused: refusal != nil)
        }
        let connection = Connection(descriptor, address, refusal, usesTLS: usesTLS, self)
        do throws(ReactorError) {
            try loop.add(connection, descriptor: descriptor, interest: .readable)
            let time = usesTLS ? timeouts.tlsHandshake.wholeNanoseconds : handshakeNanoseconds
            loop.setDeadline(connection, loop.now.advanced(byNanoseconds: time))
            metrics.accepted.add()
            metrics.connections.add(1)
            came(connection)
        } catch {
            // Out of watches or memory: the connection closes with its last reference, here.
            hubContext.census.left(address, loop: number, wasRefused: refusal != nil)
            restAccepting()
        }
    }

    /// Has no more taken in for a while, by the loop that does so.
    private func restAccepting() {
        if !acceptors.isEmpty {
            for acceptor in acceptors { acceptor.exhausted() }
        } else if number != 0 {
            hubContext.mailboxes[0].post(.ask { for acceptor in $0.acceptors { acceptor.exhausted() } })
        }
    }

    /// A connection is gone.
    func left(_ connection: Connection) {
        unwatchIdentity(of: connection)
        metrics.connections.add(-1)
        if connection.phase == .departed {
            hubContext.census.closedDeparted()
        } else {
            hubContext.census.left(connection.address, loop: number, wasRefused: connection.wasRefused)
        }
        if isStopping, loop.sourceCount == 0 { loop.handle.stop() }
    }

    /// Gives the engine an input about a connection, and does for the connection what the engine decides.
    func engage(_ connection: Connection, _ input: (Hub, inout Hub.Effects) -> Void) {
        var effects = exchange(&hubEffects, with: [])
        input(hub, &effects)
        effects.reverse()
        while let effect = effects.popLast() { connection.perform(effect) }
        if effects.capacity <= Self.effectsKept { hubEffects = effects }
    }

    // MARK: Actions

    /// Has the action applied; `Connection.acted` gets the answer.
    func act(_ envelope: ActionEnvelope, as user: String, for id: SessionID) {
        let mailbox = mailbox
        guard let store = hubContext.store else { return mailbox.post(.acted(id, .withoutStore(envelope))) }
        store.submit(ActionRequest(user: user, envelope: envelope) { mailbox.post(.acted(id, $0)) })
    }

    // MARK: Tokens

    /// Has the token verified off the loop; `Connection.verified` gets the result.
    func verify(_ token: String, for id: SessionID) {
        let mailbox = mailbox
        let verifier = hubContext.verifier
        verifications.begin(id)
        // Before anything else that the pool has to do: a client waits, with a deadline.
        Task(priority: .high) { mailbox.post(.verified(id, await verifier.verify(token))) }
    }

    // MARK: Ending

    /// Closes all connections (`Connection.goAway`).
    ///
    /// First of all the sockets close that it listens on: whoever comes back finds this hub's successor, or nobody. The
    /// accepting loop passes the word on when it accepts no more: in each mailbox, every connection dealt stands
    /// before the shutdown, and none comes after it to keep its loop alive.
    private func shutdown() {
        isStopping = true
        // The loop ends with its last source.
        loop.remove(holdings)
        if let sweep { loop.remove(sweep) }
        if let pauseAlarm {
            loop.remove(pauseAlarm)
            self.pauseAlarm = nil
        }
        if let handshakeAlarm {
            loop.remove(handshakeAlarm)
            self.handshakeAlarm = nil
        }
        if !acceptors.isEmpty {
            for acceptor in acceptors { acceptor.end() }
            acceptors = []
            for other in hubContext.mailboxes.indices where other != number {
                hubContext.mailboxes[other].post(.shutdown)
            }
        }
        if let channelAlarm {
            loop.remove(channelAlarm)
            self.channelAlarm = nil
        }
        if let identityAlarm {
            loop.remove(identityAlarm)
            self.identityAlarm = nil
        }
        if let userAlarm {
            loop.remove(userAlarm)
            self.userAlarm = nil
        }
        loop.forEachSource { source in
            (source as? Connection)?.hubEnds()
        }
        if loop.sourceCount == 0 { loop.handle.stop() }
    }
}
