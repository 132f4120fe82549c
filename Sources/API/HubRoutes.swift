import Bytes
import Channels
import Gateway
import HTTP
import Identity
import Pusher

// API: the HTTP routes. Purpose: what a request is answered with, given who asks; the gateway reads requests and writes
// answers. Here today: the auth endpoints that a Pusher client calls before it subscribes or signs in, and the users'
// actions. Pusher's HTTP API and the product's other routes come to stand beside them.

/// All routes of the hub, by path. CORS (Fetch standard §3.2) by the same allow-list as upgrades.
package struct HubRoutes: HTTPRoutes {
    /// The routes of the users of the app that owns the database.
    package struct OfUsers: Sendable {
        let auth: AuthRoutes
        let actions: ActionRoutes

        package init(app: App, verifier: TokenVerifier) {
            auth = AuthRoutes(app: app, verifier: verifier)
            actions = ActionRoutes(verifier: verifier)
        }
    }

    private let users: OfUsers?
    private let origins: AllowedOrigins

    /// - Parameter users: nil where no app owns a database, and so no user is known here.
    package init(users: OfUsers?, origins: AllowedOrigins) {
        self.users = users
        self.origins = origins
    }

    package func respond(to request: HTTPRequest, _ exchange: HTTPExchange) -> HTTPResponse? {
        let isAuth = request.path == AuthRoutes.channelPath || request.path == AuthRoutes.userPath
        let target = isAuth ? nil : ActionRoutes.Target(path: request.path)
        guard isAuth || target != nil else {
            return .problem(.notFound, "There is nothing at this path. WebSockets are at /app/{key}.")
        }
        guard origins.allows(request.origin) else {
            return .problem(.forbidden, "This origin may not call this hub.")
        }
        if request.method == .options { return preflight(request) }
        guard request.method == .post else {
            return .problem(.methodNotAllowed, "Use POST.").with("Allow", "POST, OPTIONS").shared(with: request.origin)
        }
        guard let users else {
            let message: StaticString = "This hub has no database, so it knows no users; let your own backend sign."
            return HTTPResponse.problem(.notFound, message).shared(with: request.origin)
        }
        let origin = request.origin
        let answer = { @Sendable (response: HTTPResponse) in exchange.respond(response.shared(with: origin)) }
        let refusal =
            if let target {
                users.actions.respond(to: request, target, exchange, answer)
            } else {
                users.auth.respond(to: request, answer)
            }
        return refusal?.shared(with: origin)
    }

    private func preflight(_ request: HTTPRequest) -> HTTPResponse {
        HTTPResponse(.noContent)
            .with("Access-Control-Allow-Methods", "POST, OPTIONS")
            .with("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Requested-With")
            .with("Access-Control-Max-Age", "7200")
            .shared(with: request.origin)
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
        return with("Access-Control-Allow-Origin", origin).with("Vary", "Origin")
            .with("Access-Control-Expose-Headers", "Retry-After")
    }
}
