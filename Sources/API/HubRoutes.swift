import Bytes
import Channels
import Gateway
import HTTP
import Identity
import Pusher

// API: the HTTP routes. Purpose: what a request is answered with, given who asks; the gateway reads requests and writes
// answers. Here today: Pusher's HTTP API, the auth endpoints that a Pusher client calls before it subscribes or signs in,
// and the users' actions and snapshots. The product's other routes come to stand beside them.

/// All routes of the hub, by path. CORS (Fetch standard §3.2) by the same allow-list as upgrades, but for the calls of
/// backends, which no page may make.
package struct HubRoutes: HTTPRoutes {
    /// The routes of the users of the app that owns the database.
    package struct OfUsers: Sendable {
        let auth: AuthRoutes
        let actions: ActionRoutes
        let snapshots: SnapshotRoutes

        package init(app: App, verifier: TokenVerifier) {
            auth = AuthRoutes(app: app, verifier: verifier)
            actions = ActionRoutes(verifier: verifier)
            snapshots = SnapshotRoutes(verifier: verifier)
        }
    }

    private let pusher: PusherRoutes
    private let users: OfUsers?
    private let origins: AllowedOrigins

    /// - Parameters:
    ///   - pusher: the calls of the apps' backends.
    ///   - users: nil where no app owns a database, and so no user is known here.
    package init(pusher: PusherRoutes, users: OfUsers?, origins: AllowedOrigins) {
        self.pusher = pusher
        self.users = users
        self.origins = origins
    }

    package func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse? {
        if let path = PusherPath(request.path) {
            return pusher.respond(to: request, path, channels) { exchange.respond($0) }
        }
        guard let route = Route(path: request.path) else {
            return .problem(.notFound, "There is nothing at this path. WebSockets are at /app/{key}.")
        }
        guard origins.allows(request.origin) else {
            return .problem(.forbidden, "This origin may not call this hub.")
        }
        if request.method == .options { return preflight(request, route) }
        guard route.allows(request.method) else {
            return .problem(.methodNotAllowed, route.complaint).with("Allow", route.methods)
                .shared(with: request.origin)
        }
        guard request.body.count <= APILimits.userBodyBytes else {
            var response = HTTPResponse.problem(.contentTooLarge, "The body is larger than 64 KiB.")
            response.limit = .userBodyBytes
            return response.shared(with: request.origin)
        }
        guard let users else {
            let message: StaticString = "This hub has no database, so it knows no users; let your own backend sign."
            return HTTPResponse.problem(.notFound, message).shared(with: request.origin)
        }
        let origin = request.origin
        let answer = { @Sendable (response: HTTPResponse) in exchange.respond(response.shared(with: origin)) }
        let refusal =
            switch route {
            case .auth: users.auth.respond(to: request, channels, answer)
            case .action(let target): users.actions.respond(to: request, target, exchange, answer)
            case .snapshot(let target, let user):
                users.snapshots.respond(to: request, target, of: user, exchange, answer)
            }
        return refusal?.shared(with: origin)
    }

    private func preflight(_ request: HTTPRequest, _ route: Route) -> HTTPResponse {
        HTTPResponse(.noContent)
            .with("Access-Control-Allow-Methods", route.methods)
            .with(
                "Access-Control-Allow-Headers",
                "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Requested-With"
            )
            .with("Access-Control-Max-Age", "7200")
            .shared(with: request.origin)
    }

    /// Where a path leads.
    private enum Route {
        case auth
        case action(ActionRoutes.Target)
        case snapshot(SnapshotRoutes.Target, of: String)

        init?(path: String) {
            if path == AuthRoutes.channelPath || path == AuthRoutes.userPath {
                self = .auth
            } else if let user = UserPath(path), let target = ActionRoutes.Target(user) {
                self = .action(target)
            } else if let user = UserPath(path), let target = SnapshotRoutes.Target(user) {
                self = .snapshot(target, of: user.user)
            } else {
                return nil
            }
        }

        func allows(_ method: Method) -> Bool {
            switch self {
            case .auth, .action: method == .post
            case .snapshot: method == .get || method == .head
            }
        }

        var methods: String {
            switch self {
            case .auth, .action: "POST, OPTIONS"
            case .snapshot: "GET, HEAD, OPTIONS"
            }
        }

        var complaint: StaticString {
            switch self {
            case .auth, .action: "Use POST."
            case .snapshot: "Use GET."
            }
        }
    }
}

extension HTTPResponse {
    func with(_ name: StaticString, _ value: String) -> HTTPResponse {
        var response = self
        response.fields.append((name, value))
        return response
    }

    /// Lets the pages of that origin read the answer. The origin is echoed, never `*`, since requests carry credentials.
    func shared(with origin: String?) -> HTTPResponse {
        guard let origin else { return self }
        let shared = with("Access-Control-Allow-Origin", origin)
            .with("Access-Control-Expose-Headers", "ETag, Retry-After, X-Sync-Position")
        return fields.contains { $0.name.bytes.equals("Vary") } ? shared : shared.with("Vary", "Origin")
    }
}
