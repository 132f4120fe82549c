import Bytes
import Gateway
import HTTP
import HubEngine
import Identity
import Pusher

// API: the HTTP routes. Purpose: decide the answer to a request; the gateway reads requests and writes answers. The routes
// are Pusher's HTTP API, the auth endpoints that a Pusher client calls before it subscribes or signs in, the product's
// routes (a table), the description of these, the modules of the web client, and the demonstration of `carillon dev`.

/// All routes of the hub, by path. CORS (Fetch standard §3.2) uses the allow-list of upgrades, except for calls of
/// backends, which no page may make.
package struct HubRoutes: HTTPRoutes {
    /// The routes for users of the app that owns the database.
    package struct OfUsers: Sendable {
        let auth: AuthRoutes
        let product: ProductRoutes

        /// Routes of the app that owns the database. `verifier` checks the users' tokens.
        package init(app: App, verifier: TokenVerifier) {
            auth = AuthRoutes(app: app, verifier: verifier)
            product = ProductRoutes(appID: app.id, bearer: BearerUser(verifier: verifier))
        }
    }

    private let pusher: PusherRoutes
    private let users: OfUsers?
    private let table: RouteTable
    private let origins: AllowedOrigins
    private let document: OpenAPIDocument?
    private let demonstration: DemonstrationRoutes?
    private let events: EventStreamRoutes

    /// - Parameters:
    ///   - pusher: the calls of the apps' backends.
    ///   - users: nil if no app owns a database; the hub then knows no users.
    ///   - demonstration: only of `carillon dev`.
    package init(
        pusher: PusherRoutes, users: OfUsers?, table: RouteTable = .product, origins: AllowedOrigins,
        demonstration: DemonstrationRoutes? = nil
    ) {
        self.pusher = pusher
        self.users = users
        self.table = table
        self.origins = origins
        self.demonstration = demonstration
        events = EventStreamRoutes(appID: users?.auth.appID)
        document = users.map { _ in OpenAPIDocument(table.routes) }
    }

    /// Answers at once, or returns nil and answers later by the exchange.
    package func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse? {
        if let path = PusherPath(request.path) {
            return pusher.respond(to: request, path, channels, exchange) { exchange.respond($0) }
        }
        if let demonstration, DemonstrationRoutes.owns(request.path) {
            return demonstration.respond(to: request) { exchange.respond($0) }
        }
        var response = answer(to: request, exchange, channels)
        // A token is verified off the loop: who asks is not known yet, or does not matter. A user's event stream begins with
        // its token.
        if response?.events?.isOfUser != true { response?.isForStrangers = true }
        return response
    }

    private func answer(
        to request: HTTPRequest, _ exchange: HTTPExchange, _ channels: any ChannelDirectory
    ) -> HTTPResponse? {
        let origin = request.origin
        guard let route = route(request.path) else {
            return origins.shared(
                .problem(.notFound, "There is nothing at this path. WebSockets are at /app/{key}."), with: origin)
        }
        guard origins.allows(origin) else {
            return .problem(.forbidden, "This origin may not call this hub.").with("Vary", "Origin")
        }
        if request.method == .options { return origins.shared(preflight(request, route), with: origin) }
        let answer = { @Sendable [origins] (response: HTTPResponse) in
            exchange.respond(origins.shared(response, with: origin))
        }
        return response(to: request, route, exchange, channels, answer).map { origins.shared($0, with: origin) }
    }

    private func response(
        to request: HTTPRequest, _ route: Route, _ exchange: HTTPExchange, _ channels: any ChannelDirectory,
        _ answer: @escaping @Sendable (HTTPResponse) -> Void
    ) -> HTTPResponse? {
        guard route.allows(request.method) else {
            let use = route.methods.dropLast().filter { $0 != "HEAD" }.joined(separator: " or ")
            return .problem(.methodNotAllowed, text: "Use \(use).").with("Allow", route.allow)
        }
        guard request.body.count <= APILimits.userBodyBytes else {
            var response = HTTPResponse.problem(.contentTooLarge, "The body is larger than 64 KiB.")
            response.limit = .userBodyBytes
            return response
        }
        if case .webClient(let file) = route { return file.response(to: request) }
        if case .events(let target) = route { return events.response(to: request, target, channels) }
        guard let users, let document else {
            return .problem(
                .notFound, "This hub has no database, so it knows no users; let your own backend sign.")
        }
        switch route {
        case .auth: return users.auth.respond(to: request, channels, answer)
        case .document: return document.response(to: request)
        case .webClient, .events: return nil
        case .product(let matches):
            return matches.first(for: request.method)
                .flatMap { users.product.respond(to: request, $0, exchange, channels, pusher, answer) }
        }
    }

    /// Allows a page to send every header field that it asks for: libraries add their own, such as Laravel Echo's
    /// `X-CSRF-TOKEN` and `X-Socket-Id`. The hub ignores those that it does not know.
    private func preflight(_ request: HTTPRequest, _ route: Route) -> HTTPResponse {
        HTTPResponse(.noContent)
            .with("Access-Control-Allow-Methods", route.allow)
            .with(
                "Access-Control-Allow-Headers",
                request.requestedHeaders.flatMap { FieldNames.list($0) }
                    ?? "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Requested-With"
            )
            .with("Access-Control-Max-Age", "7200")
            .with("Vary", "Origin, Access-Control-Request-Headers")
    }

    private func route(_ path: String) -> Route? {
        if path == AuthRoutes.channelPath || path == AuthRoutes.userPath { return .auth }
        if path == OpenAPIDocument.path { return .document }
        if let file = WebFile.client[path] { return .webClient(file) }
        if let target = EventStreamRoutes.target(path) { return .events(target) }
        let matches = table.matches(path)
        return matches.isEmpty ? nil : .product(matches)
    }

    private enum Route {
        case auth
        case document
        case webClient(WebFile)
        case events(EventStreamRoutes.Target)
        case product([RouteTable.Match])

        func allows(_ method: Method) -> Bool {
            switch self {
            case .auth: method == .post
            case .document, .webClient: method == .get || method == .head
            case .events: method == .get
            case .product(let matches): matches.first(for: method) != nil
            }
        }

        var methods: [String] {
            switch self {
            case .auth: ["POST", "OPTIONS"]
            case .document, .webClient: ["GET", "HEAD", "OPTIONS"]
            case .events: ["GET", "OPTIONS"]
            case .product(let matches): matches.methods
            }
        }

        var allow: String { methods.joined(separator: ", ") }
    }
}

extension HTTPResponse {
    /// The answer with one more field.
    package func with(_ name: StaticString, _ value: String) -> HTTPResponse {
        var response = self
        response.fields.append((name, value))
        return response
    }
}

/// The names in an `Access-Control-Request-Headers` field (Fetch standard §3.2.3).
enum FieldNames {
    /// The longest list that is echoed, in bytes.
    static let bytesMax = 1_024

    /// The list to echo; nil if it is too long or contains anything but tokens and commas.
    static func list(_ field: [UInt8]) -> String? {
        guard field.count <= bytesMax else { return nil }
        let names = field.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map { part in
            trimmed(part.drop { $0 == 0x20 || $0 == 0x09 })
        }
        guard names.allSatisfy({ !$0.isEmpty && $0.allSatisfy { $0.isTokenCharacter } }) else { return nil }
        return names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: ", ")
    }

    private static func trimmed(_ name: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let end = name.lastIndex { $0 != 0x20 && $0 != 0x09 }.map { $0 + 1 } ?? name.startIndex
        return name[..<end]
    }
}
