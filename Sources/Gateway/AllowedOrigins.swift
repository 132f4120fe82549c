/// The web origins (RFC 6454) whose pages may open sockets here and call the HTTP routes. Native clients send none and
/// are not concerned; what protects a channel is its own rule, and no cookie is ever looked at.
package enum AllowedOrigins: Sendable, Equatable {
    case any
    /// Exactly these, scheme and port included, as browsers write them: `https://app.example.com`.
    case only(Set<String>)

    /// Whether a request with this `Origin` may go on; one without any may.
    package func allows(_ origin: String?) -> Bool {
        guard let origin else { return true }
        switch self {
        case .any: return true
        case .only(let origins): return origins.contains(origin)
        }
    }
}
