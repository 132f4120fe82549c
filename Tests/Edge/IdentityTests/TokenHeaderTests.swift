import Foundation
import JWTKit
import Logging
import Testing

@testable import Identity

/// Requirements for a token's header (RFC 7515 §4) and its key.
@Suite(.timeLimit(.minutes(15))) struct TokenHeaderTests {
    private static let secret = "a secret of thirty-two bytes, at least"
    private static let claims = #"{"sub":"u","exp":4000000000}"#
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func url(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }

    /// A token with exactly that header, signed by the key.
    private func token(_ header: String, _ claims: String = claims, by key: some JWTAlgorithm) throws -> String {
        let signed = url(header.utf8) + "." + url(claims.utf8)
        return signed + "." + url(try key.sign(Array(signed.utf8)))
    }

    private func bySecret() async throws -> (TokenVerifier, any JWTAlgorithm) {
        var policy = TokenPolicy()
        policy.secret = Self.secret
        let keys = await JWTKeyCollection().add(hmac: HMACKey(stringLiteral: Self.secret), digestAlgorithm: .sha256)
        return (try await TokenVerifier(policy: policy, logger: logger), try await keys.getKey())
    }

    private func result(_ header: String) async throws -> TokenRejection? {
        let (verifier, key) = try await bySecret()
        return rejection(await verifier.verify(try token(header, by: key)))
    }

    private func rejection(_ result: Result<VerifiedToken, TokenRejection>) -> TokenRejection? {
        if case .failure(let rejection) = result { rejection } else { nil }
    }

    @Test(arguments: [
        #"{"alg":"HS256"}"#, #"{"alg":"HS256","typ":"JWT"}"#, #"{"typ":"jwt","alg":"HS256","kid":"any"}"#,
        #"{"alg":"HS256","typ":"at+jwt"}"#, #"{"alg":"HS256","typ":"application/at+JWT"}"#,
        #"{"alg":"HS256","typ":"JOSE"}"#, #"{"alg":"HS256","b64":true}"#, #"{"alg":"HS256","cty":"json"}"#,
        #"{"alg":"HS256","kid":null}"#, #"{"alg":"HS256","x5t":"a","jku":"https://evil.example","jwk":{"crit":1}}"#,
        #" {"\u0061lg" : "HS\u003256"} "#,
    ])
    func takesWhatIsUsual(_ header: String) async throws {
        #expect(try await result(header) == nil)
    }

    /// RFC 7515 §4.1.11: a critical extension that is not understood makes a token invalid, and so does a malformed list.
    @Test(arguments: [
        #""crit":["exp"],"exp":1"#, #""crit":["b64"],"b64":true"#, #""crit":["alg"]"#, #""crit":[]"#, #""crit":"exp""#,
        #""crit":null"#, #""crit":{}"#, #""crit":false"#, #""\u0063rit":["x"],"x":1"#,
        #""b64":false"#, #""b64":"false""#, #""b64":null"#, #""b64":0"#,
        #""cty":"JWT""#, #""cty":"application/jwt""#,
        #""typ":"logout+jwt""#, #""typ":"secevent+jwt""#, #""typ":"application/dpop+JWT""#, #""typ":"at+jwt+jwt""#,
        #""typ":1"#, #""typ":null"#, #""typ":["JWT"]"#,
    ])
    func refusesWhatItDoesNotKnow(_ members: String) async throws {
        #expect(try await result(#"{"alg":"HS256",\#(members)}"#) == .header)
        #expect(try await result(#"{\#(members),"alg":"HS256"}"#) == .header)
    }

    /// §4: names are unique. Readers that take the first and the last duplicate would see two different tokens.
    @Test(arguments: [
        #"{"alg":"HS256","alg":"HS256"}"#, #"{"alg":"none","alg":"HS256"}"#, #"{"alg":"HS256","\u0061lg":"none"}"#,
        #"{"alg":"HS256","kid":"a","kid":"b"}"#, #"{"alg":"HS256","x":1,"x":1}"#,
        #"{"alg":"HS256","kid":1}"#, #"{"alg":"HS256","kid":["a"]}"#, #"{"alg":1}"#, #"{"alg":null}"#, #"{}"#,
        #"["alg","HS256"]"#, #"{"alg":"HS256"}{}"#, #"{"alg":"HS256""#, #""HS256""#, "null",
    ])
    func refusesWhatIsNoHeader(_ header: String) async throws {
        #expect(try await result(header) == .malformed)
    }

    /// §5.2: base64url, without padding, line breaks, blanks or the letters of base64.
    @Test func refusesOtherEncodings() async throws {
        let (verifier, key) = try await bySecret()
        let good = try token(#"{"alg":"HS256"}"#, by: key)
        #expect(rejection(await verifier.verify(good)) == nil)
        for index in [0, 1, 2] {
            for (added, isBefore) in [
                ("=", false), ("==", false), (" ", false), (" ", true), ("\n", false), ("%", false),
            ] {
                var parts = good.split(separator: ".").map(String.init)
                parts[index] = isBefore ? added + parts[index] : parts[index] + added
                let text = parts.joined(separator: ".")
                #expect(rejection(await verifier.verify(text)) == .malformed, "\(text)")
            }
        }
        for text in ["Bearer \(good)", good + ".", "." + good, good + ".a", good + "\0"] {
            #expect(rejection(await verifier.verify(text)) == .malformed, "\(text)")
        }
        // The same bytes in base64: one token contains '+' and '/', one does not.
        let wild = try token(#"{"alg":"HS256","x":"???>>>~~~"}"#, by: key)
        #expect(wild.contains("_") || wild.contains("-"))
        #expect(rejection(await verifier.verify(wild)) == nil)
        let base64 = wild.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        #expect(rejection(await verifier.verify(base64)) == .malformed)
    }

    // MARK: Keys

    private func withKeys(_ keys: String...) async throws -> TokenVerifier {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).json")
        try Data(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var policy = TokenPolicy()
        policy.keySetFile = file.path
        return try await TokenVerifier(policy: policy, logger: logger)
    }

    private func jwk(_ key: ES256PrivateKey, kid: String, alg: String? = "ES256") throws -> String {
        let point = try #require(key.parameters)
        let (x, y) = (url(Data(base64Encoded: point.x) ?? Data()), url(Data(base64Encoded: point.y) ?? Data()))
        let named = alg.map { #","alg":"\#($0)""# } ?? ""
        return #"{"kty":"EC","crv":"P-256","kid":"\#(kid)","x":"\#(x)","y":"\#(y)"\#(named)}"#
    }

    private func jwk(_ key: EdDSA.PrivateKey, kid: String, alg: String? = "EdDSA") -> String {
        let named = alg.map { #","alg":"\#($0)""# } ?? ""
        return #"{"kty":"OKP","crv":"Ed25519","kid":"\#(kid)","x":"\#(url(key.publicKey.rawRepresentation))"\#(named)}"#
    }

    /// The header's algorithm must be its key's. If a key is named, only that key is tried.
    @Test(arguments: [true, false]) func keysAreUsedForTheirOwn(_ isNamed: Bool) async throws {
        let elliptic = ES256PrivateKey()
        let edwards = try EdDSA.PrivateKey(curve: .ed25519)
        let verifier = try await withKeys(
            try jwk(elliptic, kid: "one", alg: isNamed ? "ES256" : nil),
            jwk(edwards, kid: "two", alg: isNamed ? "EdDSA" : nil))
        let keys = await JWTKeyCollection().add(ecdsa: elliptic, kid: "one").add(eddsa: edwards, kid: "two")
        let (one, two) = (try await keys.getKey(for: "one"), try await keys.getKey(for: "two"))
        func verify(_ header: String, by key: some JWTAlgorithm) async throws -> TokenRejection? {
            rejection(await verifier.verify(try token(header, by: key)))
        }
        #expect(try await verify(#"{"alg":"ES256","kid":"one"}"#, by: one) == nil)
        #expect(try await verify(#"{"alg":"EdDSA","kid":"two"}"#, by: two) == nil)
        #expect(try await verify(#"{"alg":"ES256"}"#, by: one) == nil)
        #expect(try await verify(#"{"alg":"EdDSA"}"#, by: two) == nil)
        // Signed by the named key, under another algorithm's name.
        #expect(try await verify(#"{"alg":"EdDSA","kid":"one"}"#, by: one) == .algorithm)
        #expect(try await verify(#"{"alg":"ES256","kid":"two"}"#, by: two) == .algorithm)
        #expect(try await verify(#"{"alg":"RS256","kid":"one"}"#, by: one) == .algorithm)
        #expect(try await verify(#"{"alg":"HS256","kid":"one"}"#, by: one) == .algorithm)
        #expect(try await verify(#"{"alg":"EdDSA"}"#, by: one) == .signature)
        #expect(try await verify(#"{"alg":"RS256"}"#, by: one) == .unknownKey)
        // Signed by a key of the set, under an unknown name.
        for kid in ["three", "", "ONE", "one "] {
            #expect(try await verify(#"{"alg":"ES256","kid":"\#(kid)"}"#, by: one) == .unknownKey, "\(kid)")
        }
    }

    /// Two keys of one name, as from an issuer that numbers keys by kind.
    @Test func oneNameForTwoKinds() async throws {
        let elliptic = ES256PrivateKey()
        let edwards = try EdDSA.PrivateKey(curve: .ed25519)
        let verifier = try await withKeys(try jwk(elliptic, kid: "1"), jwk(edwards, kid: "1"))
        let one = try await JWTKeyCollection().add(ecdsa: elliptic).getKey()
        let two = try await JWTKeyCollection().add(eddsa: edwards).getKey()
        #expect(rejection(await verifier.verify(try token(#"{"alg":"ES256","kid":"1"}"#, by: one))) == nil)
        #expect(rejection(await verifier.verify(try token(#"{"alg":"EdDSA","kid":"1"}"#, by: two))) == nil)
    }
}
