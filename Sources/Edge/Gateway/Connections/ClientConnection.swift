import Bytes
import Clock
import Glibc
import HTTP
import HubEngine
import Metrics
import Pusher
import Reactor
import WebSocket

/// One client's connection. Joins a transport to a machine, for HTTP (`HTTPConversation`) and after an upgrade for WebSocket
/// (`WebSockets`), and that to a session. Received bytes go to the machine; queued bytes leave when the tick ends.
final class ClientConnection: EventSource {
    private enum Talk {
        case none
        case http(HTTPConversation)
        case webSocket(Session)
        case eventStream(EventStream)
    }

    // Fields that a delivery touches come first, side by side: its cost is mostly cache lines. Small ones fill gaps.
    /// The window for compressing messages to this peer; nil for no compression.
    var deflateWindow: DeflateWindow?
    // There is room for one byte.
    var flags = ConnectionFlags()
    /// Bytes unsent, as last reported to `MemoryBudget`.
    var queuedHeld: UInt32 = 0
    var transport: Transport
    /// Nil before the upgrade.
    var webSocket: WebSocketMachine?
    /// Let in only to be told why not.
    private(set) var wasRefused: Bool
    /// A look at the identity came due while a token was being verified: it follows the verification.
    var owesIdentityLook = false
    /// Bytes of unfinished input, as last reported to `MemoryBudget`.
    var unfinishedHeld: UInt32 = 0
    // Unsafe, because it is read several times for each frame. A loop outlives its sources, and nobody else keeps one.
    unowned(unsafe) let owner: ClientLoop
    private var talk = Talk.none
    /// The address it counts for: the peer's, or that of the client for which a trusted peer speaks.
    private(set) var address: PeerAddress
    /// When the session's identity is looked at next; `never` where no look is due.
    private var identityLookAt = never

    static let never = Instant(nanoseconds: 0)

    init(
        _ descriptor: Int32, _ address: PeerAddress, _ refusal: AdmissionControl.Refusal?, usesTLS: Bool,
        _ owner: ClientLoop
    ) {
        transport = Transport(descriptor, usesTLS: usesTLS)
        self.address = address
        wasRefused = refusal != nil
        self.owner = owner
        talk = .http(HTTPConversation(peer: address, refusal, owner))
    }

    deinit { Socket.close(transport.descriptor) }

    /// Whether frames are queued to it as lines of an event stream.
    var isEventStream: Bool { flags.isEventStream }

    var session: Session? {
        if case .webSocket(let session) = talk { return session }
        return eventStream?.session
    }

    var eventStream: EventStream? { if case .eventStream(let stream) = talk { stream } else { nil } }

    /// Nil after the upgrade.
    var conversation: HTTPConversation? { if case .http(let conversation) = talk { conversation } else { nil } }

    var identityLook: Instant? {
        get { identityLookAt == Self.never ? nil : identityLookAt }
        set { identityLookAt = newValue ?? Self.never }
    }

    var sessionID: SessionID { SessionID(slot: slot, generation: generation) }

    /// A WebSocket or an event stream, to which frames may be sent.
    var isEstablished: Bool { webSocket?.isEstablished == true || isEventStream }

    /// A WebSocket whose token is being verified.
    var awaitsToken: Bool { webSocket?.state == .open(.afterPause) }

    /// Whether nothing is read or sent any more: it is gone, or waits for its turn to be closed.
    var hasEnded: Bool { transport.state == .shut }

    // MARK: Inputs

    override func ready(_ readiness: Readiness) {
        // Held input is handled first: the hangup is reported again after its turn.
        if readiness.contains(.hangup), webSocket?.awaitsTurn == true { return }
        // Its turn may have come after this was reported without a look at readability: there may be something to read.
        let isReadable = readiness.contains(.readable) || readiness.contains(.hangup) && interest.contains(.readable)
        // Without TLS, the read reports this.
        if readiness.contains(.hangup), transport.tls != nil || !isReadable,
            Socket.takeError(transport.descriptor) == ETIMEDOUT
        {
            owner.metrics.reached(.unackedTimeout, address)
            return drop()
        }
        // A socket that takes nothing any more may hold earlier input.
        if readiness.contains(.writable), !readiness.contains(.hangup) {
            flush()
            if flags.isPulled { owner.slowReaders.pullIfDrained(self) }
            owner.budget.queuedChanged(self)
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
        if outcome == .broken { return owner.webSockets.broken(self) }
        // Nearly always: a WebSocket without anything else to do.
        if outcome == .drained, webSocket != nil, transport.state == .open, interest == .readable, queuedHeld == 0,
            transport.tls == nil, !flags.isPulled
        {
            return
        }
        flushed(outcome)
        if !transport.output.isEmpty {
            owner.slowReaders.leftUnsent(self)
        } else if queuedHeld > 0 || transport.hasUnsent {
            owner.budget.queuedChanged(self)
        }
        if flags.isPulled { owner.slowReaders.pullIfDrained(self) }
    }

    /// It has its turn: its client is read from now on, and has its time for the handshake.
    func begin() {
        let time =
            transport.state == .securing
            ? owner.settings.timeouts.tlsHandshake.wholeNanoseconds : owner.settings.handshakeNanoseconds
        owner.loop.setDeadline(self, owner.loop.now.advanced(byNanoseconds: time))
        updateInterest()
    }

    /// How long a judgement waits for unseen input.
    static let judgementPause = Duration.milliseconds(10)

    override func deadlineReached() {
        if let conversation, conversation.awaitsBeginning { return conversation.begin(self) }
        // The loop has stood still: what the peer sent in time may be unread.
        if owner.loop.hasUnseen {
            return owner.loop.setDeadline(self, owner.loop.now.advanced(by: Self.judgementPause))
        }
        switch transport.state {
        case .securing: owner.handshakes.failed(self, .timeout)
        case .open:
            if let conversation { return conversation.deadlineReached(self) }
            if isEventStream {
                owner.eventStreams.deadlineReached(self)
            } else {
                owner.webSockets.deadlineReached(self)
            }
        case .finishing: if conversation?.awaitsReader(self) != true { drop() }
        case .shut: break
        }
    }

    func goOn() {
        if webSocket != nil { return owner.webSockets.turnCame(self) }
        if transport.state == .open { conversation?.turnCame(self) }
    }

    func hubEnds() {
        switch transport.state {
        case .securing: drop()
        case .open:
            if let conversation { return conversation.hubEnds(self) }
            if isEventStream { owner.eventStreams.hubEnds(self) } else { owner.webSockets.hubEnds(self) }
        case .finishing: owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        case .shut: break
        }
    }

    // MARK: Reading

    /// Reads once. Returns whether something had come.
    @discardableResult func readable() -> Bool {
        if transport.state == .securing, !owner.handshakes.mayGoOn(self) { return false }
        let held = heldCount
        guard let room = transport.room(behind: held, in: owner.buffers.read) else {
            drop()
            return false
        }
        let result = transport.receive(
            into: room, keyUpdates: owner.settings.webSockets.controlRate, at: owner.loop.now)
        // TLS has answered by itself (a key update, RFC 8446 §4.6.3), and the socket has not taken it.
        if transport.tls?.hasUnsent == true { owner.loop.markDirty(self) }
        if transport.state == .securing, !owner.handshakes.advanced(self, result) { return false }
        switch result {
        case .bytes where isEventStream: drop()
        case .bytes(let count):
            if webSocket?.heard(at: owner.loop.now) == true { owner.webSockets.alive(self) }
            consume(held: held, received: count)
            if transport.hasHeardAll { farewell() }
            return true
        case .wouldBlock:
            // Part of a record may have come.
            if transport.tls != nil { owner.budget.unfinishedChanged(self) }
        // What is queued still goes out. A peer that is gone altogether refuses it.
        case .endOfStream where transport.state == .finishing && transport.hasUnsent: updateInterest()
        // A client that ends its requests (`nc -N`) still reads its answers.
        case .endOfStream where conversation != nil && transport.hasUnsent: finish()
        case .endOfStream: depart()
        case .failed(let code):
            if code == ETIMEDOUT { owner.metrics.reached(.unackedTimeout, address) }
            if code == EDQUOT { owner.metrics.reached(.keyUpdates, address) }
            depart()
        }
        return false
    }

    /// The pause is over: continues with what had been read.
    func resume() {
        let held = heldCount
        if held > 0 { consume(held: held, received: 0) }
        // Last, because there may be another pause.
        if !hasEnded { updateInterest() }
        if transport.hasHeardAll { farewell() }
    }

    /// Bytes that were read before, and precede new ones.
    private var heldCount: Int {
        if webSocket == nil { return conversation?.heldCount ?? 0 }
        return webSocket?.unfinished == nil ? 0 : webSocket?.leftoverCount ?? 0
    }

    /// Handles what is held and what was received. Received bytes lie after `held` bytes of the loop's buffer.
    private func consume(held: Int, received: Int) {
        let buffer = owner.buffers.read
        if webSocket != nil {
            if held > 0 { webSocket?.takeLeftover(into: buffer) }
            let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[0..<held + received])
            Unmanaged.passUnretained(owner.webSockets)._withUnsafeGuaranteedRef { $0.read(bytes, self) }
            if unfinishedHeld == 0, transport.tls == nil, webSocket?.unfinished == nil { return }
        } else {
            conversation?.read(UnsafeMutableRawBufferPointer(rebasing: buffer[held..<held + received]), self)
        }
        owner.budget.unfinishedChanged(self)
    }

    // MARK: Output

    /// Queues a frame, or bytes of a response. They leave at the end of the tick.
    func queue(_ frame: consuming SharedBytes) { queue(frame, on: owner.loop) }

    /// Queues messages for this connection alone, compressed where agreed and worth it.
    func send(_ messages: consuming Messages) {
        send(frames: FrameWriter.frames(of: messages))
    }

    func send(frames: consuming SharedBytes) {
        guard let deflateWindow, let compression = owner.compression else { return queue(frames) }
        queue(compression.compressed(frames, deflateWindow))
    }

    /// `queue` for a caller that has the loop at hand: the path of an event to its many receivers.
    @inline(__always)
    func queue(_ frame: consuming SharedBytes, on loop: EventLoop) {
        if isEventStream { return owner.eventStreams.queue(frame, self) }
        transport.queue(frame)
        loop.markDirty(self)
    }

    /// Whether so much is queued that its streams should be fed by pages.
    @inline(__always)
    func isCrowded(_ limits: GatewayLimits) -> Bool {
        transport.output.byteCount > limits.pullQueueBytesMax || transport.output.frameCount > limits.pullQueueFramesMax
    }

    /// Whether more is queued than allowed; the socket may not have been tried yet.
    @inline(__always)
    func isOverfull(_ limits: GatewayLimits) -> Bool {
        transport.output.byteCount > limits.sendQueueBytesMax || transport.output.frameCount > limits.sendQueueFramesMax
    }

    func flush() {
        if hasEnded { return transport.forgetUnsent() }
        flushed(transport.send(owner.buffers.gather))
    }

    private func flushed(_ outcome: WriteQueue.Outcome) {
        switch outcome {
        case .drained: if transport.state == .finishing { return finished() }
        case .blocked: break
        case .broken: return webSocket?.awaitsTurn == true ? owner.webSockets.broken(self) : depart()
        }
        conversation?.sent(self)
        updateInterest()
    }

    func updateInterest() {
        let isRead =
            switch transport.state {
            case .securing: conversation?.awaitsBeginning != true
            // Otherwise the end of stream of a peer that has finished would be reported over and over.
            case .finishing: !transport.hasUnsent
            case .open: webSocket?.reads ?? conversation?.reads(self) ?? true
            case .shut: false
            }
        var interest: Readiness = isRead ? .readable : []
        if transport.hasUnsent { interest.insert(.writable) }
        if interest != self.interest { owner.loop.setInterest(self, interest) }
    }

    // MARK: Sessions

    /// Counts the connection for that client, for which a trusted peer speaks, from now on.
    func counts(as client: PeerAddress, wasRefused: Bool) {
        address = client
        self.wasRefused = self.wasRefused || wasRefused
    }

    func upgraded(_ session: Session?, _ machine: WebSocketMachine) {
        talk = session.map(Talk.webSocket) ?? .none
        webSocket = machine
    }

    func streams(_ stream: EventStream) { (talk, flags.isEventStream) = (.eventStream(stream), true) }

    /// - Parameter mayReturn: whether the client may be back in a moment; false where it left by request.
    func leaveChannels(mayReturn: Bool = true) {
        guard let session else { return }
        talk = .none
        if isEventStream { owner.eventStreams.ended() }
        flags.isEventStream = false
        if !hasEnded { session.app.counts.connections.leave() }
        owner.engage(self) { $0.closed(session, mayReturn: mayReturn, &$1) }
    }

    // MARK: Ending

    /// Closes with one of Pusher's codes, which tells the client when to come back.
    func close(_ code: ErrorCode) {
        if isEventStream { return owner.eventStreams.close(self, code) }
        owner.webSockets.close(self, CloseCode(code), code.message)
    }

    /// The user's access has ended. Unsent data is dropped: it is health data. What TLS has sealed cannot be taken back.
    func cutOff(_ code: ErrorCode) {
        // Lines cannot be told apart here, and nothing may follow a part of one.
        if isEventStream { return drop() }
        transport.dropUnsent()
        close(code)
    }

    /// Ends after what is queued has been sent.
    func finish() {
        guard !hasEnded else { return }
        leaveChannels()
        owner.webSockets.end(self)
        transport.finish()
        conversation?.endsHere()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        owner.loop.markDirty(self)
    }

    private func finished() {
        transport.endStream()
        if owner.isStopping { return drop() }
        if conversation != nil { talk = .none }
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        owner.loop.setInterest(self, .readable)
    }

    /// The peer has said that it sends no more, and everything before that has been handled.
    func farewell() {
        // A client with an answer in flight gets it, and one whose requests wait for their turn gets all answers.
        if let conversation, conversation.isWaited { return }
        if webSocket?.awaitsTurn == true || awaitsToken { return }
        tickEnded()
        if hasEnded { return }
        if transport.hasUnsent { finish() } else { depart() }
    }

    func drop() {
        guard isAdded else { return }
        let hasDeparted = hasEnded
        owner.handshakes.left(self)
        leaveChannels()
        owner.webSockets.end(self)
        conversation?.endsHere()
        owner.budget.left(self)
        owner.loop.remove(self)
        owner.left(self, hasDeparted: hasDeparted)
        transport.shut()
    }

    /// The peer has gone. The costliest part, leaving the session's channels, waits for its turn.
    func depart() {
        guard isEventStream || webSocket?.isOpen == true, let session else { return drop() }
        owner.webSockets.end(self)
        transport.shut()
        owner.budget.left(self)
        owner.loop.unwatch(self)
        session.app.counts.connections.leave()
        owner.departed(self)
    }
}

/// Some of a connection's facts in one byte.
struct ConnectionFlags {
    private var bits: UInt8 = 0

    /// Whether its session may be behind with a stream.
    var isPulled: Bool {
        get { bits & 1 != 0 }
        set { bits = newValue ? bits | 1 : bits & ~1 }
    }

    /// Whether frames are queued to it as lines of an event stream.
    var isEventStream: Bool {
        get { bits & 2 != 0 }
        set { bits = newValue ? bits | 2 : bits & ~2 }
    }

    /// Whether its request was counted for its address, because it does not say who sends it.
    var isCounted: Bool {
        get { bits & 4 != 0 }
        set { bits = newValue ? bits | 4 : bits & ~4 }
    }
}
