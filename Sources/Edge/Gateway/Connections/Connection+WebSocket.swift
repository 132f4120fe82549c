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
    /// The upgrade is answered: a WebSocket from here on.
    ///
    /// - Parameter bytes: what has still to be sent first, in the same block.
    func open(_ session: Session, behind bytes: consuming ByteWriter) {
        let owner = owner
        if let conversation {
            owner.metrics.handshakes.record(owner.loop.now.nanoseconds &- conversation.startedAt.nanoseconds)
        }
        self.session = session
        countIn()
        phase = .open
        owner.hub.opened(session)
        FrameWriter.appendText(to: &bytes) {
            ServerEvent.connectionEstablished(
                session.socketID, activityTimeout: owner.settings.activitySeconds, to: &$0)
        }
        queue(bytes.finish())
        owner.takers.tellStatus(self)
        if let wait = session.authorizationTime { owner.identities.watch(self, after: wait) }
        owner.loop.setDeadline(self, owner.loop.now.advanced(byNanoseconds: owner.settings.activityNanoseconds))
    }

    /// The upgrade is answered, and messages are the responder's.
    func openWithoutSession() {
        countIn()
        endConversation()
        phase = .open
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.activity))
    }

    /// Reads messages while the connection takes any, and says how many bytes they took.
    ///
    /// - Parameter room: bytes of messages that may still be looked at in this turn; the last message may go beyond them.
    func readMessages(_ bytes: UnsafeMutableRawBufferPointer, room: inout Int) -> Int {
        var consumed = 0
        do throws(WebSocketError) {
            // Nearly always: nothing is held, and all that has come is texts.
            while consumed < bytes.count, room > 0, phase == .open, unfinished == nil,
                let range = try MessageReader.takeText(bytes, consumed: &consumed, limits: owner.settings.messageLimits)
            {
                room &-= range.count &+ Self.messageCost
                text(UnsafeRawBufferPointer(bytes).part(range), cost: range.count)
            }
            if consumed < bytes.count, room > 0 { try readEvents(bytes, consumed: &consumed, room: &room) }
        } catch {
            failed(error)
            return bytes.count
        }
        return consumed
    }

    private func readEvents(
        _ bytes: UnsafeMutableRawBufferPointer, consumed: inout Int, room: inout Int
    ) throws(WebSocketError) {
        let compression = deflateWindow == nil ? nil : owner.compression
        var reader = takeReader()
        defer { compression?.hasRead() }
        while consumed < bytes.count, room > 0, phase == .open || phase == .closing,
            let event = try reader.read(
                bytes, consumed: &consumed, limits: owner.settings.messageLimits, inflater: compression?.inflater)
        {
            if !reader.holdsMessage { messageSince = Self.never }
            room &-= event.cost &+ Self.messageCost
            received(event, in: bytes)
        }
        keep(reader)
    }

    private func failed(_ error: WebSocketError) {
        switch error {
        case .messageTooBig: owner.metrics.reached(.messageBytes, address)
        case .messagePadded: owner.metrics.reached(.messagePadding, address)
        case .tooManyFragments: owner.metrics.reached(.messageFragments, address)
        default: break
        }
        guard phase == .open else { return drop() }
        close(error.closeCode, error.reason)
        // What follows cannot be told apart any more; only the peer's end is awaited.
        finish()
    }

    private func received(_ event: MessageEvent, in buffer: UnsafeMutableRawBufferPointer) {
        if phase == .closing {
            if case .close = event { finish() }
            return
        }
        switch event {
        case .text(let payload):
            payload.withUnsafeBytes(in: buffer) { text($0, cost: payload.cost) }
        case .binary(let payload):
            guard session == nil else { return close(.unsupportedData, "text messages only") }
            payload.withUnsafeBytes(in: buffer) { respond(to: $0, isText: false) }
        case .ping(let payload):
            guard takeControl() else { return }
            payload.withUnsafeBytes(in: buffer) { bytes in
                var writer = ByteWriter(capacity: bytes.count + 2)
                FrameWriter.append(control: Opcode.pong, bytes, to: &writer)
                queue(writer.finish())
            }
        case .pong:
            _ = takeControl()
        case .close(let code):
            // A client that is told to disconnect says so without a code or with 1000, and leaves as one that unsubscribes. With 1001
            // browsers leave a page, which nearly always means that the next one connects; other codes are of faults.
            leaveChannels(mayReturn: code.map { $0 != .normal } ?? false)
            disconnected(code?.rawValue ?? 1005)
            var writer = ByteWriter(capacity: 16)
            FrameWriter.appendClose(code, to: &writer)
            queue(writer.finish())
            finish()
        }
    }

    /// Whether the connection may send one more ping or pong; ended, where it may not.
    private func takeControl() -> Bool {
        if controlAllowance.take(owner.settings.controlRate, at: owner.loop.now) { return true }
        flooded(.controlFrames, .tooManyControlFrames)
        return false
    }

    /// Ends with no further look at what comes.
    private func flooded(_ limit: ReachedLimit, _ code: ErrorCode) {
        owner.metrics.reached(limit, address)
        close(code)
        finish()
    }

    /// A text message has come, and has cost so many bytes.
    private func text(_ text: UnsafeRawBufferPointer, cost: Int) {
        // Held once for all that follows.
        let owner = owner
        guard messageAllowance.take(owner.settings.messageRate, at: owner.loop.now, cost: 1 &+ cost >> 12) else {
            return flooded(.messages, .tooManyMessages)
        }
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
        phase = .awaitingToken
        updateInterest()
    }

    /// A token was verified that this connection waits for.
    ///
    /// - Parameter code: what it is closed with, whatever the result.
    func verified(_ result: Result<VerifiedToken, TokenRejection>, endedBy code: ErrorCode?) {
        if phase == .awaitingAnswer { return upgradeVerified(result, endedBy: code) }
        guard phase == .awaitingToken, let session else { return }
        if let code { return cutOff(code) }
        phase = .open
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
        if phase == .draining, session.actionsInFlight == 0 { goAway() }
    }

    // MARK: Liveness and the close handshake

    /// What was read may have left a message unfinished, which has its own time.
    func watchMessage() {
        guard let unfinished, unfinished.messageSince == Self.never else { return }
        unfinished.messageSince = owner.loop.now
        if !awaitsPong { owner.loop.setDeadline(self, nextLook) }
    }

    /// When the connection is looked at next.
    private var nextLook: Instant {
        let quiet = lastInbound.advanced(by: owner.settings.timeouts.activity)
        return messageSince == Self.never
            ? quiet : min(quiet, messageSince.advanced(by: owner.settings.timeouts.message))
    }

    /// A peer is alive as long as bytes come from it; what we send proves nothing about a half-open connection.
    func checkLiveness() {
        messageAllowance.settle(owner.settings.messageRate, at: owner.loop.now)
        controlAllowance.settle(owner.settings.controlRate, at: owner.loop.now)
        // What it has sent has still to be looked at: that is a sign of life, and may be the rest of a message whose time is over.
        if turn != .none {
            lastInbound = owner.loop.now
            awaitsPong = false
            return owner.loop.setDeadline(self, owner.loop.now.advanced(by: Self.judgementPause))
        }
        if awaitsPong {
            owner.metrics.reached(.pongTimeout, address)
            return close(.pongTimeout)
        }
        if messageSince != Self.never, messageSince.advanced(by: owner.settings.timeouts.message) <= owner.loop.now {
            owner.metrics.reached(.messageTimeout, address)
            close(.policyViolation, "message not finished in time")
            return finish()
        }
        // A client whose sign-in came to nothing asks for it on a new connection only (pusher-js says nothing and does not
        // try again), and would hear nothing of its channels for ever.
        if phase == .open, session?.awaitsIdentity == true { return close(.reconnect) }
        let now = owner.loop.now
        guard lastInbound.advanced(by: owner.settings.timeouts.activity) <= now else {
            return owner.loop.setDeadline(self, nextLook)
        }
        awaitsPong = true
        queue(owner.settings.pingFrame)
        owner.loop.setDeadline(self, now.advanced(by: owner.settings.timeouts.pong))
    }

    /// The peer that was pinged has shown life; its next silence is measured from here.
    func alive() {
        awaitsPong = false
        if phase == .open || phase == .awaitingToken {
            owner.loop.setDeadline(self, nextLook)
        }
    }

    /// The hub ends. Whoever awaits answers to actions gets them first, if they come soon: a device that is told of a
    /// commit need not ask again.
    func hubEnds() {
        switch phase {
        case .open, .awaitingToken:
            guard let session, session.actionsInFlight > 0 else { return goAway() }
            phase = .draining
            awaitsPong = false
            updateInterest()
            owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.drain))
        case .awaitingAnswer where conversation?.upgrade == nil:
            owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.drain))
        case .securing: drop()
        case .http, .awaitingAnswer: finish()
        case .finishing, .closing: owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
        case .draining, .departed, .gone: break
        }
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
        close(CloseCode(rawValue: code.rawValue), code.message)
    }

    /// Sends our close frame and awaits the peer's (RFC 6455 §7.1.2).
    func close(_ code: CloseCode, _ reason: StaticString) {
        guard isEstablished else { return }
        leaveChannels()
        disconnected(code.rawValue)
        var writer = ByteWriter(capacity: 64)
        FrameWriter.appendClose(code, reason: reason, to: &writer)
        queue(writer.finish())
        phase = .closing
        updateInterest()
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.closeTime))
    }
}
