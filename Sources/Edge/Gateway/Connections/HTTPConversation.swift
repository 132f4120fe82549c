import Bytes
import Clock
import HTTP
import HubEngine
import Identity
import Metrics
import Pusher
import Reactor
import Store
import WebSocket

/// What a connection holds before its upgrade and frees after it: joins the HTTP machine to the hub's routes.
final class HTTPConversation {
    // In an order without gaps (tested).
    private(set) var machine: HTTPMachine
    /// Let in only to be told why not.
    private let refusal: AdmissionControl.Refusal?
    /// The peer that connected, whatever client it speaks for.
    private let peer: PeerAddress
    let startedAt: Instant
    var asked = Asked.request(origin: nil)
    /// The last observation of an answer's reader.
    private var reading = PullProgress.none

    /// What the client has asked for, and waits for.
    enum Asked {
        /// The field `Origin` of the request being answered.
        case request(origin: [UInt8]?)
        case upgrade(Upgrade.Pending)
        /// The client connects often: it has not begun, or its upgrade waits for its turn, with a token to verify then.
        /// Boxed: the conversation stays small.
        indirect case turn(Upgrade.Pending?, token: String?)
        case body(StreamedBody)
        case events(PendingEventStream)
        /// The request does not say who sends it, and waits for the turn of its address.
        indirect case stranger(HTTPRequest)
        /// It came too often: it is told so when its pause is over.
        case tooOften(origin: [UInt8]?)
    }

    init(peer: PeerAddress, _ refusal: AdmissionControl.Refusal?, _ owner: ClientLoop) {
        startedAt = owner.loop.now
        self.peer = peer
        self.refusal = refusal
        machine = HTTPMachine(limits: owner.settings.configuration.httpLimits, at: startedAt)
    }

    private var upgrade: Upgrade.Pending? { if case .upgrade(let upgrade) = asked { upgrade } else { nil } }

    /// The app of a client whose token is being verified.
    var awaitingApp: App? { upgrade?.app ?? pendingEvents?.app }

    private var pendingEvents: PendingEventStream? { if case .events(let pending) = asked { pending } else { nil } }

    /// The field `Origin` of the request being answered.
    var origin: [UInt8]? { asked.origin }

    /// Whether it waits for its client's turn.
    var awaitsBeginning: Bool { if case .turn = asked { true } else { false } }

    private var body: StreamedBody? { if case .body(let body) = asked { body } else { nil } }

    var heldCount: Int { machine.heldCount }

    func reads(_ connection: ClientConnection) -> Bool {
        !awaitsBeginning && machine.reads(unsent: connection.transport.output.byteCount, connection.owner.settings.http)
    }

    /// Whether a request has still to be answered.
    var isWaited: Bool {
        switch machine.state {
        case .answering, .upgrading, .resting: true
        case .reading, .over: false
        }
    }

    /// Its address connects often: nothing is read before that time.
    func begins(at time: Instant, _ connection: ClientConnection) {
        asked = .turn(nil, token: nil)
        connection.owner.loop.setDeadline(connection, time)
    }

    /// The client's turn has come.
    func begin(_ connection: ClientConnection) {
        guard case .turn(let pending, let token) = asked else { return }
        asked = .request(origin: nil)
        guard let pending else {
            machine.begins(at: connection.owner.loop.now)
            return connection.begin()
        }
        Upgrade(of: self, connection).turnCame(pending, token)
    }

    /// The TLS handshake is complete: the first request's time begins now.
    func secured(at now: Instant) { machine.begins(at: now) }

    /// No further request is read; the last answer may still be sent.
    func endsHere() {
        machine.end()
        asked = .request(origin: nil)
    }

    // MARK: Requests

    /// Answers what one turn allows of what was held and came after it. `received` lies in the loop's buffer: nothing that
    /// follows from a request reads from another connection.
    func read(_ received: UnsafeMutableRawBufferPointer, _ connection: ClientConnection) {
        guard machine.heldCount > 0 else {
            // Nearly always: handled in place.
            let consumed = take(received, connection)
            if consumed < received.count { machine.keep(UnsafeRawBufferPointer(rebasing: received[consumed...])) }
            return
        }
        var bytes = machine.input(UnsafeRawBufferPointer(received))
        let consumed = bytes.withUnsafeMutableBytes { take($0, connection) }
        machine.keep(bytes, from: consumed)
    }

    /// Returns how far it came.
    private func take(_ bytes: UnsafeMutableRawBufferPointer, _ connection: ClientConnection) -> Int {
        let owner = connection.owner
        var cursor = HTTPMachine.Cursor()
        requests: while let action = machine.next(
            bytes, &cursor, unsent: connection.transport.output.byteCount, at: owner.loop.now, owner.settings.http)
        {
            switch action {
            case .request(let request): route(request, connection)
            case .refuse(let error): refuse(error, connection)
            case .rest:
                owner.metrics.reached(.pipelining, connection.address)
                // There are answers to send, so the end of the tick comes by here.
                connection.updateInterest()
            case .wait(let sendsContinue, let look):
                if sendsContinue { connection.queue(ConnectionSettings.continueResponse) }
                if let look { owner.loop.setDeadline(connection, look) }
                break requests
            }
        }
        guard cursor.consumed < bytes.count, connection.webSocket != nil else { return cursor.consumed }
        owner.webSockets.read(bytes, from: cursor.consumed, connection)
        return bytes.count
    }

    func sent(_ connection: ClientConnection) {
        if machine.sent(unsent: connection.transport.output.byteCount, connection.owner.settings.http) {
            connection.owner.turns.wants(connection.sessionID)
        }
        body?.pull(connection)
    }

    func turnCame(_ connection: ClientConnection) { if machine.turnCame() { connection.resume() } }

    private func route(_ request: ParsedRequest, _ connection: ClientConnection) {
        let owner = connection.owner
        let origin = request.field("origin")
        asked = .request(origin: origin.map { Array($0) })
        if let refusal { return answer(refusal, connection) }
        let isUpgrade = request.path.hasPrefix("/app/") && !request.path.endsInEvents
        var time: Instant?
        // For which client a trusted peer sends it, and whether that client is allowed.
        if owner.settings.hasTrustedPeers, owner.settings.trustedPeers.contains(peer) {
            let client = owner.settings.trustedPeers.client(of: request, from: peer)
            switch move(connection, to: client, begins: isUpgrade) {
            case .taken: break
            case .waits(let until):
                owner.metrics.arrivals.delayed.add()
                time = until
            case .refused(let refusal): return answer(refusal, connection)
            case .ended(let refusal):
                answer(refusal, connection)
                // Sends what the socket takes at once: a proxy might take silence for a fault, and send nobody for a while.
                connection.flush()
                return connection.drop()
            }
        }
        if isUpgrade { return Upgrade(of: self, connection).begin(request, origin, at: time) }
        machine.expectsMore(request.keepsAlive)
        RequestTurn(of: self, connection).begin(request)
    }

    /// A trusted peer has named its client: counts the connection for that client from now on, unless a bound forbids it.
    ///
    /// - Parameter begins: whether the client begins a connection with this.
    private func move(_ connection: ClientConnection, to client: PeerAddress, begins: Bool) -> AdmissionControl.Move {
        let owner = connection.owner
        guard begins || client.network != connection.address.network else { return .taken }
        let move = owner.hubContext.admission.moved(
            from: connection.address, to: client, at: owner.loop.now, begins: begins)
        switch move {
        case .taken, .waits: connection.counts(as: client, wasRefused: false)
        case .refused(let refusal):
            connection.counts(as: client, wasRefused: true)
            owner.metrics.refused(refusal, client)
        case .ended(let refusal): owner.metrics.refused(refusal, client)
        }
        return move
    }

    // MARK: Time

    func deadlineReached(_ connection: ClientConnection) {
        let owner = connection.owner
        if body != nil { return awaitsReader(connection) ? () : connection.drop() }
        if case .tooOften = asked { return RequestTurn(of: self, connection).pauseEnded() }
        switch machine.due(at: owner.loop.now, owner.settings.http) {
        case .look(let time): owner.loop.setDeadline(connection, time)
        case .unanswered:
            let response = HTTPResponse.problem(.serviceUnavailable, "The hub could not answer in time.")
            answer(shared(response.retrying(after: .seconds(1)), owner), keepsAlive: false, connection)
        case .idle(let isFirst):
            if awaitsReader(connection) { return }
            if isFirst { owner.metrics.reached(.handshakeTimeout, connection.address) }
            connection.drop()
        case .late(let isTooSlow):
            owner.metrics.reached(isTooSlow ? .requestRate : .handshakeTimeout, connection.address)
            answer(.problem(.requestTimeout, "The request did not come in time."), keepsAlive: false, connection)
        }
    }

    /// Whether an answer is being sent to a reader that takes some of it now and then. If so, it is looked at again.
    func awaitsReader(_ connection: ClientConnection) -> Bool {
        let owner = connection.owner
        guard !owner.isStopping else { return false }
        let now = owner.loop.now
        guard connection.transport.hasUnsent else {
            // A slow reader has taken the rest since the last look: the next request gets its full time.
            guard !reading.isNone, connection.transport.state == .open else { return false }
            reading = .none
            owner.loop.setDeadline(connection, now.advanced(by: owner.settings.timeouts.keepAlive))
            return true
        }
        let seen = PullProgress(connection.transport, at: now)
        if reading.isNone || seen.isBeyond(reading) { reading = seen }
        guard now.duration(since: reading.since) < owner.settings.timeouts.stalled else {
            owner.metrics.overloaded(.stalled, connection.address)
            return false
        }
        let end = reading.since.advanced(by: owner.settings.timeouts.stalled)
        owner.loop.setDeadline(
            connection, min(end, now.advanced(by: max(owner.settings.timeouts.close, .milliseconds(1)))))
        return true
    }

    /// Whether a request was answered, and no other has begun.
    var isBetweenRequests: Bool { machine.isBetweenRequests }
    var isSilent: Bool { machine.isFresh && !awaitsBeginning }

    /// The hub ends: a client that awaits an answer gets it, if it comes soon.
    func hubEnds(_ connection: ClientConnection) {
        let owner = connection.owner
        guard case .answering = machine.state else { return connection.finish() }
        owner.loop.setDeadline(connection, owner.loop.now.advanced(by: owner.settings.timeouts.drain))
    }

    // MARK: Answers

    func answered(_ response: HTTPResponse, _ connection: ClientConnection) {
        guard case .answering(let answering) = machine.state else { return }
        if let export = response.export {
            StreamedBody.begin(response, export.contentType, answering, connection)
            // A HEAD has its whole answer.
            if answering.omitsBody { return bodyEnded(connection) }
            asked = .body(StreamedBody(export.source))
            body?.pull(connection)
            return
        }
        answer(response, connection)
        if case .reading = machine.state { connection.resume() }
    }

    func answer(_ given: HTTPResponse, keepsAlive: Bool = true, _ connection: ClientConnection) {
        let owner = connection.owner
        guard RequestTurn(of: self, connection).allows(given) else { return }
        if let order = given.events { return owner.eventStreams.begin(order, given, connection) }
        guard let answering = machine.answer(keepsAlive: keepsAlive && !owner.isLeaving) else {
            return connection.drop()
        }
        // Not one variable for both: an answer is not copied.
        fits(given, connection)
            ? write(given, answering, connection) : write(shared(.tooLong, owner), answering, connection)
        answered(answering, connection)
    }

    private func write(
        _ response: borrowing HTTPResponse, _ answering: HTTPMachine.Answering, _ connection: ClientConnection
    ) {
        connection.owner.metrics.answered(response.status.code)
        if let limit = response.limit { connection.owner.metrics.reached(limit, connection.address) }
        connection.queue(response.written(answering))
    }

    private func answered(_ answering: HTTPMachine.Answering, _ connection: ClientConnection) {
        let owner = connection.owner
        guard answering.keepsAlive else { return connection.finish() }
        owner.loop.setDeadline(connection, owner.loop.now.advanced(by: owner.settings.timeouts.keepAlive))
    }

    /// A piece of the body that is being sent has come.
    func came(_ piece: ExportPiece, _ connection: ClientConnection) {
        if body?.came(piece, connection) == true { bodyEnded(connection) }
    }

    /// The body is complete: continues with what follows the request.
    private func bodyEnded(_ connection: ClientConnection) {
        asked = .request(origin: nil)
        guard let answering = machine.answer(keepsAlive: !connection.owner.isLeaving) else { return connection.drop() }
        answered(answering, connection)
        if case .reading = machine.state { connection.resume() }
    }

    private func answer(_ refusal: AdmissionControl.Refusal, _ connection: ClientConnection) {
        let response = HTTPResponse.problem(refusal.status, refusal.message)
        answer(shared(response.retrying(after: .seconds(10)), connection.owner), keepsAlive: false, connection)
    }

    /// The input cannot be a request, or is too large for one.
    private func refuse(_ error: HTTPError, _ connection: ClientConnection) {
        let metrics = connection.owner.metrics
        metrics.answered(error.status.code)
        switch error {
        case .headTooLarge, .tooManyFields, .targetTooLong: metrics.reached(.headBytes, connection.address)
        case .bodyTooLarge: metrics.reached(.bodyBytes, connection.address)
        default: break
        }
        var writer = ByteWriter()
        writer.append(
            refusal: error, saying: error == .bodyTooLarge ? "The body is larger than this hub allows." : nil)
        connection.queue(writer.finish())
        connection.finish()
    }

    /// All connections together hold too much, and this one's request is among the largest.
    func refuseUnfinished(_ connection: ClientConnection) {
        switch machine.state {
        case .answering, .upgrading, .over: connection.drop()
        case .reading, .resting:
            _ = machine.takeHeld()
            let response = HTTPResponse.problem(.serviceUnavailable, "The hub has no room for this request now.")
            answer(response.retrying(after: .seconds(10)), keepsAlive: false, connection)
        }
    }

    /// Lets the asking page read an answer that no route gave. Otherwise a browser hides it, even its status.
    func shared(_ response: HTTPResponse, _ owner: ClientLoop) -> HTTPResponse {
        guard let origin else { return response }
        return owner.settings.configuration.origins.shared(response, with: String(decoding: origin, as: UTF8.self))
    }

    /// Whether the loop may hold the answer beside what is unsent. If not, the connection would be closed at once.
    private func fits(_ response: HTTPResponse, _ connection: ClientConnection) -> Bool {
        connection.transport.output.byteCount + response.bytesMax <= connection.owner.budget.queued.bytesMax
    }

    // MARK: Tokens and turns

    /// The client waits for its turn, or for its token to be verified. Nothing is read meanwhile.
    func awaits(_ asked: Asked, until deadline: Instant, _ connection: ClientConnection) {
        self.asked = asked
        machine.upgrades()
        connection.owner.loop.setDeadline(connection, deadline)
        connection.updateInterest()
    }

    /// Has the token verified, within the time of a handshake.
    func awaits(_ asked: Asked, with token: String, _ connection: ClientConnection) {
        let owner = connection.owner
        awaits(asked, until: owner.loop.now.advanced(by: owner.settings.timeouts.handshake), connection)
        owner.identities.verify(token, for: connection.sessionID)
    }

    /// The token that it waited for is verified.
    ///
    /// - Parameter code: the user's connections were closed meanwhile.
    func verified(
        _ result: Result<VerifiedToken, TokenRejection>, endedBy code: ErrorCode?, _ connection: ClientConnection
    ) {
        if let pending = takeEvents() {
            connection.owner.eventStreams.verified(result, pending, endedBy: code, connection)
        } else if let upgrade {
            Upgrade(of: self, connection).verified(result, upgrade, endedBy: code)
        }
    }

    /// The request for an event stream; nil where the deadline has answered.
    private func takeEvents() -> PendingEventStream? {
        guard let pending = pendingEvents, machine.state == .upgrading else { return nil }
        asked = .request(origin: pending.origin)
        return pending
    }

    /// The connection is a WebSocket from now on: returns what came after the request.
    func handOver() -> [UInt8] {
        defer { machine.end() }
        return machine.takeHeld()
    }

    /// Refuses an event stream.
    func refuse(_ response: HTTPResponse, _ connection: ClientConnection) {
        answer(shared(response, connection.owner), keepsAlive: false, connection)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether the path is that of an app's event stream, `/app/{key}/events`. An app's key may be `events`.
    fileprivate var endsInEvents: Bool { count > 12 && part(count - 7..<count).equals("/events") }
}
