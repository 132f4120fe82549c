import FoundationEssentials
import JWTKit

/// A set of public keys (RFC 7517), sorted by the algorithm that each is for: a token's `alg` and its key's are the same, or
/// the token is refused (RFC 8725 §3.1).
struct KeySet: Sendable {
    private struct Keys: Sendable {
        let collection = JWTKeyCollection()
        var names: Set<String> = []
    }

    private var byAlgorithm: [String: Keys] = [:]

    /// - Throws: where the text is no key set, or one of its keys has no name or cannot be read.
    init(json: Data) async throws {
        for key in try JSONDecoder().decode(JWKS.self, from: json).keys {
            let algorithm = key.algorithm?.rawValue ?? Self.usualAlgorithm(of: key.keyType)
            var keys = byAlgorithm[algorithm] ?? Keys()
            try await keys.collection.add(jwk: key)
            if let name = key.keyIdentifier?.string { keys.names.insert(name) }
            byAlgorithm[algorithm] = keys
        }
    }

    /// The keys that the token may be signed by.
    ///
    /// - Throws: `unknownKey` where the token names a key that is not here, or there is none for its algorithm; `algorithm` where
    ///   the key that it names is for another one.
    func keys(for header: TokenHeader) throws(TokenRejection) -> JWTKeyCollection {
        let keys = byAlgorithm[header.alg]
        if let name = header.kid, keys?.names.contains(name) != true {
            throw byAlgorithm.values.contains { $0.names.contains(name) } ? .algorithm : .unknownKey
        }
        guard let keys else { throw .unknownKey }
        return keys.collection
    }

    /// Of a key that does not say what it is for.
    private static func usualAlgorithm(of type: JWK.KeyType) -> String {
        switch type {
        case .rsa: "RS256"
        case .ecdsa: "ES256"
        default: "EdDSA"
        }
    }
}
