import Bytes
import Channels
import Gateway
import HTTP
import Identity
import Pusher

// API: the HTTP routes. Purpose: what a request is answered with, given who asks; the gateway reads requests and writes
// answers. Here today: the auth endpoints that a Pusher client calls before it subscribes or signs in. Pusher's HTTP
// API and the product's own routes come to stand beside them.

/// All routes of the hub, by path. CORS (Fetch standard §3.2) by the same allow-list as upgrades.
package struct HubRoutes: HTTPRoutes {
    private let auth: AuthRoutes?
    private let origins: AllowedOrigins

    /// - Parameter auth: nil where no app owns a database, and so no user is known here.
    package init(auth: AuthRoutes?, origins: AllowedOrigins) {
        self.auth = auth
        self.origins = origins
    }

    package func respond(to request: HTTPRequest, _ exchange: HTTPExchange) -> HTTPResponse? {
        let isKnown = request.path == AuthRoutes.channelPath || request.path == AuthRoutes.userPath
        guard isKnown else {
            return .problem(.notFound, "There is nothing at this path. WebSockets are at /app/{key}.")
        }
        guard origins.allows(request.origin) else {
            return .problem(.forbidden, "This origin may not call this hub.")
        }
        if request.method == .options { return preflight(request) }
        guard request.method == .post else {
            return .problem(.methodNotAllowed, "Use POST.").with("Allow", "POST, OPTIONS").shared(with: request.origin)
        }
        guard let auth else {
            let message: StaticString = "This hub has no database, so it knows no users; let your own backend sign."
            return HTTPResponse.problem(.notFound, message).shared(with: request.origin)
        }
        let origin = request.origin
        if let refusal = auth.respond(to: request, { exchange.respond($0.shared(with: origin)) }) {
            return refusal.shared(with: origin)
        }
        return nil
    }

    private func preflight(_ request: HTTPRequest) -> HTTPResponse {
        HTTPResponse(.noContent)
            .with("Access-Control-Allow-Methods", "POST, OPTIONS")
            .with("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Requested-With")
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
    }
}
