import Bytes
import Channels
import Clock
import HTTP
import Identity
import Metrics
import Pusher
import Reactor
import Sync
import WebSocket

extension Connection {
    /// A WebSocket in use that waits for nothing but its turn, if for anything.
    var isOpen: Bool {
        switch webSocket?.state {
        case .open(.now), .open(.nextTurn): true
        default: false
        }
    }

    /// A WebSocket whose token is being verified.
    var awaitsToken: Bool { webSocket?.state == .open(.afterPause) }

    /// The upgrade is answered.
    ///
    /// - Parameters:
    ///   - bytes: what has still to be sent first, in the same block.
    ///   - early: what has come behind the request.
    func open(_ session: Session, behind bytes: consuming ByteWriter, _ early: [UInt8]) {
        let owner = owner
        upgraded(session, early)
        owner.hub.opened(session)
        FrameWriter.appendText(to: &bytes) {
            ServerEvent.connectionEstablished(
                session.socketID, activityTimeout: owner.settings.activitySeconds, to: &$0)
        }
        queue(bytes.finish())
        owner.takers.tellStatus(self)
        if let wait = session.authorizationTime { owner.identities.watch(self, after: wait) }
    }

    /// The WebSocket is in use no more, with that close code.
    private func disconnected(_ code: UInt16) {
        owner.metrics.webSockets.add(-1)
        if deflateWindow != nil { owner.metrics.compression.connections.add(-1) }
        owner.metrics.disconnected(code)
    }

    /// Nothing more is read as messages.
    func endWebSocket() {
        if webSocket?.end() == true { disconnected(1006) }
    }

    // MARK: Messages

    /// Does what is to be done about `bytes`, from `start` on, in one turn; what is left is held.
    func readMessages(_ bytes: UnsafeMutableRawBufferPointer, from start: Int) {
        let settings = owner.settings
        var cursor = WebSocketMachine.Cursor(consumed: start, room: settings.limits.turnBytesMax)
        do throws(WebSocketMachine.Violation) {
            // Nearly always: nothing is held, and all that has come is texts.
            while let range = try webSocket?.nextText(
                bytes, &cursor, at: owner.loop.now, settings.webSockets.limits, settings.webSockets.messageRate)
            {
                text(UnsafeRawBufferPointer(bytes).part(range))
            }
        } catch {
            refuse(error)
        }
        if cursor.consumed < bytes.count || webSocket?.unfinished != nil { readActions(bytes, &cursor) }
    }

    private func readActions(_ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout WebSocketMachine.Cursor) {
        let rules = owner.settings.webSockets
        let compression = deflateWindow == nil ? nil : owner.compression
        while let action = webSocket?.next(
            bytes, &cursor, at: owner.loop.now, rules, inflater: compression?.inflater)
        {
            perform(action, in: bytes)
        }
        compression?.hasRead()
        let rest = UnsafeRawBufferPointer(rebasing: bytes[cursor.consumed...])
        if let look = webSocket?.endInput(rest, at: owner.loop.now, rules) { owner.loop.setDeadline(self, look) }
    }

    private func perform(_ action: WebSocketMachine.Action, in buffer: UnsafeMutableRawBufferPointer) {
        switch action {
        case .text(let payload):
            payload.withUnsafeBytes(in: buffer) { text($0) }
        case .binary(let payload):
            guard session == nil else { return close(.unsupportedData, "text messages only") }
            payload.withUnsafeBytes(in: buffer) { respond(to: $0, isText: false) }
        case .pong(let payload):
            payload.withUnsafeBytes(in: buffer) { bytes in
                var writer = ByteWriter(capacity: bytes.count + 2)
                FrameWriter.append(control: Opcode.pong, bytes, to: &writer)
                queue(writer.finish())
            }
        case .awaitTurn: awaitTurn()
        case .answerClose(let code):
            // A client that is told to disconnect says so without a code or with 1000, and leaves as one that unsubscribes. With 1001
            // browsers leave a page, which nearly always means that the next one connects; other codes are of faults.
            leaveChannels(mayReturn: code.map { $0 != .normal } ?? false)
            disconnected(code?.rawValue ?? 1005)
            queueClose(code)
            finish()
        case .refuse(let violation): refuse(violation)
        case .finish: finish()
        case .drop: drop()
        }
    }

    /// Closes, and reads no further; only the peer's end is awaited.
    private func refuse(_ violation: WebSocketMachine.Violation) {
        switch violation {
        case .malformed(let error):
            if let limit = error.limit { owner.metrics.reached(limit, address) }
            refuse(error.closeCode, error.reason)
        case .tooManyMessages:
            owner.metrics.reached(.messages, address)
            refuse(CloseCode(.tooManyMessages), ErrorCode.tooManyMessages.message)
        case .tooManyControlFrames:
            owner.metrics.reached(.controlFrames, address)
            refuse(CloseCode(.tooManyControlFrames), ErrorCode.tooManyControlFrames.message)
        }
    }

    /// The machine has ended.
    private func refuse(_ code: CloseCode, _ reason: StaticString) {
        leaveChannels()
        disconnected(code.rawValue)
        queueClose(code, reason)
        finish()
    }

    /// A text message has come.
    private func text(_ text: UnsafeRawBufferPointer) {
        // Held once for all that follows.
        let owner = owner
        guard let session else { return respond(to: text, isText: true) }
        owner.metrics.messages.add()
        session.app.counts.messages.add()
        if let event = CommonEvent(text) {
            var isDone = false
            owner.engage(self) { isDone = $0.received(event, from: session, &$1) }
            if isDone { return }
        }
        do {
            let event = try ClientEvent.decode(text)
            let hasRoom = !isCrowded(owner.settings.limits)
            let now = owner.loop.now
            owner.engage(self) { $0.received(event, from: session, hasRoom: hasRoom, now: now, &$1) }
            // What it has left may have been what its other streams waited for.
            if session.isBehind { owner.slowReaders.pull(self) }
        } catch {
            owner.engage(self) { $0.received(error, from: session, &$1) }
        }
    }

    /// An open connection has no session where a responder has taken the engine's place.
    private func respond(to payload: UnsafeRawBufferPointer, isText: Bool) {
        guard let responder = owner.settings.configuration.responder else { return }
        send(responder(payload, isText))
    }

    /// Nothing is read until the token has been verified.
    func awaitToken() {
        webSocket?.pause()
        updateInterest()
    }

    /// A token was verified that this connection waits for.
    ///
    /// - Parameter code: what it is closed with, whatever the result.
    func verified(_ result: Result<VerifiedToken, TokenRejection>, endedBy code: ErrorCode?) {
        if let conversation { return conversation.verified(result, endedBy: code, self) }
        guard awaitsToken, let session else { return }
        if let code { return cutOff(code) }
        guard webSocket?.resume() == true else { return }
        owner.engage(self) { hub, effects in
            switch result {
            case .success(let token):
                hub.authenticated(session, as: Identity(token), &effects)
            case .failure(let rejection):
                hub.rejected(session, reason: rejection.message, &effects)
            }
        }
        // Before the next token is read, or a client could put off its end with one after the other.
        if owesIdentityLook {
            owesIdentityLook = false
            owner.lookAtIdentity(of: self)
        }
        resume()
    }

    /// The store has answered an action of this connection.
    func acted(_ answer: ActionAnswer) {
        guard let session else { return }
        owner.engage(self) { $0.answered(answer, session, &$1) }
        if webSocket?.state == .draining, session.actionsInFlight == 0 { goAway() }
    }

    // MARK: Turns

    /// More has come than is looked at in one turn: 64 KiB from the kernel (`LoopBuffers.readRoom`), and `GatewayLimits.turnBytesMax` of what
    /// messages cost. It goes on when the loop's others have had their turns.
    private func awaitTurn() {
        owner.turns.wants(sessionID)
        updateInterest()
    }

    /// The turn has come.
    ///
    /// Worst interleavings, each with its test in `BurstTests` (of TLS in `TLSConnectionTests`); while a connection waits for its turn
    /// - its peer goes, or ends what it sends: the kernel's word is not taken before all that had come has been read;
    /// - a send to it breaks: what had come is looked at to its end, turn by turn, or to a sign-in that has to be verified
    ///   elsewhere; that may be in the middle of a frame; and what is to be sent is forgotten;
    /// - it is closed, terminated, or removed: what it waits with is not looked at, and the turn that comes finds nobody;
    /// - TLS has said that no more comes, so that its socket will never be readable again: the farewell follows the last turn;
    /// - all connections hold too much: what waits counts with what is not finished (`Holdings`).
    func turnCame() {
        guard webSocket?.turnCame(at: owner.loop.now) == true else { return }
        if transport.isBroken, webSocket?.leftoverCount == 0 { return broken() }
        resume()
        guard transport.isBroken, !hasEnded else { return }
        guard isOpen else { return depart() }
        // All that could be looked at has been: the rest of what is left is in the kernel, or nowhere.
        if webSocket?.awaitsTurn == false { broken() }
    }

    /// The socket takes nothing any more. What the peer said before it went counts.
    func broken() {
        transport.forgetUnsent()
        if webSocket?.state == .open(.now), readable(), webSocket?.yields() == true { awaitTurn() }
        guard webSocket?.state == .open(.nextTurn) else {
            if !hasEnded { depart() }
            return
        }
        // Each further send comes by here again.
        transport.broke()
    }

    // MARK: Liveness and the close handshake

    /// A deadline of the WebSocket has passed.
    func checkLiveness() {
        let now = owner.loop.now
        transport.tls?.updateAllowance.settle(owner.settings.webSockets.controlRate, at: now)
        guard let due = webSocket?.due(at: now, owner.settings.webSockets) else { return }
        switch due {
        case .wait: owner.loop.setDeadline(self, now.advanced(by: Self.judgementPause))
        case .silent:
            owner.metrics.reached(.pongTimeout, address)
            close(.pongTimeout)
        case .unfinished:
            owner.metrics.reached(.messageTimeout, address)
            refuse(.policyViolation, "message not finished in time")
        case .look(let time), .ping(let time):
            // A client whose sign-in came to nothing asks for it on a new connection only (pusher-js says nothing and does not
            // try again), and would hear nothing of its channels for ever.
            if isOpen, session?.awaitsIdentity == true { return close(.reconnect) }
            if case .ping = due { queue(owner.settings.pingFrame) }
            owner.loop.setDeadline(self, time)
        case .drained: goAway()
        case .drop: drop()
        }
    }

    /// The peer that was pinged has shown life; its next silence is measured from here.
    func alive() {
        if let look = webSocket?.nextLook(owner.settings.webSockets) { owner.loop.setDeadline(self, look) }
    }

    /// The hub ends. Whoever awaits answers to actions gets them first, if they come soon: a device that is told of a
    /// commit need not ask again.
    func webSocketEnds() {
        guard isEstablished else {
            return owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        }
        guard let session, session.actionsInFlight > 0 else { return goAway() }
        webSocket?.drain()
        updateInterest()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.drain))
    }

    /// The hub ends, and its clients shall come back in a second, when a successor may listen.
    ///
    /// By 1001, "server going down" (RFC 6455 §7.4.1). After 4200 pusher-js 8.6.0 comes back at once; where nobody listens yet, it
    /// waits for the end of the 15 seconds that it gives each attempt: 15.0 s for a restart that took 0.1 s. After any code below
    /// 4000 it comes after a second; after 4100 to 4199 too, but it tells its page of an error then. Other clients of
    /// Pusher's make no difference: pusher-websocket-java waits a second and pusher-websocket-swift none, both longer with
    /// each attempt; Pysher waits its own ten.
    func goAway() {
        close(.goingAway, "the hub ends")
    }

    /// Closes with one of Pusher's codes, which tells the client when to come back.
    func close(_ code: ErrorCode) {
        close(CloseCode(code), code.message)
    }

    /// Sends our close frame and awaits the peer's (RFC 6455 §7.1.2).
    func close(_ code: CloseCode, _ reason: StaticString) {
        guard isEstablished else { return }
        leaveChannels()
        guard webSocket?.close() == true else { return }
        disconnected(code.rawValue)
        queueClose(code, reason)
        updateInterest()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
    }

    private func queueClose(_ code: CloseCode?, _ reason: StaticString = "") {
        var writer = ByteWriter(capacity: 64)
        FrameWriter.appendClose(code, reason: reason, to: &writer)
        queue(writer.finish())
    }
}

extension CloseCode {
    fileprivate init(_ code: ErrorCode) { self.init(rawValue: code.rawValue) }
}

extension WebSocketError {
    /// The limit that was reached with it.
    fileprivate var limit: ReachedLimit? {
        switch self {
        case .messageTooBig: .messageBytes
        case .messagePadded: .messagePadding
        case .tooManyFragments: .messageFragments
        default: nil
        }
    }
}
