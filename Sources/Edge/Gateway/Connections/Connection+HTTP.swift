import Bytes
import Channels
import Clock
import HTTP
import Identity
import Metrics
import Pusher
import Reactor
import WebSocket

/// What a connection holds before its upgrade, and gives back after it.
final class HTTPConversation {
    var parser: RequestParser
    /// Who connected, whomever he speaks for.
    let peer: PeerAddress
    /// When the connection was accepted.
    let startedAt: Instant
    /// From when the time of the request runs: the first one's from the accept on or the end of the TLS handshake, a later
    /// one's from its first byte.
    var awaitedSince: Instant
    /// When the first bytes of an unfinished request came.
    var begunAt: Instant?
    // The small ones together, or they leave gaps (see the tests).
    /// Let in only to be told why not.
    let refusal: ConnectionCensus.Refusal?
    /// What the next request waits for, though it may have come. Nothing is read meanwhile.
    var rest = Rest.none
    /// The request being answered: whether another may follow, and whether it was a HEAD.
    var keepsAlive = true
    var omitsBody = false
    var hasAnswered = false
    /// `WriteQueue.sentCount` as it was when the reader of an answer was looked at last, and since when it has been that.
    var reading: PullProgress?
    private var asked = Asked.request(origin: nil)

    private enum Asked {
        case request(origin: [UInt8]?)
        case upgrade(PendingUpgrade)
    }

    /// An upgrade whose bearer token is being verified.
    var upgrade: PendingUpgrade? {
        get { if case .upgrade(let upgrade) = asked { upgrade } else { nil } }
        set { asked = newValue.map(Asked.upgrade) ?? .request(origin: nil) }
    }

    /// The field `Origin` of the request being answered; nil for an upgrade under way.
    var origin: [UInt8]? {
        get { if case .request(let origin) = asked { origin } else { nil } }
        set { asked = .request(origin: newValue) }
    }

    init(peer: PeerAddress, refusal: ConnectionCensus.Refusal?, limits: HTTPLimits, startedAt: Instant) {
        self.startedAt = startedAt
        awaitedSince = startedAt
        self.peer = peer
        self.refusal = refusal
        parser = RequestParser(limits: limits)
    }

    /// No further request is read; what is left is who reads the last answer.
    func endsHere() {
        rest = .none
        upgrade = nil
    }
}

/// Why requests that have been sent ahead wait. Valid transitions: none → answersUnsent → turnComing → none.
enum Rest {
    case none
    /// For the answers to be sent, all but a few.
    case answersUnsent
    /// For the loop's next turn.
    case turnComing
}

/// An upgrade found good but for its token: the 101 response, ready, and the app.
struct PendingUpgrade {
    let response: SharedBytes
    let app: App
}

extension Connection {
    /// Reads one request; zero where it is not all there.
    func readRequest(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        guard let conversation else { return bytes.count }
        do {
            guard let request = try conversation.parser.parse(bytes) else {
                if conversation.begunAt == nil { begun(conversation) }
                if conversation.parser.takeContinue() { queue(ConnectionSettings.continueResponse) }
                return 0
            }
            conversation.begunAt = nil
            let consumed = request.consumed
            conversation.omitsBody = request.method == .head
            route(request, conversation)
            return consumed
        } catch {
            owner.metrics.answered(error.status.code)
            switch error {
            case .headTooLarge, .tooManyFields, .targetTooLong: owner.metrics.reached(.headBytes, address)
            case .bodyTooLarge: owner.metrics.reached(.bodyBytes, address)
            default: break
            }
            var writer = ByteWriter()
            writer.append(
                refusal: error,
                saying: error == .bodyTooLarge ? "The body is larger than limits.bodyBytes of the hub allows." : nil)
            queue(writer.finish())
            finish()
            return bytes.count
        }
    }

    /// The first bytes of a request are here, and not all. Its time runs from here, unless it is the first; it is looked at
    /// when half of what a request has is over.
    private func begun(_ conversation: HTTPConversation) {
        let now = owner.loop.now
        conversation.begunAt = now
        if conversation.hasAnswered { conversation.awaitedSince = now }
        let dueAt = conversation.awaitedSince.advanced(by: owner.settings.timeouts.handshake)
        owner.loop.setDeadline(self, min(dueAt, now.advanced(by: owner.settings.timeouts.handshake / 2)))
    }

    /// Whether an answer is on its way, to who takes some of it now and then: a long one is not cut off for his being slow. He
    /// is looked at again.
    func awaitsReader() -> Bool {
        guard let conversation, !owner.isStopping else { return false }
        let now = owner.loop.now
        guard hasUnsent else {
            // What he was slow with has gone out since the last look: the next request has its time.
            guard conversation.reading != nil, phase == .http else { return false }
            conversation.reading = nil
            owner.loop.setDeadline(self, now.advanced(by: owner.settings.timeouts.keepAlive))
            return true
        }
        let seen = PullProgress(self, at: now)
        if conversation.reading.map(seen.isBeyond) ?? true { conversation.reading = seen }
        guard let since = conversation.reading?.since, now.duration(since: since) < owner.settings.timeouts.stalled
        else {
            owner.metrics.overloaded(.stalled, address)
            return false
        }
        let end = since.advanced(by: owner.settings.timeouts.stalled)
        owner.loop.setDeadline(self, min(end, now.advanced(by: max(owner.settings.timeouts.close, .milliseconds(1)))))
        return true
    }

    /// The request's time is over, or it is time to see whether it comes fast enough.
    func requestOverdue() {
        if conversation?.begunAt == nil, awaitsReader() { return }
        guard let conversation, !conversation.parser.isIdle, let begunAt = conversation.begunAt else {
            if conversation?.hasAnswered == false { owner.metrics.reached(.handshakeTimeout, address) }
            return drop()
        }
        let now = owner.loop.now
        let dueAt = conversation.awaitedSince.advanced(by: owner.settings.timeouts.handshake)
        if now < dueAt {
            var earned = dueAt
            let least = owner.settings.limits.requestBytesPerSecondMin
            if least > 0 {
                let bytes = Duration.nanoseconds(Int64(leftover.count) * 1_000_000_000 / Int64(least))
                earned = min(earned, begunAt.advanced(by: owner.settings.timeouts.handshake / 2 + bytes))
            }
            if earned > now { return owner.loop.setDeadline(self, earned) }
            owner.metrics.reached(.requestRate, address)
        } else {
            owner.metrics.reached(.handshakeTimeout, address)
        }
        answer(.problem(.requestTimeout, "The request did not come in time."), keepsAlive: false)
    }

    // MARK: Requests sent ahead of their answers

    /// Whether so much of answers is unsent that no further request is begun. One that has been begun is read to its end, or
    /// its time would be over without its client's doing.
    func hasAnswersToSend(_ conversation: HTTPConversation) -> Bool {
        output.byteCount > owner.settings.limits.answerBytesMax && conversation.begunAt == nil
    }

    /// Whether the next request has to wait, which comes after so many of this turn: a client may send many ahead, and hold
    /// up neither its loop nor its own answers. They come in one piece, in many, or while an answer is awaited: each is
    /// asked about.
    func rests(_ conversation: HTTPConversation, after requests: Int) -> Bool {
        guard requests > 0 && requests >= owner.settings.limits.requestsPerTurnMax || hasAnswersToSend(conversation)
        else {
            return false
        }
        owner.metrics.reached(.pipelining, address)
        conversation.rest = .answersUnsent
        // There are answers to be sent, so the tick's end comes by.
        updateInterest()
        return true
    }

    /// What could be sent has been.
    func restMayEnd(_ conversation: HTTPConversation) {
        guard output.byteCount <= owner.settings.limits.answerBytesMax else { return }
        conversation.rest = .turnComing
        owner.turns.wants(sessionID)
    }

    /// The connection's turn has come again.
    func goOn() {
        if turn != .none { return turnCame() }
        guard phase == .http, let conversation, conversation.rest == .turnComing else { return }
        conversation.rest = .none
        resume()
    }

    /// The answer to the request did not come in time.
    func answerOverdue() {
        let response = HTTPResponse.problem(.serviceUnavailable, "The hub could not answer in time.")
        answer(shared(response.retrying(after: .seconds(1))), keepsAlive: false)
    }

    /// An answer that no route has given, as the page may read it that asks: a browser shows no other, not even its status.
    private func shared(_ response: HTTPResponse) -> HTTPResponse {
        guard let origin = conversation?.origin else { return response }
        return owner.settings.configuration.origins.shared(response, with: String(decoding: origin, as: UTF8.self))
    }

    private func route(_ request: Request, _ conversation: HTTPConversation) {
        conversation.origin = request.field("origin").map { Array($0) }
        if let refusal = conversation.refusal { return answer(refusal) }
        switch move(of: request, behind: conversation.peer) {
        case .taken: break
        case .refused(let refusal): return answer(refusal)
        case .ended(let refusal):
            answer(refusal)
            return endNow()
        }
        if request.path.hasPrefix("/app/") { return upgrade(request, conversation) }
        conversation.keepsAlive = request.keepsAlive
        phase = .awaitingAnswer
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.answer))
        let exchange = HTTPExchange(mailbox: owner.mailbox, connection: sessionID, store: owner.hubContext.store)
        if let response = owner.hubContext.routes.respond(to: HTTPRequest(request), exchange, channels: owner.directory)
        {
            answer(response, keepsAlive: conversation.keepsAlive)
        } else {
            updateInterest()
        }
    }

    /// Whose request a trusted peer sends, and whether that client may.
    private func move(of request: Request, behind peer: PeerAddress) -> ConnectionCensus.Move {
        guard owner.settings.hasTrustedPeers, owner.settings.trustedPeers.contains(peer) else { return .taken }
        return moved(
            to: owner.settings.trustedPeers.client(of: request, from: peer), begins: request.path.hasPrefix("/app/"))
    }

    private func answer(_ refusal: ConnectionCensus.Refusal) {
        let response = HTTPResponse.problem(refusal.status, refusal.message)
        answer(shared(response.retrying(after: .seconds(10))), keepsAlive: false)
    }

    /// A route has answered later.
    func answered(_ response: HTTPResponse) {
        guard phase == .awaitingAnswer, let conversation, conversation.upgrade == nil else { return }
        answer(response, keepsAlive: conversation.keepsAlive)
        if phase == .http { resume() }
    }

    func answer(_ given: HTTPResponse, keepsAlive: Bool) {
        guard let conversation else { return drop() }
        let response = fits(given) ? given : shared(.tooLong)
        owner.metrics.answered(response.status.code)
        if let limit = response.limit { owner.metrics.reached(limit, address) }
        let keepsAlive = keepsAlive && !owner.isStopping
        var writer = ByteWriter(capacity: response.body.count + 256)
        response.body.withUnsafeBytes { body in
            writer.append(
                response: response.status, contentType: response.contentType, keepsAlive: keepsAlive,
                omitsBody: conversation.omitsBody, body: body
            ) { writer in
                for field in response.fields { writer.append(field: field.name, field.value) }
            }
        }
        queue(writer.finish())
        guard keepsAlive else { return finish() }
        conversation.hasAnswered = true
        phase = .http
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.keepAlive))
    }

    /// Whether the loop may hold the answer beside what is unsent: it would be dropped at once with its connection.
    private func fits(_ response: HTTPResponse) -> Bool {
        let head = response.fields.reduce(HTTPResponse.headBytesMax) { $0 + $1.value.utf8.count }
        return output.byteCount + response.body.count + head <= owner.holdings.queued.bytesMax
    }

    // MARK: The upgrade

    /// `GET /app/{key}`: a Pusher client (pusher.md §1.1). Origin before app: a foreign page learns nothing.
    private func upgrade(_ request: Request, _ conversation: HTTPConversation) {
        let owner = owner
        let handshake: Handshake
        do {
            handshake = try Handshake(request)
        } catch {
            var writer = ByteWriter()
            Handshake.refuse(error, to: &writer)
            queue(writer.finish())
            return finish()
        }
        guard owner.settings.configuration.origins.allows(request.field("origin")?.string) else {
            return answer(.problem(.forbidden, "This origin may not connect here."), keepsAlive: false)
        }
        var response = ByteWriter(capacity: 400)
        if owner.compression != nil { deflateWindow = handshake.deflate?.window }
        handshake.accept(
            subprotocol: ProtocolVersion.subprotocol, compresses: deflateWindow != nil, to: &response)
        if owner.settings.configuration.responder != nil {
            queue(response.finish())
            return openWithoutSession()
        }
        let version = request.query.flatMap { FormReader.rawValue("protocol", in: $0) }
        let complaint = ProtocolVersion.check(version, isStrict: owner.settings.configuration.requiresProtocolVersion)
        let key = request.path.part(5..<request.path.count)
        guard let app = owner.apps.table.app(key: key) else { return refuse(.unknownApp, after: response.finish()) }
        if let complaint { return refuse(complaint, after: response.finish()) }
        guard let token = request.bearerToken, app.ownsDatabase else {
            if let code = owner.apps.refusal(of: app) { return refuse(code, after: response.finish()) }
            return open(newSession(app), behind: response)
        }
        conversation.upgrade = PendingUpgrade(response: response.finish(), app: app)
        phase = .awaitingAnswer
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.handshake))
        updateInterest()
        owner.identities.verify(token.string, for: sessionID)
    }

    /// The token of the upgrade was verified: the connection opens as its user's, or not at all.
    func upgradeVerified(_ result: Result<VerifiedToken, TokenRejection>, endedBy code: ErrorCode?) {
        guard let upgrade = conversation?.upgrade else { return }
        switch result {
        case .failure(let rejection):
            answer(.problem(.unauthorized, rejection.message), keepsAlive: false)
        case .success(let token):
            let identity = Identity(token)
            // Revoked since the token was verified.
            guard !owner.hub.refuses(identity, of: upgrade.app) else {
                return answer(.problem(.unauthorized, TokenRejection.revoked.message), keepsAlive: false)
            }
            // Others may be served since the upgrade was read.
            let app = owner.apps.table.app(index: upgrade.app.index)
            guard let app else { return refuse(.unknownApp, after: upgrade.response) }
            if let code = code ?? owner.apps.refusal(of: app) { return refuse(code, after: upgrade.response) }
            queue(upgrade.response)
            let session = newSession(app)
            open(session, behind: ByteWriter())
            owner.engage(self) { $0.authenticated(session, as: identity, &$1) }
            resume()
        }
    }

    /// Upgrades only to close: Pusher's clients understand codes on a WebSocket, and no HTTP status.
    private func refuse(_ code: ErrorCode, after response: SharedBytes) {
        queue(response)
        queue(ServerEvent.errorFrame(code))
        countIn()
        endConversation()
        phase = .open
        close(code)
    }

    private func newSession(_ app: App) -> Session {
        var random = SystemRandomNumberGenerator()
        return Session(id: sessionID, app: app, socketID: SocketID(random: random.next()))
    }
}

extension ConnectionCensus.Refusal {
    fileprivate var status: Status {
        switch self {
        case .hubFull: .serviceUnavailable
        case .addressFull, .addressFast: .tooManyRequests
        }
    }

    fileprivate var message: StaticString {
        switch self {
        case .hubFull: "This hub has as many connections as it may have."
        case .addressFull: "This address has as many connections as it may have."
        case .addressFast: "This address connects more often than it may."
        }
    }
}

extension HTTPRequest {
    fileprivate init(_ request: Request) {
        method = request.method
        path = request.path.string
        query = request.query.map { Array($0) } ?? []
        origin = request.field("origin")?.string
        requestedHeaders = request.field("access-control-request-headers").map { Array($0) }
        bearerToken = request.bearerToken?.string
        idempotencyKey = request.field("idempotency-key").map { Array($0) }
        ifNoneMatch = request.field("if-none-match").map { Array($0) }
        contentType = request.field("content-type")?.string
        body = Array(request.body)
    }
}
