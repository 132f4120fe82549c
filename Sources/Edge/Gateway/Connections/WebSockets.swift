import Bytes
import Channels
import Clock
import Identity
import Metrics
import Pusher
import Reactor
import Sync
import WebSocket

/// The WebSockets of a loop: carries out what their machines say, gives the engine what clients say, and counts them.
final class WebSockets {
    private let loop: EventLoop
    private let takers: Takers
    private let identities: IdentityWatch
    let turns: ConnectionTurns
    private let settings: ConnectionSettings
    private let metrics: GatewayMetrics

    init(
        on loop: EventLoop, _ takers: Takers, _ identities: IdentityWatch, _ turns: ConnectionTurns,
        _ settings: ConnectionSettings, _ metrics: GatewayMetrics
    ) {
        self.loop = loop
        self.takers = takers
        self.identities = identities
        self.turns = turns
        self.settings = settings
        self.metrics = metrics
    }

    // MARK: Beginning

    /// The connection's upgrade is answered.
    ///
    /// - Parameters:
    ///   - bytes: what has still to be sent first, in the same block.
    ///   - early: what has come behind the request.
    func open(_ session: Session, behind bytes: consuming ByteWriter, _ early: [UInt8], _ connection: Connection) {
        begin(connection, session, early)
        connection.owner.hub.opened(session)
        FrameWriter.appendText(to: &bytes) {
            ServerEvent.connectionEstablished(session.socketID, activityTimeout: settings.activitySeconds, to: &$0)
        }
        connection.queue(bytes.finish())
        takers.tellStatus(connection)
        if let wait = session.authorizationTime { identities.watch(connection, after: wait) }
    }

    /// It is a WebSocket from here on; without a session where a responder has the engine's place, or it is closed at once.
    func begin(_ connection: Connection, _ session: Session? = nil, _ early: [UInt8] = []) {
        connection.upgraded(session, WebSocketMachine(at: loop.now, early: early))
        metrics.webSockets.add(1)
        if connection.deflateWindow != nil { metrics.compression.connections.add(1) }
        loop.setDeadline(connection, loop.now.advanced(byNanoseconds: settings.webSockets.activity))
    }

    // MARK: Messages

    /// Does what is to be done about `bytes`, from `start` on, in one turn; what is left is held.
    func read(_ bytes: UnsafeMutableRawBufferPointer, from start: Int = 0, _ connection: Connection) {
        var cursor = WebSocketMachine.Cursor(consumed: start, room: settings.limits.turnBytesMax)
        do throws(WebSocketMachine.Violation) {
            // Nearly always: nothing is held, and all that has come is texts.
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
        _ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout WebSocketMachine.Cursor, _ connection: Connection
    ) {
        let rules = settings.webSockets
        let compression = connection.deflateWindow == nil ? nil : takers.compression
        while let action = connection.webSocket?.next(
            bytes, &cursor, at: loop.now, rules, inflater: compression?.inflater)
        { perform(action, in: bytes, connection) }
        compression?.hasRead()
        let rest = UnsafeRawBufferPointer(rebasing: bytes[cursor.consumed...])
        if let look = connection.webSocket?.endInput(rest, at: loop.now, rules) { loop.setDeadline(connection, look) }
    }

    private func perform(
        _ action: WebSocketMachine.Action, in buffer: UnsafeMutableRawBufferPointer, _ connection: Connection
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
            // A client that is told to disconnect says so without a code or with 1000, and leaves as one that unsubscribes.
            // With 1001 browsers leave a page, which nearly always means that the next one connects; other codes are of
            // faults.
            connection.leaveChannels(mayReturn: code.map { $0 != .normal } ?? false)
            ended(connection, by: code?.rawValue ?? 1005)
            queueClose(connection, code)
            connection.finish()
        case .refuse(let violation): refuse(violation, connection)
        case .finish: connection.finish()
        case .drop: connection.drop()
        }
    }

    /// A text message has come.
    private func text(_ text: UnsafeRawBufferPointer, _ connection: Connection) {
        // Held once for all that follows.
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
            // What it has left may have been what its other streams waited for.
            if session.isBehind { takers.slowReaders.pull(connection) }
        } catch { owner.engage(connection) { $0.received(error, from: session, &$1) } }
    }

    /// An open connection has no session where a responder has taken the engine's place.
    private func respond(to payload: UnsafeRawBufferPointer, isText: Bool, _ connection: Connection) {
        guard let responder = settings.configuration.responder else { return }
        connection.send(frames: responder(payload, isText))
    }

    /// Nothing is read until a token has been verified.
    func pause(_ connection: Connection) {
        connection.webSocket?.pause()
        connection.updateInterest()
    }

    /// A token was verified that the connection waits for.
    ///
    /// - Parameter code: what it is closed with, whatever the result.
    func verified(_ result: Result<VerifiedToken, TokenRejection>, endedBy code: ErrorCode?, _ connection: Connection) {
        guard connection.awaitsToken, let session = connection.session else { return }
        if let code { return connection.cutOff(code) }
        guard connection.webSocket?.resume() == true else { return }
        connection.owner.engage(connection) { hub, effects in
            switch result {
            case .success(let token): hub.authenticated(session, as: Identity(token), &effects)
            case .failure(let rejection): hub.rejected(session, reason: rejection.message, &effects)
            }
        }
        // Before the next token is read, or a client could put off its end with one after the other.
        if connection.owesIdentityLook {
            connection.owesIdentityLook = false
            connection.owner.lookAtIdentity(of: connection)
        }
        connection.resume()
    }

    /// The store has answered an action of the connection.
    func acted(_ answer: ActionAnswer, _ connection: Connection) {
        guard let session = connection.session else { return }
        connection.owner.engage(connection) { $0.answered(answer, session, &$1) }
        if connection.webSocket?.state == .draining, session.actionsInFlight == 0 { goAway(connection) }
    }

    // MARK: Turns

    /// More has come than is looked at in one turn: 64 KiB from the kernel (`LoopBuffers.readRoom`), and
    /// `GatewayLimits.turnBytesMax` of what messages cost. It goes on when the loop's others have had their turns.
    private func awaitTurn(_ connection: Connection) {
        turns.wants(connection.sessionID)
        connection.updateInterest()
    }

    /// The turn has come.
    ///
    /// Worst interleavings, each with its test in `BurstTests` (of TLS in `TLSConnectionTests`); while a connection waits for
    /// its turn
    /// - its peer goes, or ends what it sends: the kernel's word is not taken before all that had come has been read;
    /// - a send to it breaks: what had come is looked at to its end, turn by turn, or to a sign-in that has to be verified
    ///   elsewhere; that may be in the middle of a frame; and what is to be sent is forgotten;
    /// - it is closed, terminated, or removed: what it waits with is not looked at, and the turn that comes finds nobody;
    /// - TLS has said that no more comes, so that its socket will never be readable again: the farewell follows the last turn;
    /// - all connections hold too much: what waits counts with what is not finished (`Holdings`).
    func turnCame(_ connection: Connection) {
        guard connection.webSocket?.turnCame(at: loop.now) == true else { return }
        if connection.transport.isBroken, connection.webSocket?.leftoverCount == 0 { return broken(connection) }
        connection.resume()
        guard connection.transport.isBroken, !connection.hasEnded else { return }
        guard connection.webSocket?.isOpen == true else { return connection.depart() }
        // All that could be looked at has been: the rest of what is left is in the kernel, or nowhere.
        if connection.webSocket?.awaitsTurn == false { broken(connection) }
    }

    /// The socket takes nothing any more. What the peer said before it went counts.
    func broken(_ connection: Connection) {
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

    /// A deadline has passed.
    func deadlineReached(_ connection: Connection) {
        let now = loop.now
        connection.transport.tls?.updateAllowance.settle(settings.webSockets.controlRate, at: now)
        guard let due = connection.webSocket?.due(at: now, settings.webSockets) else { return }
        switch due {
        case .wait: loop.setDeadline(connection, now.advanced(by: Connection.judgementPause))
        case .silent:
            metrics.reached(.pongTimeout, connection.address)
            connection.close(.pongTimeout)
        case .unfinished:
            metrics.reached(.messageTimeout, connection.address)
            refuse(.policyViolation, "message not finished in time", connection)
        case .look(let time), .ping(let time):
            // A client whose sign-in came to nothing asks for it on a new connection only (pusher-js says nothing and does not
            // try again), and would hear nothing of its channels for ever.
            if connection.webSocket?.isOpen == true, connection.session?.awaitsIdentity == true {
                return connection.close(.reconnect)
            }
            if case .ping = due { connection.queue(settings.pingFrame) }
            loop.setDeadline(connection, time)
        case .drained: goAway(connection)
        case .drop: connection.drop()
        }
    }

    /// The peer that was pinged has shown life; its next silence is measured from here.
    func alive(_ connection: Connection) {
        if let look = connection.webSocket?.nextLook(settings.webSockets) { loop.setDeadline(connection, look) }
    }

    // MARK: Ending

    /// The hub ends. A client that awaits answers to actions gets them first, if they come soon: a device that is told of a
    /// commit need not ask again.
    func hubEnds(_ connection: Connection) {
        guard connection.isEstablished else {
            return loop.setDeadline(connection, loop.now.advanced(by: connection.owner.closeTime))
        }
        guard let session = connection.session, session.actionsInFlight > 0 else { return goAway(connection) }
        connection.webSocket?.drain()
        connection.updateInterest()
        loop.setDeadline(connection, loop.now.advanced(by: settings.timeouts.drain))
    }

    /// The hub ends, and its clients shall come back in a second, when a successor may listen.
    ///
    /// By 1001, "server going down" (RFC 6455 §7.4.1). After 4200 pusher-js 8.6.0 comes back at once; where nobody listens
    /// yet, it waits for the end of the 15 seconds that it gives each attempt: 15.0 s for a restart that took 0.1 s. After
    /// any code below 4000 it comes after a second; after 4100 to 4199 too, but it tells its page of an error then. Other
    /// clients of Pusher's make no difference: pusher-websocket-java waits a second and pusher-websocket-swift none, both
    /// longer with each attempt; Pysher waits its own ten.
    private func goAway(_ connection: Connection) { close(connection, .goingAway, "the hub ends") }

    /// Sends our close frame and awaits the peer's (RFC 6455 §7.1.2).
    func close(_ connection: Connection, _ code: CloseCode, _ reason: StaticString) {
        guard connection.isEstablished else { return }
        connection.leaveChannels()
        guard connection.webSocket?.close() == true else { return }
        ended(connection, by: code.rawValue)
        queueClose(connection, code, reason)
        connection.updateInterest()
        loop.setDeadline(connection, loop.now.advanced(by: connection.owner.closeTime))
    }

    /// Closes, and reads no further; only the peer's end is awaited.
    private func refuse(_ violation: WebSocketMachine.Violation, _ connection: Connection) {
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

    private func refuse(_ code: CloseCode, _ reason: StaticString, _ connection: Connection) {
        connection.leaveChannels()
        ended(connection, by: code.rawValue)
        queueClose(connection, code, reason)
        connection.finish()
    }

    private func queueClose(_ connection: Connection, _ code: CloseCode?, _ reason: StaticString = "") {
        var writer = ByteWriter(capacity: 64)
        FrameWriter.appendClose(code, reason: reason, to: &writer)
        connection.queue(writer.finish())
    }

    /// Nothing more is read as messages, whatever for.
    func end(_ connection: Connection) { if connection.webSocket?.end() == true { ended(connection, by: 1006) } }

    /// The WebSocket is in use no more.
    private func ended(_ connection: Connection, by code: UInt16) {
        metrics.webSockets.add(-1)
        if connection.deflateWindow != nil { metrics.compression.connections.add(-1) }
        metrics.disconnected(code)
    }
}

extension CloseCode { init(_ code: ErrorCode) { self.init(rawValue: code.rawValue) } }

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
