import Bytes
import Channels
import Clock
import Glibc
import HTTP
import Metrics
import Pusher
import Reactor
import WebSocket

/// One client's connection: joins a transport to a machine, first of HTTP, after an upgrade of WebSocket, and that to a session.
///
/// It carries out what its machine says, gives the engine what a client has to say, and queues what the engine has. Frames
/// that pile up in a tick leave together when it ends.
final class Connection: EventSource {
    private enum Talk {
        case none
        /// Before the upgrade.
        case http(HTTPConversation)
        /// After it.
        case webSocket(Session)
    }

    // What a delivery looks at comes first, and so lies side by side: its cost is mostly in the cache lines it touches. The
    // small ones between, or they leave gaps (see the tests).
    /// What messages to this peer are compressed with; nil where none are.
    var deflateWindow: DeflateWindow?
    /// Whether its session may be behind with a stream.
    var isPulled = false
    /// Bytes unsent, as the loop was told last (`Holdings`).
    var queuedHeld: UInt32 = 0
    var transport: Transport
    /// Nil before the upgrade.
    var webSocket: WebSocketMachine?
    /// Let in only to be told why not.
    private(set) var wasRefused: Bool
    /// The time of a look has come while a token was being verified: it follows the verification.
    var owesIdentityLook = false
    /// Bytes of what is not finished, as the loop was told last.
    var unfinishedHeld: UInt32 = 0
    // Unsafe, for it is read several times for each frame: a loop outlives its sources, which it holds, and nobody else
    // keeps a connection.
    unowned(unsafe) let owner: ClientLoop
    private var talk = Talk.none
    /// Whose connection it counts as: the peer's, or of a trusted peer the client's that it speaks for.
    private(set) var address: PeerAddress
    /// When the session's identity is looked at next; `never` where it has no end.
    private var identityLookAt = never

    static let never = Instant(nanoseconds: 0)

    init(
        _ descriptor: Int32, _ address: PeerAddress, _ refusal: ConnectionCensus.Refusal?, usesTLS: Bool,
        _ owner: ClientLoop
    ) {
        transport = Transport(descriptor, usesTLS: usesTLS)
        self.address = address
        wasRefused = refusal != nil
        self.owner = owner
        talk = .http(
            HTTPConversation(
                peer: address, refusal: refusal, limits: owner.settings.configuration.httpLimits,
                startedAt: owner.loop.now))
    }

    deinit {
        Socket.close(transport.descriptor)
    }

    var session: Session? {
        guard case .webSocket(let session) = talk else { return nil }
        return session
    }

    /// Nil after the upgrade.
    var conversation: HTTPConversation? {
        guard case .http(let conversation) = talk else { return nil }
        return conversation
    }

    /// The app that it is of, once that is known.
    var app: App? { session?.app ?? conversation?.upgrade?.app }

    /// When the session's identity is looked at next; nil where it has no end.
    var identityLook: Instant? {
        get { identityLookAt == Self.never ? nil : identityLookAt }
        set { identityLookAt = newValue ?? Self.never }
    }

    var sessionID: SessionID { SessionID(slot: slot, generation: generation) }

    /// A WebSocket that takes frames of ours.
    var isEstablished: Bool {
        switch webSocket?.state {
        case .open, .draining: true
        case .closing, .over, nil: false
        }
    }

    /// Whether nothing is read or sent any more: it is gone, or its turn to be closed comes.
    var hasEnded: Bool { transport.state == .shut }

    // MARK: Inputs

    override func ready(_ readiness: Readiness) {
        // What came before counts: this is told again when its turn has come.
        if readiness.contains(.hangup), webSocket?.awaitsTurn == true { return }
        // Its turn may have come after this was reported, so that nothing was asked about reading: there may be something.
        let isReadable = readiness.contains(.readable) || readiness.contains(.hangup) && interest.contains(.readable)
        // In the clear, what is read tells.
        if readiness.contains(.hangup), transport.tls != nil || !isReadable,
            Socket.takeError(transport.descriptor) == ETIMEDOUT
        {
            owner.metrics.reached(.unackedTimeout, address)
            return drop()
        }
        // A socket that takes nothing any more may hold what came before.
        if readiness.contains(.writable), !readiness.contains(.hangup) {
            flush()
            pullIfDrained()
            owner.holdings.queuedChanged(self)
        }
        if hasEnded { return }
        if isReadable {
            readable()
        } else if readiness.contains(.hangup) {
            owner.handshakes.failed(self, .closed)
            drop()
        }
    }

    override func tickEnded() {
        if hasEnded { return transport.forgetUnsent() }
        // First the socket gets what it takes: a burst in one tick says nothing about the reader.
        let outcome = transport.send(owner.buffers.gather)
        if outcome == .broken { return broken() }
        // Nearly always: a WebSocket that has nothing else to be looked after.
        if outcome == .drained, webSocket != nil, transport.state == .open, interest == .readable, queuedHeld == 0,
            transport.tls == nil, !isPulled
        {
            return
        }
        flushed(outcome)
        if !transport.output.isEmpty {
            leftUnsent()
        } else if queuedHeld > 0 || transport.hasUnsent {
            owner.holdings.queuedChanged(self)
        }
        if isPulled { pullIfDrained() }
    }

    /// The socket has not taken all.
    private func leftUnsent() {
        owner.metrics.queued.record(UInt64(transport.output.byteCount))
        // An answer to a request may be longer than that: no further one is made before it is sent (`HTTPMachine.reads`), and
        // who does not take it is found by what stays unacknowledged.
        if webSocket != nil, transport.state == .open, isOverfull(owner.settings.limits) { overfull() }
        owner.holdings.queuedChanged(self)
    }

    /// How long a judgement waits for others to be looked at.
    static let judgementPause = Duration.milliseconds(10)

    override func deadlineReached() {
        // The loop has stood still: what this one's peer has said in time may be unread.
        if owner.loop.hasUnseen {
            return owner.loop.setDeadline(self, owner.loop.now.advanced(by: Self.judgementPause))
        }
        switch transport.state {
        case .securing: owner.handshakes.failed(self, .timeout)
        case .open: if let conversation { conversation.deadlineReached(self) } else { checkLiveness() }
        case .finishing: if conversation?.awaitsReader(self) != true { drop() }
        case .shut: break
        }
    }

    /// The connection's turn has come again.
    func goOn() {
        if webSocket != nil { return turnCame() }
        if transport.state == .open { conversation?.turnCame(self) }
    }

    /// The hub ends.
    func hubEnds() {
        switch transport.state {
        case .securing: drop()
        case .open: if let conversation { conversation.hubEnds(self) } else { webSocketEnds() }
        case .finishing: owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        case .shut: break
        }
    }

    // MARK: Output

    /// Queues a frame, or bytes of a response; they leave at the end of the tick.
    func queue(_ frame: SharedBytes) {
        queue(frame, on: owner.loop)
    }

    /// Queues messages for this connection alone, compressed where that was agreed and they are worth it.
    func send(_ frames: SharedBytes) {
        guard let deflateWindow, let compression = owner.compression else { return queue(frames) }
        queue(compression.compressed(frames, deflateWindow))
    }

    /// Queues a frame that others get too, compressed where that was agreed.
    func share(_ frame: SharedFrame) {
        guard let variants = frame.variants else { return send(frame.bytes) }
        queue(owner.takers.variant(of: frame.bytes, variants, for: self))
    }

    /// The same as `queue`, for a caller who has the loop at hand: the way of an event to its many receivers.
    @inline(__always)
    func queue(_ frame: SharedBytes, on loop: EventLoop) {
        transport.queue(frame)
        loop.markDirty(self)
    }

    /// Whether so much is queued that its streams are better fed by pages.
    @inline(__always)
    func isCrowded(_ limits: GatewayLimits) -> Bool {
        transport.output.byteCount > limits.pullQueueBytesMax
            || transport.output.frameCount > limits.pullQueueFramesMax
    }

    /// Whether more is queued than may be, the socket perhaps not yet asked.
    @inline(__always)
    func isOverfull(_ limits: GatewayLimits) -> Bool {
        transport.output.byteCount > limits.sendQueueBytesMax
            || transport.output.frameCount > limits.sendQueueFramesMax
    }

    /// A burst in one tick says nothing about the reader: whether the queue is too long still when the socket has got
    /// what it takes.
    func isSlow(_ limits: GatewayLimits) -> Bool {
        flush()
        return isCrowded(limits)
    }

    /// Closes it, unless the socket takes enough of what is queued.
    func isTooSlow(_ limits: GatewayLimits) -> Bool {
        flush()
        guard !hasEnded else { return true }
        guard isOverfull(limits) else { return false }
        overfull()
        return true
    }

    private func overfull() {
        owner.metrics.overloaded(.sendQueue, address)
        slow()
    }

    /// A session that is behind gets its next page when little is left of what was queued.
    private func pullIfDrained() {
        guard isPulled, let session, session.isBehind else {
            isPulled = false
            return
        }
        guard isEstablished else { return }
        let limits = owner.settings.limits
        let output = (bytes: transport.output.byteCount, frames: transport.output.frameCount)
        guard output.bytes <= limits.pullQueueBytesMax / 4, output.frames <= limits.pullQueueFramesMax / 4 else {
            return
        }
        let now = owner.loop.now
        owner.engage(self) { $0.drained(session, now: now, &$1) }
    }

    private func flush() {
        if hasEnded { return transport.forgetUnsent() }
        flushed(transport.send(owner.buffers.gather))
    }

    /// The socket has got what it takes.
    private func flushed(_ outcome: WriteQueue.Outcome) {
        switch outcome {
        case .drained:
            if transport.state == .finishing { return finished() }
        case .blocked: break
        case .broken: return webSocket?.awaitsTurn == true ? broken() : depart()
        }
        conversation?.sent(self)
        updateInterest()
    }

    func updateInterest() {
        let isRead =
            switch transport.state {
            case .securing: true
            // Of a peer that says no more, the end of its stream would be told over and over.
            case .finishing: !transport.hasUnsent
            case .open: webSocket?.reads ?? conversation?.reads(self) ?? true
            case .shut: false
            }
        var interest: Readiness = isRead ? .readable : []
        if transport.hasUnsent { interest.insert(.writable) }
        if interest != self.interest { owner.loop.setInterest(self, interest) }
    }

    // MARK: Sessions

    /// A trusted peer has said whose connection it is: counts as that client's from here on, unless a bound is against it.
    ///
    /// - Parameter begins: whether the client begins a connection with this.
    func moved(to client: PeerAddress, begins: Bool) -> ConnectionCensus.Move {
        guard begins || client.network != address.network else { return .taken }
        let move = owner.hubContext.census.moved(from: address, to: client, at: owner.loop.now, begins: begins)
        switch move {
        case .taken: address = client
        case .refused(let refusal):
            address = client
            wasRefused = true
            owner.metrics.refused(refusal, address)
        case .ended(let refusal): owner.metrics.refused(refusal, client)
        }
        return move
    }

    /// It is a WebSocket from here on; without a session where a responder has the engine's place, or it is closed at once.
    ///
    /// - Parameter early: what has come behind the request.
    func upgraded(_ session: Session? = nil, _ early: [UInt8] = []) {
        talk = session.map(Talk.webSocket) ?? .none
        let now = owner.loop.now
        webSocket = WebSocketMachine(at: now, early: early)
        owner.metrics.webSockets.add(1)
        if deflateWindow != nil { owner.metrics.compression.connections.add(1) }
        owner.loop.setDeadline(self, now.advanced(byNanoseconds: owner.settings.webSockets.activity))
    }

    /// - Parameter mayReturn: whether the client may be back in a moment; else it has said that it leaves.
    func leaveChannels(mayReturn: Bool = true) {
        guard let session else { return }
        talk = .none
        if !hasEnded { session.app.counts.connections.leave() }
        owner.engage(self) { $0.closed(session, mayReturn: mayReturn, &$1) }
    }

    // MARK: Ending

    /// The client does not read what it is sent. It will be told, if it ever reads, that it may come back later.
    func slow() {
        transport.dropUnsent()
        guard isEstablished else { return drop() }
        close(.overCapacity)
        flush()
    }

    /// The user's access has ended. What is unsent stays so: it is health data. What TLS has sealed cannot be taken back.
    func cutOff(_ code: ErrorCode) {
        transport.dropUnsent()
        close(code)
    }

    /// Ends after what is queued has been sent.
    func finish() {
        guard !hasEnded else { return }
        leaveChannels()
        endWebSocket()
        transport.finish()
        conversation?.endsHere()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        owner.loop.markDirty(self)
    }

    /// All is sent.
    private func finished() {
        transport.endStream()
        if owner.isStopping { return drop() }
        if conversation != nil { talk = .none }
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        owner.loop.setInterest(self, .readable)
    }

    /// The peer has said that it sends no more, and what it said before has been looked at.
    func farewell() {
        // Whose answer is on its way gets it, and whose requests wait for their turn gets all of theirs.
        if let conversation, conversation.isWaited { return }
        if webSocket?.awaitsTurn == true || awaitsToken { return }
        tickEnded()
        if hasEnded { return }
        if transport.hasUnsent { finish() } else { depart() }
    }

    /// Ends with what the socket takes at once. A proxy hears why, where silence would be a fault of the hub's to it, and it
    /// might send nobody here for a while.
    func endNow() {
        flush()
        drop()
    }

    /// Ends now.
    func drop() {
        guard isAdded else { return }
        let hasDeparted = hasEnded
        owner.handshakes.left(self)
        leaveChannels()
        endWebSocket()
        conversation?.endsHere()
        owner.holdings.left(self)
        owner.loop.remove(self)
        owner.left(self, hasDeparted: hasDeparted)
        transport.shut()
    }

    /// The peer has gone. What costs most then, that a session leaves its channels, has its turn later.
    func depart() {
        guard isOpen, let session else { return drop() }
        endWebSocket()
        transport.shut()
        owner.holdings.left(self)
        owner.loop.unwatch(self)
        session.app.counts.connections.leave()
        owner.departed(self)
    }
}
