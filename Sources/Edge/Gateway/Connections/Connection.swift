import Bytes
import Channels
import Clock
import Glibc
import HTTP
import Metrics
import Pusher
import Reactor
import WebSocket

/// One client's connection: a socket joined to a session. First HTTP, then, after an upgrade, WebSocket.
///
/// It reads into its loop's buffer and owns memory only while it holds an unfinished request or an unsent tail. Frames
/// that pile up in a tick leave together when it ends.
///
/// Valid transitions of `Phase`: `securing` → `http`; `http` ⇄ `awaitingAnswer`; `http`, `awaitingAnswer` → `open` ⇄ `awaitingToken`;
/// `open`, `awaitingToken` → `draining`, `closing`; `draining` → `closing`; `open` → `departed`; any → `finishing`, `gone`, but
/// `departed` → `gone` alone.
final class Connection: EventSource {
    enum Phase {
        /// A connection of a listener with TLS whose handshake is not complete, or has not begun.
        case securing
        /// Reads requests.
        case http
        /// A request is being answered, or a token of an upgrade verified. Reads nothing: order is kept by waiting.
        case awaitingAnswer
        /// A WebSocket in use.
        case open
        /// A WebSocket whose token is being verified. Reads nothing, so nothing overtakes the identity.
        case awaitingToken
        /// A WebSocket of a hub that ends: answers to actions under way are still sent. Reads nothing.
        case draining
        /// Our close frame is sent; the peer's is awaited, all else ignored.
        case closing
        /// Sends what is queued, then ends.
        case finishing
        /// A WebSocket whose peer has gone: nothing is read or sent any more, and its turn to be closed comes.
        case departed
        case gone
    }

    private enum Talk {
        case none
        /// Before the upgrade.
        case http(HTTPConversation)
        /// After it.
        case webSocket(Session)
    }

    // What a delivery looks at comes first, and so lies side by side: its cost is mostly in the cache lines it touches. The
    // small ones together, or they leave gaps (see the tests).
    var phase = Phase.http
    /// Whether its session may be behind with a stream.
    var isPulled = false
    /// What messages to this peer are compressed with; nil where none are.
    var deflateWindow: DeflateWindow?
    var awaitsPong = false
    /// Let in only to be told why not.
    private(set) var wasRefused: Bool
    /// A WebSocket whose end has still to be counted.
    private var isCounted = false
    /// The time of a look has come while a token was being verified: it follows the verification.
    var owesIdentityLook = false
    /// Whether it waits for its turn with what it has sent.
    var turn = Turn.none
    let descriptor: Int32
    /// Bytes of `output`, as the loop was told last.
    var queuedHeld: UInt32 = 0
    /// Bytes of messages that are not finished, as the loop was told last.
    var unfinishedHeld: UInt32 = 0
    /// Nil where the connection is in the clear, and until its client's first bytes are looked at.
    var tls: TLSSession?
    // Unsafe, for it is read several times for each frame: a loop outlives its sources, which it holds, and nobody else
    // keeps a connection.
    unowned(unsafe) let owner: ClientLoop
    private(set) var output = WriteQueue()
    var messageAllowance = SmallAllowance()
    var controlAllowance = SmallAllowance()
    private var talk = Talk.none
    var lastInbound: Instant
    /// Whose connection it counts as: the peer's, or of a trusted peer the client's that it speaks for.
    private(set) var address: PeerAddress
    /// Nil for most.
    var unfinished: UnfinishedInput?
    /// When the session's identity is looked at next; `never` where it has no end.
    private var identityLookAt = never

    static let never = Instant(nanoseconds: 0)

    init(
        _ descriptor: Int32, _ address: PeerAddress, _ refusal: ConnectionCensus.Refusal?, usesTLS: Bool,
        _ owner: ClientLoop
    ) {
        self.descriptor = descriptor
        self.address = address
        wasRefused = refusal != nil
        self.owner = owner
        lastInbound = owner.loop.now
        talk = .http(
            HTTPConversation(
                peer: address, refusal: refusal, limits: owner.settings.configuration.httpLimits,
                startedAt: owner.loop.now))
        super.init()
        if usesTLS { phase = .securing }
    }

    deinit {
        Socket.close(descriptor)
    }

    var session: Session? {
        get {
            guard case .webSocket(let session) = talk else { return nil }
            return session
        }
        set {
            if let newValue {
                talk = .webSocket(newValue)
            } else if case .webSocket = talk {
                talk = .none
            }
        }
    }

    /// Nil after the upgrade.
    var conversation: HTTPConversation? {
        guard case .http(let conversation) = talk else { return nil }
        return conversation
    }

    /// Lets go of what was for HTTP alone.
    func endConversation() {
        if case .http = talk { talk = .none }
    }

    /// When the session's identity is looked at next; nil where it has no end.
    var identityLook: Instant? {
        get { identityLookAt == Self.never ? nil : identityLookAt }
        set { identityLookAt = newValue ?? Self.never }
    }

    var sessionID: SessionID { SessionID(slot: slot, generation: generation) }

    /// A WebSocket that takes frames of ours.
    var isEstablished: Bool { phase == .open || phase == .awaitingToken || phase == .draining }

    // MARK: Inputs

    override func ready(_ readiness: Readiness) {
        // What came before counts: this is told again when its turn has come.
        if readiness.contains(.hangup), turn != .none { return }
        // Its turn may have come after this was reported, so that nothing was asked about reading: there may be something.
        let isReadable = readiness.contains(.readable) || readiness.contains(.hangup) && interest.contains(.readable)
        // In the clear, what is read tells.
        if readiness.contains(.hangup), tls != nil || !isReadable,
            Socket.takeError(descriptor) == ETIMEDOUT
        {
            owner.metrics.reached(.unackedTimeout, address)
            return drop()
        }
        // A socket that takes nothing any more may hold what came before.
        if readiness.contains(.writable), !readiness.contains(.hangup) {
            flush()
            pullIfDrained()
            accountQueued()
        }
        if hasEnded { return }
        if isReadable {
            readable()
        } else if readiness.contains(.hangup) {
            handshakeFailed(.closed)
            drop()
        }
    }

    override func tickEnded() {
        if phase == .departed { return forgetUnsent() }
        // First the socket gets what it takes: a burst in one tick says nothing about the reader.
        let outcome = sendQueued()
        if outcome == .broken { return broken() }
        // Nearly always: a WebSocket that has nothing else to be looked after.
        if outcome == .drained, phase == .open, interest == .readable, queuedHeld == 0, tls == nil, !isPulled { return }
        flushed(outcome)
        if !output.isEmpty { leftUnsent() } else if queuedHeld > 0 || tls?.hasUnsent == true { accountQueued() }
        if isPulled { pullIfDrained() }
    }

    /// Nobody is there to whom it could be sent.
    func forgetUnsent() {
        output = WriteQueue()
    }

    /// The socket has not taken all.
    private func leftUnsent() {
        owner.metrics.queued.record(UInt64(output.byteCount))
        // An answer to a request may be longer than that: no further one is made before it is sent (`hasAnswersToSend`), and
        // who does not take it is found by what stays unacknowledged.
        if isEstablished || phase == .closing, isOverfull(owner.settings.limits) { overfull() }
        accountQueued()
    }

    /// Whether more is queued than may be, the socket perhaps not yet asked.
    @inline(__always)
    func isOverfull(_ limits: GatewayLimits) -> Bool {
        output.byteCount > limits.sendQueueBytesMax || output.frameCount > limits.sendQueueFramesMax
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

    /// How long a judgement waits for others to be looked at.
    static let judgementPause = Duration.milliseconds(10)

    override func deadlineReached() {
        // The loop has stood still: what this one's peer has said in time may be unread.
        if owner.loop.hasUnseen {
            return owner.loop.setDeadline(self, owner.loop.now.advanced(by: Self.judgementPause))
        }
        switch phase {
        case .securing: handshakeFailed(.timeout)
        case .http: requestOverdue()
        case .open, .awaitingToken: checkLiveness()
        case .awaitingAnswer: answerOverdue()
        case .draining: goAway()
        case .finishing: if !awaitsReader() { drop() }
        case .closing: drop()
        case .departed, .gone: break
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
        output.append(frame)
        loop.markDirty(self)
    }

    /// Whether so much is queued that its streams are better fed by pages.
    @inline(__always)
    func isCrowded(_ limits: GatewayLimits) -> Bool {
        output.byteCount > limits.pullQueueBytesMax || output.frameCount > limits.pullQueueFramesMax
    }

    /// A burst in one tick says nothing about the reader: whether the queue is too long still when the socket has got
    /// what it takes.
    func isSlow(_ limits: GatewayLimits) -> Bool {
        flush()
        return isCrowded(limits)
    }

    /// A session that is behind gets its next page when little is left of what was queued.
    private func pullIfDrained() {
        guard isPulled, let session, session.isBehind else {
            isPulled = false
            return
        }
        guard isEstablished else { return }
        let limits = owner.settings.limits
        guard output.byteCount <= limits.pullQueueBytesMax / 4, output.frameCount <= limits.pullQueueFramesMax / 4
        else {
            return
        }
        let now = owner.loop.now
        owner.engage(self) { $0.drained(session, now: now, &$1) }
    }

    private func flush() {
        if phase == .departed { return forgetUnsent() }
        flushed(sendQueued())
    }

    @inline(__always)
    private func sendQueued() -> WriteQueue.Outcome {
        guard let tls else { return output.flush(to: descriptor, gather: owner.buffers.gather) }
        return output.flush(through: tls, to: descriptor)
    }

    /// The socket has got what it takes.
    private func flushed(_ outcome: WriteQueue.Outcome) {
        switch outcome {
        case .drained:
            if phase == .finishing { return finished() }
        case .blocked: break
        case .broken: return turn == .none ? depart() : broken()
        }
        if let conversation, conversation.rest == .answersUnsent { restMayEnd(conversation) }
        updateInterest()
    }

    /// The client does not read what it is sent. It will be told, if it ever reads, that it may come back later.
    func slow() {
        output.dropUnsent()
        guard isEstablished else { return drop() }
        close(.overCapacity)
        flush()
    }

    /// The user's access has ended. What is unsent stays so: it is health data. What TLS has sealed cannot be taken back.
    func cutOff(_ code: ErrorCode) {
        output.dropUnsent()
        close(code)
    }

    /// The app that it is of, once that is known.
    var app: App? { session?.app ?? conversation?.upgrade?.app }

    /// All is sent. The peer reads to the end of the stream and closes; a plain close here could reset the connection
    /// and take the last bytes with it, if something of the peer's is still unread.
    private func finished() {
        if let tls { tls.finishSending(descriptor) } else { Socket.finishSending(descriptor) }
        if owner.isStopping { return drop() }
        endConversation()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        owner.loop.setInterest(self, .readable)
    }

    /// Whether something waits for the socket to take it, what TLS has sealed included.
    var hasUnsent: Bool { !output.isEmpty || tls?.hasUnsent == true }

    func updateInterest() {
        var interest: Readiness
        switch phase {
        case .awaitingAnswer, .awaitingToken, .draining, .departed: interest = []
        case .open where turn != .none, .closing where turn != .none: interest = []
        case .http where conversation.map { $0.rest != .none || hasAnswersToSend($0) } ?? false: interest = []
        // Of a peer that says no more, the end of its stream would be told over and over.
        case .finishing where hasUnsent: interest = []
        case .securing, .http, .open, .closing, .finishing, .gone: interest = .readable
        }
        if hasUnsent { interest.insert(.writable) }
        if interest != self.interest { owner.loop.setInterest(self, interest) }
    }

    // MARK: Ending

    /// Ends after what is queued has been sent.
    func finish() {
        guard !hasEnded else { return }
        leaveChannels()
        phase = .finishing
        conversation?.endsHere()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        owner.loop.markDirty(self)
    }

    /// Ends with what the socket takes at once. A proxy hears why, where silence would be a fault of the hub's to it, and it
    /// might send nobody here for a while.
    func endNow() {
        flush()
        drop()
    }

    /// Ends now.
    func drop() {
        guard phase != .gone else { return }
        leaveHandshake()
        leaveChannels()
        disconnected(1006)
        accountNothing()
        owner.loop.remove(self)
        owner.left(self)
        phase = .gone
    }

    /// The peer has gone. What costs most then, that a session leaves its channels, has its turn later.
    func depart() {
        guard phase == .open, let session else { return drop() }
        phase = .departed
        output = WriteQueue()
        unfinished = nil
        accountNothing()
        owner.loop.unwatch(self)
        session.app.counts.connections.leave()
        owner.departed(self)
    }

    /// Whether nothing is read or sent any more.
    var hasEnded: Bool { phase == .departed || phase == .gone }

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

    /// It is a WebSocket from here on.
    func countIn() {
        isCounted = true
        owner.metrics.webSockets.add(1)
        if deflateWindow != nil { owner.metrics.compression.connections.add(1) }
    }

    /// The WebSocket ends, if it is one that has not ended before, with that close code.
    func disconnected(_ code: UInt16) {
        guard isCounted else { return }
        isCounted = false
        owner.metrics.webSockets.add(-1)
        if deflateWindow != nil { owner.metrics.compression.connections.add(-1) }
        owner.metrics.disconnected(code)
    }

    /// - Parameter mayReturn: whether the client may be back in a moment; else it has said that it leaves.
    func leaveChannels(mayReturn: Bool = true) {
        guard let session else { return }
        self.session = nil
        if phase != .departed { session.app.counts.connections.leave() }
        owner.engage(self) { $0.closed(session, mayReturn: mayReturn, &$1) }
    }
}
