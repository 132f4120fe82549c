import FoundationEssentials
import JWTKit

/// A set of public keys (RFC 7517) by algorithm: a token whose `alg` is not its key's is refused (RFC 8725 §3.1).
struct KeySet: Sendable {
    private struct Keys: Sendable {
        let collection = JWTKeyCollection()
        var names: Set<String> = []
    }

    private var byAlgorithm: [String: Keys] = [:]

    /// - Throws: where the text is no key set, or a key has no `kid` or cannot be read.
    init(json: Data) async throws {
        for key in try JSONDecoder().decode(JWKS.self, from: json).keys {
            let algorithm = key.algorithm?.rawValue ?? Self.usualAlgorithm(of: key.keyType)
            var keys = byAlgorithm[algorithm] ?? Keys()
            try await keys.collection.add(jwk: key)
            if let name = key.keyIdentifier?.string { keys.names.insert(name) }
            byAlgorithm[algorithm] = keys
        }
    }

    /// The keys that may have signed the token.
    ///
    /// - Throws: `unknownKey` where no key has the token's `kid` or algorithm; `algorithm` where the named key has another.
    func keys(for header: TokenHeader) throws(TokenRejection) -> JWTKeyCollection {
        let keys = byAlgorithm[header.alg]
        if let name = header.kid, keys?.names.contains(name) != true {
            throw byAlgorithm.values.contains { $0.names.contains(name) } ? .algorithm : .unknownKey
        }
        guard let keys else { throw .unknownKey }
        return keys.collection
    }

    /// For a key without `alg`.
    private static func usualAlgorithm(of type: JWK.KeyType) -> String {
        switch type {
        case .rsa: "RS256"
        case .ecdsa: "ES256"
        default: "EdDSA"
        }
    }
}
