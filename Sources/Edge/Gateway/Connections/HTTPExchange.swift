import Bytes
import Clock
import HTTP
import HubEngine
import JSON
import Reactor
import Store
import Sync

/// One HTTP request, owned: it outlives the buffer it was read from.
package struct HTTPRequest: Sendable {
    /// The method, such as GET.
    package let method: Method
    /// Not percent-decoded.
    package let path: String
    /// Not percent-decoded; empty where there is none.
    package let query: [UInt8]
    /// The field `Origin`; nil where there is none.
    package let origin: String?
    /// The field `Access-Control-Request-Headers` of a preflight, as it came.
    package let requestedHeaders: [UInt8]?
    /// The credentials of `Authorization: Bearer`.
    package let bearerToken: String?
    /// The field `Idempotency-Key`, as it came.
    package let idempotencyKey: [UInt8]?
    /// The field `If-None-Match`, as it came.
    package let ifNoneMatch: [UInt8]?
    /// The field `Last-Event-ID`; nil where there is none.
    package let lastEventID: String?
    /// The field `Content-Type`; nil where there is none.
    package let contentType: String?
    /// Whether the client understands chunked bodies: HTTP/1.1.
    package let takesChunks: Bool
    /// Whether a client of this machine sends it, to this machine by a name that is no other's: not by another host's page
    /// whose name leads here.
    package let isLocal: Bool
    /// Whether the origin is that of the host itself.
    package let isOfOwnOrigin: Bool
    /// The whole body; empty where there is none.
    package let body: [UInt8]
}

/// The answer to an HTTP request.
package struct HTTPResponse: Sendable {
    /// The status line's code and phrase.
    package var status: Status
    /// The field `Content-Type` of a body.
    package var contentType: StaticString
    /// The whole body, unless `export` sends it.
    package var body: [UInt8]
    /// Fields beside those that every answer has.
    package var fields: [(name: StaticString, value: String)]
    /// The limit that the request has reached, to be counted.
    package var limit: ReachedLimit?
    /// Whether it was made without knowing who asks. Such answers are counted for the address.
    package var isForStrangers = false
    /// The source and type of a body that is sent piece by piece.
    package var export: (source: Export, contentType: String)?
    /// An event stream, in place of a body.
    package var events: EventStreamRequest?

    /// An answer with a whole body.
    package init(
        _ status: Status, contentType: StaticString = "application/json", body: [UInt8] = [],
        fields: [(name: StaticString, value: String)] = []
    ) {
        self.status = status
        self.contentType = contentType
        self.body = body
        self.fields = fields
    }

    /// An answer that is an event stream.
    package init(_ events: EventStreamRequest) {
        self.init(.ok, contentType: "text/event-stream")
        self.events = events
    }

    /// The answer with a `Retry-After` in whole seconds, rounded up, at least one (RFC 9110 §10.2.3).
    package func retrying(after wait: Duration) -> HTTPResponse {
        var response = self
        response.fields.append(("Retry-After", String(max(1, wait.secondsRoundedUp))))
        return response
    }
}

/// Where a route sends an answer that it cannot give at once. The connection reads nothing until then. If it is gone by
/// then, the answer is dropped.
package struct HTTPExchange: Sendable {
    let mailbox: Mailbox<LoopMessage>
    let connection: SessionID
    let store: Store?

    /// Has the user's action applied. Any thread; `answer` is called once, on any thread.
    ///
    /// - Parameter isByApp: whether the app's backend sends it, with its signature.
    package func act(
        _ envelope: ActionEnvelope, as user: String, isByApp: Bool,
        _ answer: @escaping @Sendable (ActionAnswer) -> Void
    ) {
        guard let store else { return answer(.withoutStore(envelope)) }
        store.submit(ActionRequest(user: user, isByApp: isByApp, envelope: envelope, answer: answer))
    }

    /// Has the user's actions applied, one after the other. After one that is to be sent again none is begun, for it may
    /// follow from that one. Any thread; `answer` is called once, on any thread, with an answer for each.
    package func act(
        _ envelopes: [ActionEnvelope], as user: String, isByApp: Bool,
        _ answer: @escaping @Sendable ([ActionAnswer]) -> Void
    ) {
        guard let store else { return answer(envelopes.map { .withoutStore($0) }) }
        store.submit(envelopes, of: user, isByApp: isByApp, answer)
    }

    /// Reads a snapshot of the user's. Any thread; `answer` is called once, on any thread.
    package func query(
        _ function: SnapshotFunction, _ arguments: [String?], of user: String,
        _ answer: @escaping @Sendable (SnapshotAnswer) -> Void
    ) {
        guard let store else { return answer(.unavailable(after: .seconds(60))) }
        store.ask(SnapshotRequest(user: user, function, arguments, answer: answer))
    }

    /// Appends documents of the user's, later. Any thread; `answer` is called once, on any thread: whether they were taken.
    package func append(
        _ documents: [[UInt8]], to function: AppendFunction, of user: String,
        _ answer: @escaping @Sendable (AppendAnswer) -> Void
    ) {
        guard let store else { return answer(.noRoom) }
        store.append(AppendRequest(user: user, function, documents, answer: answer))
    }

    /// Begins an export of the user's; its pieces go to the connection. Any thread; `answer` is called once, on any thread.
    /// `ended` is told whether the export is whole, unless the client goes before.
    package func export(
        _ function: ExportFunction, _ arguments: [String?], of user: String,
        ended: @escaping @Sendable (Bool) -> Void, _ answer: @escaping @Sendable (ExportAnswer) -> Void
    ) {
        guard let store else { return answer(.unavailable(after: .seconds(60))) }
        store.export(
            ExportRequest(user: user, function, arguments, answer: answer) { [mailbox, connection] piece in
                switch piece {
                case .bytes: break
                case .end: ended(true)
                case .broken: ended(false)
                }
                mailbox.post(.answer(connection, .piece(piece)))
            })
    }

    /// Goes on with the request on its loop: what came before took time. Any thread.
    package func goOn(_ body: @escaping @Sendable (any ChannelDirectory) -> Void) {
        mailbox.post(.ask { body(LoopDirectory(own: $0)) })
    }

    /// Answers. Any thread, once.
    package func respond(_ response: HTTPResponse) {
        mailbox.post(.answer(connection, .response(response)))
    }
}

/// The hub's routes. Called on a loop: whatever takes time answers later, through the exchange.
package protocol HTTPRoutes: Sendable {
    /// The answer; nil where the exchange will bring it.
    ///
    /// - Parameter channels: to be used only during the call.
    func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse?
}

extension ActionAnswer {
    /// The answer of a hub that was started without a store.
    static func withoutStore(_ envelope: ActionEnvelope) -> ActionAnswer {
        .retry(key: envelope.key, .unavailable, after: .seconds(60), message: "This hub takes no actions")
    }
}

extension HTTPResponse {
    /// An upper bound for the bytes of an answer's head without the values of its own fields.
    static let headBytesMax = 1_024

    /// The answer to an address, or a user, who asks more often than allowed.
    static let tooOften = {
        var response = problem(
            .tooManyRequests, "Too many requests: those without a good token or signature are counted by address.")
        response.limit = .strangerRequests
        return response.retrying(after: .seconds(1))
    }()

    /// Replaces an answer that is longer than a loop may hold.
    static let tooLong = problem(
        .serviceUnavailable,
        "The answer is longer than limits.sendQueuesBytes leaves a loop. Ask for less (filter_by_prefix) or raise it.")

    /// An error for people and programs: `{"error":"…","code":401}`.
    package static func problem(_ status: Status, _ message: StaticString) -> HTTPResponse {
        problem(status, text: message.description)
    }

    /// An error whose message is made for the request.
    package static func problem(_ status: Status, text message: String) -> HTTPResponse {
        var body = ByteWriter(capacity: 128)
        body.append(#"{"error":"#)
        body.append(jsonString: message)
        body.append(#","code":"#)
        body.append(decimal: status.code)
        body.append("}\n")
        return HTTPResponse(status, body: body.array)
    }
}

extension HTTPRequest {
    /// The request's values, in memory of their own.
    ///
    /// - Parameter client: the address that the request counts for.
    package init(_ request: ParsedRequest, from client: PeerAddress) {
        let host = request.host
        method = request.method
        path = request.path.string
        query = request.query.map { Array($0) } ?? []
        origin = request.field("origin")?.string
        requestedHeaders = request.field("access-control-request-headers").map { Array($0) }
        bearerToken = request.bearerToken?.string
        idempotencyKey = request.field("idempotency-key").map { Array($0) }
        ifNoneMatch = request.field("if-none-match").map { Array($0) }
        lastEventID = request.field("last-event-id")?.string
        contentType = request.field("content-type")?.string
        takesChunks = request.minorVersion > 0
        isLocal = client.isLoopback && request.namesLoopback
        isOfOwnOrigin = host.map { request.field("origin")?.isOrigin(of: $0) == true } ?? false
        body = Array(request.body)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether this field `Origin` is that host's, by HTTP or HTTPS.
    fileprivate func isOrigin(of host: UnsafeRawBufferPointer) -> Bool {
        let scheme = hasPrefix("http://") ? 7 : hasPrefix("https://") ? 8 : count
        return host.count > 0 && part(scheme..<count).elementsEqual(host)
    }
}

extension HTTPResponse {
    /// An upper bound for its bytes.
    var bytesMax: Int { fields.reduce(Self.headBytesMax + body.count) { $0 + $1.value.utf8.count } }

    /// The whole answer as bytes.
    package func written(_ answering: HTTPMachine.Answering) -> SharedBytes {
        var writer = ByteWriter(capacity: body.count + 256)
        body.withUnsafeBytes { body in
            writer.append(
                response: status, contentType: contentType, keepsAlive: answering.keepsAlive,
                omitsBody: answering.omitsBody, body: body
            ) { writer in for field in fields { writer.append(field: field.name, field.value) } }
        }
        return writer.finish()
    }
}
