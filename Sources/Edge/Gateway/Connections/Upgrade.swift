import Bytes
import Clock
import HTTP
import HubEngine
import Identity
import Metrics
import Pusher
import Reactor
import WebSocket

/// The way of a connection from HTTP to a WebSocket: `GET /app/{key}`, by a Pusher client (pusher.md §1.1).
struct Upgrade {
    private let conversation: HTTPConversation
    private let connection: ClientConnection

    /// A good upgrade that waits for its turn or its token: the prepared 101 response, and the app.
    struct Pending {
        let response: SharedBytes
        let app: App
    }

    init(of conversation: HTTPConversation, _ connection: ClientConnection) {
        (self.conversation, self.connection) = (conversation, connection)
    }

    private var owner: ClientLoop { connection.owner }

    /// The origin is checked first: a foreign page learns of no app.
    ///
    /// - Parameter time: when the client has its turn; nil: now.
    func begin(_ request: ParsedRequest, _ origin: UnsafeRawBufferPointer?, at time: Instant?) {
        let handshake: Handshake
        do { handshake = try Handshake(request) } catch {
            var writer = ByteWriter()
            Handshake.refuse(error, to: &writer)
            connection.queue(writer.finish())
            return connection.finish()
        }
        guard owner.settings.configuration.origins.allows(origin?.string) else {
            return answer(.problem(.forbidden, "This origin may not connect here."))
        }
        var response = ByteWriter(capacity: 400)
        if owner.compression != nil { connection.deflateWindow = handshake.deflate?.window }
        handshake.accept(
            subprotocol: ProtocolVersion.subprotocol, compresses: connection.deflateWindow != nil, to: &response)
        if owner.settings.configuration.responder != nil {
            connection.queue(response.finish())
            return owner.webSockets.begin(connection)
        }
        let version = request.query.flatMap { FormReader.rawValue("protocol", in: $0) }
        let complaint = ProtocolVersion.check(version)
        let key = request.path.part(5..<request.path.count)
        guard let app = owner.apps.table.app(key: key) else { return refuse(.unknownApp, after: response.finish()) }
        if let complaint { return refuse(complaint, after: response.finish()) }
        let token = app.ownsDatabase ? request.bearerToken : nil
        if let time {
            let pending = Pending(response: response.finish(), app: app)
            conversation.awaits(.turn(pending, token: token?.string), until: time, connection)
        } else if let token {
            let pending = Pending(response: response.finish(), app: app)
            conversation.awaits(.upgrade(pending), with: token.string, connection)
        } else if let code = owner.apps.refusal(of: app) {
            refuse(code, after: response.finish())
        } else {
            open(app, behind: response)
        }
    }

    /// The client's turn has come.
    func turnCame(_ pending: Pending, _ token: String?) {
        if let token { return conversation.awaits(.upgrade(pending), with: token, connection) }
        open(pending, endedBy: nil)
        connection.resume()
    }

    /// The token is verified: the connection opens as its user's, or not at all.
    func verified(
        _ result: Result<VerifiedToken, TokenRejection>, _ pending: Pending, endedBy code: ErrorCode?
    ) {
        switch result {
        case .failure(let rejection): answer(.problem(.unauthorized, rejection.message))
        case .success(let token):
            let identity = Identity(token)
            guard !owner.engine.identities.refuses(identity, of: pending.app) else {
                return answer(.problem(.unauthorized, TokenRejection.revoked.message))
            }
            guard let session = open(pending, endedBy: code) else { return }
            owner.engage(connection) { $0.authenticated(session, as: identity, &$1) }
            connection.resume()
        }
    }

    /// Opens the connection after a wait; nil where that is refused: the apps may have changed since the upgrade was read.
    @discardableResult private func open(_ pending: Pending, endedBy code: ErrorCode?) -> Session? {
        let app = owner.apps.table.app(index: pending.app.index)
        if let code = app == nil ? .unknownApp : code ?? app.flatMap(owner.apps.refusal(of:)) {
            refuse(code, after: pending.response)
            return nil
        }
        guard let app else { return nil }
        connection.queue(pending.response)
        return open(app, behind: ByteWriter())
    }

    @discardableResult private func open(_ app: App, behind response: consuming ByteWriter) -> Session {
        let session = Session(id: connection.sessionID, app: app, socketID: SocketID(random: .random(in: 0 ... .max)))
        let early = conversation.handOver()
        owner.metrics.arrivals.handshakes.record(owner.loop.now.nanoseconds &- conversation.startedAt.nanoseconds)
        owner.webSockets.open(session, behind: response, early, connection)
        return session
    }

    private func answer(_ response: HTTPResponse) {
        conversation.answer(response, keepsAlive: false, connection)
    }

    /// Upgrades only to close: Pusher's clients understand codes on a WebSocket, and no HTTP status.
    private func refuse(_ code: ErrorCode, after response: SharedBytes) {
        connection.queue(response)
        connection.queue(FrameWriter.frames(of: .error(code)))
        owner.webSockets.begin(connection)
        connection.close(code)
    }
}
