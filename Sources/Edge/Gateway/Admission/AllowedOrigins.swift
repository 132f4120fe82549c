import Bytes

/// The web origins (RFC 6454) whose pages may open sockets here and call the HTTP routes. Native clients send none and are
/// not affected. Channels are protected by their own rules, and no cookie is ever looked at.
package enum AllowedOrigins: Sendable, Equatable {
    case any
    /// Exactly these, with scheme and port, as browsers write them: `https://app.example.com`.
    case only(Set<String>)

    /// Whether a request with this `Origin` is allowed. One without `Origin` is.
    package func allows(_ origin: String?) -> Bool {
        guard let origin else { return true }
        switch self {
        case .any: return true
        case .only(let origins): return origins.contains(origin)
        }
    }

    /// The answer with fields that let a page of that origin read it (Fetch standard §3.2), if the origin is allowed.
    ///
    /// The origin is echoed, never `*`. A page that sends credentials (`withCredentials`) may read the answer only if its
    /// origin is named: the hub looks at no cookie, but a proxy before it may, and `any` admits unknown pages.
    package func shared(_ response: HTTPResponse, with origin: String?) -> HTTPResponse {
        guard let origin, allows(origin) else { return response }
        var shared = response
        shared.fields.append(("Access-Control-Allow-Origin", origin))
        if self != .any { shared.fields.append(("Access-Control-Allow-Credentials", "true")) }
        shared.fields.append(("Access-Control-Expose-Headers", "ETag, Retry-After, X-Sync-Position"))
        if !response.fields.contains(where: { $0.name.bytes.equals("Vary") }) {
            shared.fields.append(("Vary", "Origin"))
        }
        return shared
    }
}
