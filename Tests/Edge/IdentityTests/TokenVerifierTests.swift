import Clock
import Foundation
import JWTKit
import Logging
import Sync
import Testing

@testable import Identity

@Suite(.timeLimit(.minutes(15))) struct TokenVerifierTests {
    private let folder = TemporaryFolder()
    private let secret = "a secret of thirty-two bytes, at least"
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func verifier(_ change: (inout TokenPolicy) -> Void = { _ in }) async throws -> TokenVerifier {
        var policy = TokenPolicy()
        change(&policy)
        return try await TokenVerifier(policy: policy, logger: logger)
    }

    private func hmacKeys(_ secret: String) async -> JWTKeyCollection {
        await JWTKeyCollection().add(hmac: HMACKey(stringLiteral: secret), digestAlgorithm: .sha256)
    }

    private func sign(_ claims: TestClaims) async throws -> String {
        try await hmacKeys(secret).sign(claims)
    }

    private var soon: Double { Date().timeIntervalSince1970.rounded() + 600 }

    private func keySetFile(_ keys: String...) throws -> String {
        let file = folder.path + UUID().uuidString + ".json"
        try #"{"keys":[\#(keys.joined(separator: ","))]}"#.write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }

    private func jwk(_ key: ES256PrivateKey, kid: String) throws -> String {
        let point = try #require(key.parameters)
        return
            #"{"kty":"EC","crv":"P-256","alg":"ES256","kid":"\#(kid)","x":"\#(url(point.x))","y":"\#(url(point.y))"}"#
    }

    private func jwk(_ key: EdDSA.PrivateKey, kid: String) -> String {
        let x = key.publicKey.rawRepresentation.base64EncodedString()
        return #"{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"\#(kid)","x":"\#(url(x))"}"#
    }

    private func url(_ base64: String) -> String {
        base64.replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    // MARK: Secrets

    @Test func aTokenBySecretIsGood() async throws {
        let verifier = try await verifier { $0.secret = secret }
        let expiry = soon
        let result = await verifier.verify(try await sign(TestClaims(sub: "ü.1", exp: expiry)))
        #expect(result == .success(VerifiedToken(userID: "ü.1", expiresAt: Int64(expiry))))
    }

    @Test func claimsAreJudged() async throws {
        let verifier = try await verifier {
            $0.secret = secret
            $0.issuer = "issuer"
            $0.audience = "hub"
        }
        let now = Date().timeIntervalSince1970
        var good = TestClaims(sub: "u", exp: soon, iss: "issuer", aud: ["other", "hub"])
        func rejection(_ change: (inout TestClaims) -> Void) async throws -> TokenRejection? {
            var claims = good
            change(&claims)
            guard case .failure(let rejection) = await verifier.verify(try await sign(claims)) else { return nil }
            return rejection
        }
        #expect(try await rejection { _ in } == nil)
        #expect(try await rejection { $0.exp = now - 31 } == .expired)
        #expect(try await rejection { $0.exp = now - 20 } == nil, "within the leeway")
        #expect(try await rejection { $0.nbf = now + 60 } == .notYetValid)
        #expect(try await rejection { $0.exp = nil } == .claims)
        #expect(try await rejection { $0.sub = nil } == .claims)
        #expect(try await rejection { $0.sub = "" } == .claims)
        #expect(try await rejection { $0.sub = String(repeating: "u", count: 129) } == .claims)
        #expect(try await rejection { $0.sub = String(repeating: "u", count: 128) } == nil)
        #expect(try await rejection { $0.sub = "u\0" } == .claims, "PostgreSQL has no such text")
        for expiry in [1e300, 946_000_000_000_000, (now + 3600) * 1000, 253_402_300_800] {
            #expect(try await rejection { $0.exp = expiry } == .claims, "\(expiry) is not a date")
        }
        #expect(try await rejection { $0.exp = 253_402_300_799 } == nil)
        #expect(try await rejection { $0.iss = "else" } == .issuer)
        #expect(try await rejection { $0.aud = ["other"] } == .audience)
        good.aud = nil
        #expect(try await rejection { _ in } == .audience)
    }

    /// Validly signed, with a claim of the wrong type: the issuer is told what the hub needs, not that the token is
    /// malformed.
    @Test(
        arguments: [
            ["sub": .number(42)], ["sub": .list(["u"])], ["exp": .text("4000000000")],
            ["exp": .text("2100-01-01T00:00:00Z")],
            ["nbf": .text("now")], ["iss": .number(1)], ["aud": .number(1)],
        ] as [[String: MixedClaims.Value]])
    func claimsOfAnotherKindAreNamed(_ odd: [String: MixedClaims.Value]) async throws {
        let good: [String: MixedClaims.Value] = ["sub": .text("u"), "exp": .number(4_000_000_000)]
        let token = try await hmacKeys(secret).sign(MixedClaims(members: good.merging(odd) { $1 }))
        #expect(try await verifier { $0.secret = secret }.verify(token) == .failure(.claims))
        let message = TokenRejection.claims.message.description
        #expect(message.contains("sub (a string") && message.contains("exp (a number "))
        // A forged token's answer says nothing about its claims.
        #expect(try await verifier { $0.secret = secret + "." }.verify(token) == .failure(.signature))
    }

    /// Of two readers, one would take the first and one the last.
    @Test(arguments: [
        #"{"sub":"u","sub":"v","exp":4000000000}"#, #"{"sub":"u","exp":4000000000,"s\u0075b":"v"}"#,
        #"{"sub":"u","exp":4000000000,"exp":4000000001}"#, #"{"sub":"u","exp":4000000000,"own":1,"own":1}"#,
    ]) func aNameThatComesTwiceIsRefused(_ payload: String) async throws {
        func verified(_ payload: String) async throws -> Result<VerifiedToken, TokenRejection> {
            let text = url(Data(payload.utf8).base64EncodedString())
            let keys = await JWTKeyCollection().add(
                hmac: HMACKey(stringLiteral: secret), digestAlgorithm: .sha256, serializer: AsItStands(text: text))
            return await (try verifier { $0.secret = secret }).verify(try await keys.sign(TestClaims()))
        }
        #expect(try await verified(payload) == .failure(.claims))
        let good = try await verified(#"{"sub":"u","exp":4000000000}"#)
        #expect(good == .success(VerifiedToken(userID: "u", expiresAt: 4_000_000_000)))
    }

    @Test(
        arguments: [
            ("1700000000", 1_700_000_000), ("1700000000.9", 1_700_000_000), ("-5", -5), ("null", nil),
            (#""then""#, nil),
            ("1e300", nil), ("[1]", nil),
        ] as [(String, Int64?)])
    func theTimeOfIssueIsReadWhereItIsOne(_ text: String, _ issuedAt: Int64?) async throws {
        let verifier = try await verifier { $0.secret = secret }
        let token = try await hmacKeys(secret).sign(RawClaims(iat: text))
        #expect(
            await verifier.verify(token)
                == .success(VerifiedToken(userID: "u", issuedAt: issuedAt, expiresAt: 4_000_000_000)))
    }

    /// Such as from an issuer that writes milliseconds: no revocation would ever apply.
    @Test func aTimeOfIssueToComeCountsAsNone() async throws {
        let verifier = try await verifier { $0.secret = secret }
        let keys = await hmacKeys(secret)
        let now = Date().timeIntervalSince1970.rounded(.down)
        func issuedAt(_ time: Double) async throws -> Int64? {
            try await verifier.verify(try await keys.sign(RawClaims(iat: "\(time)"))).get().issuedAt
        }
        #expect(try await issuedAt(now + 20) == Int64(now) + 20, "within the leeway")
        #expect(try await issuedAt(now + 600) == nil)
        #expect(try await issuedAt(now * 1_000) == nil)
        verifier.revocations.insert([Revocation(userID: "u", before: 1)])
        for time in [now + 600, now * 1_000] {
            let token = try await keys.sign(RawClaims(iat: "\(time)"))
            #expect(await verifier.verify(token) == .failure(.revoked))
        }
    }

    @Test func whatWasIssuedBeforeARevocationIsRefused() async throws {
        let verifier = try await verifier { $0.secret = secret }
        let keys = await hmacKeys(secret)
        verifier.revocations.insert([Revocation(userID: "u", before: 1_000_500_000)])
        for (time, isRefused) in [("1000", true), ("1001", false), ("null", true)] {
            let result = await verifier.verify(try await keys.sign(RawClaims(iat: time)))
            #expect((result == .failure(.revoked)) == isRefused, "\(time)")
        }
        guard case .success = await verifier.verify(try await keys.sign(TestClaims(sub: "v", exp: soon))) else {
            Issue.record("another user is refused")
            return
        }
    }

    @Test func theListOfRevocationsIsBounded() {
        let list = RevocationList(logger: logger, countMax: 16)
        list.insert((1...16).map { Revocation(userID: "\($0)", before: $0) })
        #expect(list.count == 16)
        list.insert([Revocation(userID: "17", before: 17)])
        #expect(list.count == 15)
        #expect(!list.refuses("1", issuedAt: nil))
        #expect(list.refuses("17", issuedAt: 0))
    }

    @Test func wrongSignaturesAreRefused() async throws {
        let verifier = try await verifier { $0.secret = secret }
        let forged = try await hmacKeys("another secret of thirty-two bytes or so").sign(
            TestClaims(sub: "u", exp: soon))
        #expect(await verifier.verify(forged) == .failure(.signature))
        let good = try await sign(TestClaims(sub: "u", exp: soon))
        let parts = good.split(separator: ".")
        let other = try await sign(TestClaims(sub: "v", exp: soon)).split(separator: ".")
        #expect(await verifier.verify("\(parts[0]).\(other[1]).\(parts[2])") == .failure(.signature))
    }

    @Test(arguments: ["", ".", "..", "a.b.c", "a.b", "e30.e30.e30", String(repeating: "a", count: 8_193)])
    func whatIsNoTokenIsMalformed(_ text: String) async throws {
        let verifier = try await verifier { $0.secret = secret }
        #expect(await verifier.verify(text) == .failure(.malformed))
    }

    @Test func theAlgorithmIsNeverTheTokensChoice() async throws {
        let claims = url(Data(#"{"sub":"u","exp":4000000000}"#.utf8).base64EncodedString())
        func unsigned(_ alg: String) -> String {
            url(Data(#"{"alg":"\#(alg)","typ":"JWT"}"#.utf8).base64EncodedString()) + ".\(claims)."
        }
        let bySecret = try await verifier { $0.secret = secret }
        for alg in ["none", "None", "", "HS384", "PS256"] {
            #expect(await bySecret.verify(unsigned(alg)) == .failure(.algorithm))
        }
        #expect(await bySecret.verify(unsigned("RS256")) == .failure(.algorithm), "no public keys here")
        let key = ES256PrivateKey()
        let file = try keySetFile(try jwk(key, kid: "k"))
        let byKeys = try await verifier { $0.keySetFile = file }
        // The classic attack: a public key used as the secret of HS256.
        let text = try String(contentsOfFile: file, encoding: .utf8)
        let confused = try await hmacKeys(text).sign(TestClaims(sub: "u", exp: soon))
        #expect(await byKeys.verify(confused) == .failure(.algorithm))
    }

    @Test func withoutKeysNoTokenIsTaken() async throws {
        #expect(
            await (try verifier()).verify(try await sign(TestClaims(sub: "u", exp: soon))) == .failure(.notConfigured))
    }

    // MARK: Key sets

    @Test func publicKeysAreFoundByTheirName() async throws {
        let elliptic = ES256PrivateKey()
        let edwards = try EdDSA.PrivateKey(curve: .ed25519)
        let file = try keySetFile(try jwk(elliptic, kid: "one"), jwk(edwards, kid: "two"))
        let verifier = try await verifier { $0.keySetFile = file }
        let keys = await JWTKeyCollection().add(ecdsa: elliptic, kid: "one").add(eddsa: edwards, kid: "two")
        let claims = TestClaims(sub: "u", exp: soon)
        for kid in ["one", "two"] as [JWKIdentifier] {
            guard case .success(let token) = await verifier.verify(try await keys.sign(claims, kid: kid)) else {
                Issue.record("\(kid) is not taken")
                continue
            }
            #expect(token.userID == "u")
        }
        let stranger = await JWTKeyCollection().add(ecdsa: ES256PrivateKey(), kid: "one")
        #expect(await verifier.verify(try await stranger.sign(claims, kid: "one")) == .failure(.signature))
    }

    /// RFC 7515, appendix A.2: the key and the token. Its claims name no user, which is detected after the signature.
    @Test func rsaKeysVerify() async throws {
        let modulus =
            "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pC"
            + "gNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg6"
            + "65xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW"
            + "yuXpoQ"
        let signature =
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t"
            + "1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12j"
            + "zDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQ"
            + "Ge77Rw"
        let payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
        let file = try keySetFile(#"{"kty":"RSA","alg":"RS256","kid":"rsa","n":"\#(modulus)","e":"AQAB"}"#)
        let verifier = try await verifier { $0.keySetFile = file }
        #expect(await verifier.verify("eyJhbGciOiJSUzI1NiJ9.\(payload).\(signature)") == .failure(.claims))
        #expect(await verifier.verify("eyJhbGciOiJSUzI1NiJ9.\(payload)A.\(signature)") == .failure(.signature))
    }

    @Test func aChangedKeySetIsReadAgainAndABrokenOneIsNot() async throws {
        let old = ES256PrivateKey()
        let new = ES256PrivateKey()
        let file = try keySetFile(try jwk(old, kid: "old"))
        let clock = TestClock()
        var policy = TokenPolicy()
        policy.keySetFile = file
        let verifier = try await TokenVerifier(policy: policy, logger: logger, now: { clock.now })
        let claims = TestClaims(sub: "u", exp: soon)
        let byOld = try await JWTKeyCollection().add(ecdsa: old, kid: "old").sign(claims, kid: "old")
        let byNew = try await JWTKeyCollection().add(ecdsa: new, kid: "new").sign(claims, kid: "new")
        func isGood(_ token: String) async -> Bool {
            if case .success = await verifier.verify(token) { true } else { false }
        }
        func replace(_ text: String, daysOld: Int) throws {
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            let date = Date().addingTimeInterval(-86_400 * Double(daysOld))
            try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file)
            clock.advance(by: TokenVerifier.keySetCheckInterval)
        }
        #expect(await isGood(byOld))
        #expect(await !isGood(byNew))
        try replace("{ half a fi", daysOld: 3)
        #expect(await isGood(byOld), "the old keys stay")
        try replace(#"{"keys":[\#(try jwk(new, kid: "new"))]}"#, daysOld: 2)
        #expect(await isGood(byNew))
        #expect(await !isGood(byOld))
    }

    @Test func aKeySetThatCannotBeReadIsToldAtTheStart() async throws {
        let error = await #expect(throws: TokenPolicyError.self) {
            try await verifier { $0.keySetFile = "/no/such.json" }
        }
        #expect(error?.description == "the JWT key set /no/such.json does not exist")
        let file = try keySetFile()
        try "keys".write(toFile: file, atomically: true, encoding: .utf8)
        let other = await #expect(throws: TokenPolicyError.self) { try await verifier { $0.keySetFile = file } }
        #expect(other?.description == "the JWT key set \(file) is no JSON Web Key Set (RFC 7517)")
        try #"{"keys":[\#(try jwk(ES256PrivateKey(), kid: "change-me"))]}"#.write(
            toFile: file, atomically: true, encoding: .utf8)
        let example = await #expect(throws: TokenPolicyError.self) { try await verifier { $0.keySetFile = file } }
        #expect(
            example?.description
                == "the JWT key set \(file) has \"change-me\", which stands in an example: put your own keys in its place"
        )
        let folder = await #expect(throws: TokenPolicyError.self) {
            try await verifier { $0.keySetFile = self.folder.path }
        }
        #expect(folder?.description == "the JWT key set \(self.folder.path) cannot be read")
    }
}

private final class TemporaryFolder: Sendable {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path + "/"

    init() { try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

private final class TestClock: @unchecked Sendable {
    // Used by one test, step by step.
    private(set) var now = Instant.read()

    func advance(by duration: Duration) {
        now = now.advanced(by: duration)
    }
}

/// Claims of any type.
struct MixedClaims: JWTPayload {
    enum Value: Codable, Sendable {
        case text(String)
        case number(Double)
        case list([String])

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            case .list(let list): try container.encode(list)
            }
        }
    }

    let members: [String: Value]

    init(members: [String: Value]) { self.members = members }

    init(from decoder: any Decoder) throws { members = [:] }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(members)
    }

    func verify(using algorithm: some JWTAlgorithm) async throws {}
}

/// A user's claims with any text as `iat`.
private struct RawClaims: JWTPayload {
    let iat: String

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("u", forKey: .sub)
        try container.encode(4_000_000_000, forKey: .exp)
        if let number = Double(iat) {
            try container.encode(number, forKey: .iat)
        } else if iat == "null" {
            try container.encodeNil(forKey: .iat)
        } else if iat == "[1]" {
            try container.encode([1], forKey: .iat)
        } else {
            try container.encode(iat, forKey: .iat)
        }
    }

    private enum Key: CodingKey { case sub, exp, iat }

    init(iat: String) { self.iat = iat }

    init(from decoder: any Decoder) throws { iat = "" }

    func verify(using algorithm: some JWTAlgorithm) async throws {}
}

/// Signs this text in place of a payload.
private struct AsItStands: JWTSerializer {
    let text: String
    var jsonEncoder: any JWTJSONEncoder { .defaultForJWT }

    func serialize(_ payload: some JWTPayload, header: JWTHeader) throws -> Data { Data(text.utf8) }
}

private struct TestClaims: JWTPayload {
    var sub: String?
    var exp: Double?
    var nbf: Double?
    var iss: String?
    var aud: [String]?

    func verify(using algorithm: some JWTAlgorithm) async throws {}
}
