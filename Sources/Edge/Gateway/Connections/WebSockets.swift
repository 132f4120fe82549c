import Bytes
import Clock
import HubEngine
import Identity
import Metrics
import Pusher
import Reactor
import Sync
import WebSocket

/// The WebSockets of a loop: performs their machines' actions, gives the engine what clients send, and counts them.
final class WebSockets {
    private let loop: EventLoop
    private let delivery: LoopDelivery
    private let identities: IdentityWatch
    let turns: ConnectionTurns
    /// Their like without a WebSocket.
    let eventStreams: EventStreams
    private let settings: ConnectionSettings
    private let metrics: GatewayMetrics
    private var shares: UserShares

    init(
        on loop: EventLoop, _ delivery: LoopDelivery, _ identities: IdentityWatch, _ turns: ConnectionTurns,
        _ settings: ConnectionSettings, _ metrics: GatewayMetrics
    ) {
        self.loop = loop
        self.delivery = delivery
        self.identities = identities
        self.turns = turns
        eventStreams = EventStreams(on: loop, delivery, identities, metrics)
        self.settings = settings
        self.metrics = metrics
        shares = UserShares(most: settings.limits.turnBytesMax)
    }

    // MARK: Beginning

    /// The connection's upgrade is answered.
    ///
    /// - Parameters:
    ///   - bytes: to be sent first, in the same block.
    ///   - early: what came after the request.
    func open(_ session: Session, behind bytes: consuming ByteWriter, _ early: [UInt8], _ connection: ClientConnection)
    {
        begin(connection, session, early)
        connection.owner.engine.opened(session)
        FrameWriter.appendText(to: &bytes) {
            ServerEvent.connectionEstablished(session.socketID, activityTimeout: settings.activitySeconds, to: &$0)
        }
        connection.queue(bytes.finish())
        delivery.tellStatus(connection)
        if let wait = session.authorizationTime { identities.watch(connection, after: wait) }
    }

    /// The connection is a WebSocket from now on. Without a session for a responder, or if it is closed at once.
    func begin(_ connection: ClientConnection, _ session: Session? = nil, _ early: [UInt8] = []) {
        connection.upgraded(session, WebSocketMachine(at: loop.now, early: early))
        metrics.webSockets.add(1)
        if connection.deflateWindow != nil { metrics.compression.connections.add(1) }
        loop.setDeadline(connection, loop.now.advanced(byNanoseconds: settings.webSockets.activity))
    }

    // MARK: Messages

    /// Handles `bytes` from `start` on, within one turn. The rest is held.
    func read(_ bytes: UnsafeMutableRawBufferPointer, from start: Int = 0, _ connection: ClientConnection) {
        guard bytes.count &- start <= UserShares.littleBytes else { return readMuch(bytes, from: start, connection) }
        var cursor = WebSocketMachine.Cursor(consumed: start, room: settings.limits.turnBytesMax)
        read(bytes, &cursor, connection)
    }

    // Not inlined: nearly always little has come.
    @inline(never)
    private func readMuch(_ bytes: UnsafeMutableRawBufferPointer, from start: Int, _ connection: ClientConnection) {
        let share = shares.room(for: bytes.count - start, of: connection.session?.identity, at: loop.now)
        let room = share?.left ?? settings.limits.turnBytesMax
        var cursor = WebSocketMachine.Cursor(consumed: start, room: room)
        read(bytes, &cursor, connection)
        if let share { shares.spend(room - cursor.room, of: share.user) }
    }

    @inline(__always)
    private func read(
        _ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout WebSocketMachine.Cursor, _ connection: ClientConnection
    ) {
        do throws(WebSocketMachine.Violation) {
            // Nearly always: nothing is held, and only texts have come.
            while cursor.consumed < bytes.count,
                let range = try connection.webSocket?.nextText(
                    bytes, &cursor, at: loop.now, settings.webSockets.limits, settings.webSockets.messageRate)
            { text(UnsafeRawBufferPointer(bytes).part(range), connection) }
        } catch { refuse(error, connection) }
        if cursor.consumed < bytes.count || connection.webSocket?.unfinished != nil {
            readActions(bytes, &cursor, connection)
        }
    }

    private func readActions(
        _ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout WebSocketMachine.Cursor, _ connection: ClientConnection
    ) {
        let rules = settings.webSockets
        let compression = connection.deflateWindow == nil ? nil : delivery.compression
        while let action = connection.webSocket?.next(
            bytes, &cursor, at: loop.now, rules, inflater: compression?.inflater)
        { perform(action, in: bytes, connection) }
        compression?.hasRead()
        let rest = UnsafeRawBufferPointer(rebasing: bytes[cursor.consumed...])
        if let look = connection.webSocket?.endInput(rest, at: loop.now, rules) { loop.setDeadline(connection, look) }
    }

    private func perform(
        _ action: WebSocketMachine.Action, in buffer: UnsafeMutableRawBufferPointer, _ connection: ClientConnection
    ) {
        switch action {
        case .text(let payload): payload.withUnsafeBytes(in: buffer) { text($0, connection) }
        case .binary(let payload):
            guard connection.session == nil else { return close(connection, .unsupportedData, "text messages only") }
            payload.withUnsafeBytes(in: buffer) { respond(to: $0, isText: false, connection) }
        case .pong(let payload):
            payload.withUnsafeBytes(in: buffer) { bytes in
                var writer = ByteWriter(capacity: bytes.count + 2)
                FrameWriter.append(control: Opcode.pong, bytes, to: &writer)
                connection.queue(writer.finish())
            }
        case .awaitTurn: awaitTurn(connection)
        case .answerClose(let code):
            // A client that disconnects on request closes without a code or with 1000, and leaves like one that
            // unsubscribes. With 1001 browsers leave a page, and nearly always the next one connects. Others are faults.
            connection.leaveChannels(mayReturn: code.map { $0 != .normal } ?? false)
            ended(connection, by: code?.rawValue ?? 1005)
            queueClose(connection, code)
            connection.finish()
        case .refuse(let violation): refuse(violation, connection)
        case .finish: connection.finish()
        case .drop: connection.drop()
        }
    }

    private func text(_ text: UnsafeRawBufferPointer, _ connection: ClientConnection) {
        // Retained once for everything that follows.
        let owner = connection.owner
        guard let session = connection.session else { return respond(to: text, isText: true, connection) }
        metrics.messages.add()
        session.app.counts.messages.add()
        if let event = CommonEvent(text) {
            var isDone = false
            owner.engage(connection) { isDone = $0.received(event, from: session, &$1) }
            if isDone { return }
        }
        do {
            let event = try ClientEvent.decode(text)
            let hasRoom = !connection.isCrowded(settings.limits)
            let now = loop.now
            owner.engage(connection) { $0.received(event, from: session, hasRoom: hasRoom, now: now, &$1) }
            // The channel it left may have been what its other streams waited for.
            if session.isBehind { delivery.slowReaders.pull(connection) }
        } catch { owner.engage(connection) { $0.received(error, from: session, &$1) } }
    }

    /// An open connection has no session where a responder replaces the engine.
    private func respond(to payload: UnsafeRawBufferPointer, isText: Bool, _ connection: ClientConnection) {
        guard let responder = settings.configuration.responder else { return }
        connection.send(frames: responder(payload, isText))
    }

    /// Nothing is read until a token has been verified.
    func pause(_ connection: ClientConnection) {
        connection.webSocket?.pause()
        connection.updateInterest()
    }

    /// The token that the connection waits for was verified.
    ///
    /// - Parameter code: closes the connection with it, whatever the result.
    func verified(
        _ result: Result<VerifiedToken, TokenRejection>, endedBy code: ErrorCode?, _ connection: ClientConnection
    ) {
        guard connection.awaitsToken, let session = connection.session else { return }
        if let code { return connection.cutOff(code) }
        guard connection.webSocket?.resume() == true else { return }
        connection.owner.engage(connection) { engine, effects in
            switch result {
            case .success(let token): engine.authenticated(session, as: Identity(token), &effects)
            case .failure(let rejection): engine.identities.rejected(session, reason: rejection.message, &effects)
            }
        }
        // Before the next token is read. Otherwise a client could postpone its end with one token after the other.
        if connection.owesIdentityLook {
            connection.owesIdentityLook = false
            connection.owner.lookAtIdentity(of: connection)
        }
        connection.resume()
    }

    func acted(_ answer: ActionAnswer, _ connection: ClientConnection) {
        guard let session = connection.session else { return }
        connection.owner.engage(connection) { $0.actions.answered(answer, session, &$1) }
        if connection.webSocket?.state == .draining, session.actionsInFlight == 0 { goAway(connection) }
    }

    // MARK: Turns

    /// More has come than one turn handles: 64 KiB from the kernel (`LoopBuffers.readRoom`), and
    /// `GatewayLimits.turnBytesMax` of messages' cost. It continues when the loop's other connections have had their turns.
    private func awaitTurn(_ connection: ClientConnection) {
        turns.wants(connection.sessionID)
        connection.updateInterest()
    }

    /// The turn has come.
    ///
    /// Worst interleavings, each with its test in `BurstTests` (for TLS in `TLSConnectionTests`); while a connection waits
    /// for its turn
    /// - its peer goes, or ends its stream: the kernel's report is ignored until everything that had come has been read;
    /// - a send to it breaks: its input is handled to the end, turn by turn, or to a sign-in that must be verified
    ///   elsewhere. The end may be in the middle of a frame. What is to be sent is dropped;
    /// - it is closed, terminated, or removed: its held input is ignored, and the turn finds nobody;
    /// - TLS has said that no more comes, so its socket will never be readable again: the farewell follows the last turn;
    /// - all connections hold too much: held input counts with what is unfinished (`MemoryBudget`).
    func turnCame(_ connection: ClientConnection) {
        guard connection.webSocket?.turnCame(at: loop.now) == true else { return }
        if connection.transport.isBroken, connection.webSocket?.leftoverCount == 0 { return broken(connection) }
        connection.resume()
        guard connection.transport.isBroken, !connection.hasEnded else { return }
        guard connection.webSocket?.isOpen == true else { return connection.depart() }
        // Everything that can be handled has been: the rest is in the kernel, or nowhere.
        if connection.webSocket?.awaitsTurn == false { broken(connection) }
    }

    /// The socket takes nothing any more. What the peer sent before it went counts.
    func broken(_ connection: ClientConnection) {
        connection.transport.forgetUnsent()
        if connection.webSocket?.state == .open(.now), connection.readable(), connection.webSocket?.yields() == true {
            awaitTurn(connection)
        }
        guard connection.webSocket?.state == .open(.nextTurn) else {
            if !connection.hasEnded { connection.depart() }
            return
        }
        // Each further send comes by here again.
        connection.transport.broke()
    }

    // MARK: Liveness

    func deadlineReached(_ connection: ClientConnection) {
        let now = loop.now
        connection.transport.tls?.updateAllowance.settle(settings.webSockets.controlRate, at: now)
        guard let due = connection.webSocket?.due(at: now, settings.webSockets) else { return }
        switch due {
        case .wait: loop.setDeadline(connection, now.advanced(by: ClientConnection.judgementPause))
        case .silent:
            metrics.reached(.pongTimeout, connection.address)
            connection.close(.pongTimeout)
        case .unfinished:
            metrics.reached(.messageTimeout, connection.address)
            refuse(.policyViolation, "message not finished in time", connection)
        case .look(let time), .ping(let time):
            // A client whose sign-in failed retries it only on a new connection. pusher-js is silent, and would wait for
            // ever.
            if connection.webSocket?.isOpen == true, connection.session?.awaitsIdentity == true {
                return connection.close(.reconnect)
            }
            if case .ping = due { connection.queue(settings.pingFrame) }
            loop.setDeadline(connection, time)
        case .drained: goAway(connection)
        case .drop: connection.drop()
        }
    }

    /// A pinged peer has shown life: its next silence is measured from now.
    func alive(_ connection: ClientConnection) {
        if let look = connection.webSocket?.nextLook(settings.webSockets) { loop.setDeadline(connection, look) }
    }

    // MARK: Ending

    /// The hub ends. A client gets the answers to its actions first, if they come soon: it need not ask again then.
    func hubEnds(_ connection: ClientConnection) {
        guard connection.isEstablished else {
            return loop.setDeadline(connection, loop.now.advanced(by: connection.owner.closeTime))
        }
        guard let session = connection.session, session.actionsInFlight > 0 else { return goAway(connection) }
        connection.webSocket?.drain()
        connection.updateInterest()
        loop.setDeadline(connection, loop.now.advanced(by: settings.timeouts.drain))
    }

    /// The hub ends. Where somebody holds its listening sockets, nobody is refused, and clients come back at once (4200);
    /// early ones wait in the kernel's queue. Otherwise they should come back in a second, when a successor may listen.
    ///
    /// That is by 1001, "server going down" (RFC 6455 §7.4.1). After 4200 pusher-js 8.6.0 comes back at once. If nobody listens yet,
    /// it waits for the end of the 15 seconds that it gives each attempt: 15.0 s for a restart that took 0.1 s. After any
    /// code below 4000 it comes back after a second; after 4100 to 4199 too, but then it reports an error to its page. Other
    /// Pusher clients make no difference: pusher-websocket-java waits a second and pusher-websocket-swift none, both longer
    /// with each attempt; Pysher waits its own ten.
    private func goAway(_ connection: ClientConnection) {
        if connection.owner.drainage.hasSuccessor { return connection.close(.reconnect) }
        close(connection, .goingAway, "the hub ends")
    }

    /// Sends our close frame and awaits the peer's (RFC 6455 §7.1.2).
    func close(_ connection: ClientConnection, _ code: CloseCode, _ reason: StaticString) {
        guard connection.isEstablished else { return }
        connection.leaveChannels()
        guard connection.webSocket?.close() == true else { return }
        ended(connection, by: code.rawValue)
        queueClose(connection, code, reason)
        connection.updateInterest()
        loop.setDeadline(connection, loop.now.advanced(by: connection.owner.closeTime))
    }

    /// Closes and reads no further; only the peer's end is awaited.
    private func refuse(_ violation: WebSocketMachine.Violation, _ connection: ClientConnection) {
        switch violation {
        case .malformed(let error):
            if let limit = error.limit { metrics.reached(limit, connection.address) }
            refuse(error.closeCode, error.reason, connection)
        case .tooManyMessages:
            metrics.reached(.messages, connection.address)
            refuse(CloseCode(.tooManyMessages), ErrorCode.tooManyMessages.message, connection)
        case .tooManyControlFrames:
            metrics.reached(.controlFrames, connection.address)
            refuse(CloseCode(.tooManyControlFrames), ErrorCode.tooManyControlFrames.message, connection)
        }
    }

    private func refuse(_ code: CloseCode, _ reason: StaticString, _ connection: ClientConnection) {
        connection.leaveChannels()
        ended(connection, by: code.rawValue)
        queueClose(connection, code, reason)
        connection.finish()
    }

    private func queueClose(_ connection: ClientConnection, _ code: CloseCode?, _ reason: StaticString = "") {
        var writer = ByteWriter(capacity: 64)
        FrameWriter.appendClose(code, reason: reason, to: &writer)
        connection.queue(writer.finish())
    }

    /// No more messages are read, for any reason.
    func end(_ connection: ClientConnection) { if connection.webSocket?.end() == true { ended(connection, by: 1006) } }

    private func ended(_ connection: ClientConnection, by code: UInt16) {
        metrics.webSockets.add(-1)
        if connection.deflateWindow != nil { metrics.compression.connections.add(-1) }
        metrics.disconnected(code)
    }
}

extension CloseCode { init(_ code: ErrorCode) { self.init(rawValue: code.rawValue) } }

extension WebSocketError {
    fileprivate var limit: ReachedLimit? {
        switch self {
        case .messageTooBig: .messageBytes
        case .messagePadded: .messagePadding
        case .tooManyFragments: .messageFragments
        default: nil
        }
    }
}
