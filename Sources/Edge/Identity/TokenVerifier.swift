import Clock
import FoundationEssentials
import JWTKit
import Logging
import Metrics
import Sync

/// What makes a token good: which keys, and which claims.
package struct TokenPolicy: Sendable {
    /// The secret of HS256, for development and small installations; nil refuses HS256.
    package var secret: String?
    /// A file of public keys (RFC 7517) for ES256, EdDSA and RS256; read again when it changes.
    package var keySetFile: String?
    /// The required `iss`; nil for any.
    package var issuer: String?
    /// The required member of `aud`; nil for any.
    package var audience: String?
    /// How far clocks may differ.
    package var leeway: Duration = .seconds(30)

    /// No keys: every token is refused.
    package init() {}
}

/// A token found good: its user, and its times.
package struct VerifiedToken: Sendable, Equatable {
    /// The token's `sub`.
    package let userID: String
    /// Seconds since 1970, rounded down; nil where the token gives none, or one in the future.
    package let issuedAt: Int64?
    /// Seconds since 1970.
    package let expiresAt: Int64

    /// A token of these times, in seconds since 1970.
    package init(userID: String, issuedAt: Int64? = nil, expiresAt: Int64) {
        self.userID = userID
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }
}

/// Why a token was refused. The raw value names it in metrics.
package enum TokenRejection: String, Error, Sendable, CaseIterable {
    case malformed, header, algorithm, signature, expired, issuer, audience, claims, revoked
    case unknownKey = "unknown_key"
    case notYetValid = "not_yet_valid"
    case notConfigured = "not_configured"

    /// A sentence for the app's developer, with nothing of the token in it.
    package var message: StaticString {
        switch self {
        case .malformed: "The token is not a JSON Web Token"
        case .header:
            "The token's header asks for what this hub does not know: crit, b64, or another kind of token (typ, cty)"
        case .algorithm:
            "The token's algorithm is not its key's, or not accepted here: ES256, EdDSA or RS256; HS256 where a secret is set"
        case .unknownKey: "No key of this hub fits the token's kid"
        case .signature: "The token's signature is wrong"
        case .expired: "The token has expired"
        case .notYetValid: "The token is not valid yet"
        case .issuer: "The token's iss is not the one that this hub expects"
        case .audience: "The token's aud does not name this hub"
        case .claims:
            """
            The token needs sub (a string of 1 to 128 bytes, none of them NUL) and exp (a number of seconds since 1970, to \
            the year 9999 at most), and each name once; nbf is a number, iss a string, aud one or several
            """
        case .revoked: "The user's access was revoked after this token was issued"
        case .notConfigured: "This hub accepts no tokens: neither a JWT secret nor a key set is configured"
        }
    }
}

/// Verifies the app's JSON Web Tokens (RFC 7519), off the loops. The algorithm comes from the key, never from the token,
/// whose `alg` only selects keys. So neither `none` nor a public key used as a secret works.
package actor TokenVerifier {
    /// The users whose older tokens are refused. The feed keeps it current.
    package nonisolated let revocations: RevocationList
    private let policy: TokenPolicy
    private let logger: Logger
    private let failures: CounterTable?
    private let now: @Sendable () -> Instant
    private var secretKeys: JWTKeyCollection?
    private var publicKeys: KeySet?
    private var keySetModified: Date?
    private var keySetCheckedAt: Instant?

    /// The file of the key set is checked at most once in this time.
    static let keySetCheckInterval = Duration.seconds(5)
    /// The end of the year 9999, in seconds since 1970. A later end is a mistake, such as of milliseconds.
    private static let latestTime = 253_402_300_799.0
    /// The longest token accepted, in bytes.
    package static let tokenBytesMax = 8192

    /// Reads the keys.
    ///
    /// - Throws: a sentence for the operator where the key set cannot be read.
    ///
    /// - Parameters:
    ///   - failures: counts rejections by their raw values.
    ///   - now: the clock that times checks of the file.
    package init(
        policy: TokenPolicy, logger: Logger, failures: CounterTable? = nil,
        now: @escaping @Sendable () -> Instant = Instant.read
    ) async throws(TokenPolicyError) {
        self.policy = policy
        self.logger = logger
        self.failures = failures
        self.now = now
        revocations = RevocationList(logger: logger)
        if let secret = policy.secret {
            secretKeys = await JWTKeyCollection().add(hmac: HMACKey(stringLiteral: secret), digestAlgorithm: .sha256)
        }
        if let file = policy.keySetFile {
            publicKeys = try await Self.readKeySet(file)
            keySetModified = Self.modified(file)
        }
    }

    /// Whether the token is good, and whose it is.
    package func verify(_ token: String) async -> Result<VerifiedToken, TokenRejection> {
        let result = await result(of: token)
        if case .failure(let rejection) = result { failures?[rejection.rawValue].add() }
        return result
    }

    private func result(of token: String) async -> Result<VerifiedToken, TokenRejection> {
        do {
            return .success(try await check(token))
        } catch let rejection as TokenRejection {
            return .failure(rejection)
        } catch let error as JWTError {
            return .failure(Self.rejection(error))
        } catch {
            return .failure(.malformed)
        }
    }

    private func check(_ token: String) async throws -> VerifiedToken {
        guard token.utf8.count <= Self.tokenBytesMax else { throw TokenRejection.malformed }
        await rereadKeySet()
        guard secretKeys != nil || publicKeys != nil else { throw TokenRejection.notConfigured }
        let parts = try DefaultJWTParser().getTokenParts(Array(token.utf8))
        let header = try TokenHeader(parts.header)
        guard TokenHeader.isEncoded(parts.payload), TokenHeader.isEncoded(parts.signature) else {
            throw TokenRejection.malformed
        }
        let keys: JWTKeyCollection?
        switch header.alg {
        case "HS256": keys = secretKeys
        case "ES256", "EdDSA", "RS256": keys = try publicKeys?.keys(for: header)
        default: keys = nil
        }
        guard let keys else { throw TokenRejection.algorithm }
        let claims = try await keys.verify(token, as: Claims.self, iteratingKeys: header.kid == nil)
        guard TokenHeader.hasEachNameOnce(parts.payload) else { throw TokenRejection.claims }
        return try accept(claims)
    }

    private func accept(_ claims: Claims) throws(TokenRejection) -> VerifiedToken {
        let now = Double(UnixTime.read().microseconds) / 1_000_000
        let leeway = Double(policy.leeway.components.seconds)
        guard claims.areOfTheirKinds, let user = claims.sub, !user.isEmpty, user.utf8.count <= 128,
            !user.utf8.contains(0), let expiry = claims.exp, expiry.isFinite, abs(expiry) <= Self.latestTime
        else { throw .claims }
        guard expiry + leeway > now else { throw .expired }
        if let start = claims.nbf, start - leeway > now { throw .notYetValid }
        if let issuer = policy.issuer, claims.iss != issuer { throw .issuer }
        if let audience = policy.audience, claims.aud?.values.contains(audience) != true { throw .audience }
        // An issuer that writes milliseconds gives a future time, which no revocation would ever reach.
        let issue = claims.iat?.seconds.flatMap { $0 - leeway > now ? nil : Int64($0.rounded(.down)) }
        guard !revocations.refuses(user, issuedAt: issue) else { throw .revoked }
        return VerifiedToken(userID: user, issuedAt: issue, expiresAt: Int64(expiry))
    }

    private static func rejection(_ error: JWTError) -> TokenRejection {
        switch error.errorType {
        case .signatureVerificationFailed: .signature
        case .unknownKID, .noKeyProvided, .missingKIDHeader: .unknownKey
        case .malformedToken: .malformed
        default: .signature
        }
    }

    // MARK: Keys

    private func rereadKeySet() async {
        guard let file = policy.keySetFile else { return }
        let now = now()
        if let last = keySetCheckedAt, now.duration(since: last) < Self.keySetCheckInterval { return }
        keySetCheckedAt = now
        let modified = Self.modified(file)
        guard let modified, modified != keySetModified else { return }
        keySetModified = modified
        do {
            publicKeys = try await Self.readKeySet(file)
            logger.info("read the changed JWT key set")
        } catch {
            // The old keys stay: a half-written file must not lock everybody out.
            logger.error("the changed JWT key set cannot be read; the old keys stay: \(error)")
        }
    }

    /// Names the key in the files of examples. All who read them may know its private half.
    private static let placeholder = "change-me"

    private static func readKeySet(_ file: String) async throws(TokenPolicyError) -> KeySet {
        let json: Data
        do {
            json = try Data(contentsOf: URL(fileURLWithPath: file))
        } catch {
            switch (error as? CocoaError)?.code {
            case .fileReadNoSuchFile, .fileNoSuchFile:
                throw TokenPolicyError("the JWT key set \(file) does not exist")
            case .fileReadNoPermission: throw TokenPolicyError("the JWT key set \(file) may not be read by this user")
            default: throw TokenPolicyError("the JWT key set \(file) cannot be read")
            }
        }
        guard !String(decoding: json, as: UTF8.self).contains(placeholder) else {
            throw TokenPolicyError(
                "the JWT key set \(file) has \"\(placeholder)\", which stands in an example: put your own keys in its place"
            )
        }
        do {
            return try await KeySet(json: json)
        } catch {
            throw TokenPolicyError("the JWT key set \(file) is no JSON Web Key Set (RFC 7517)")
        }
    }

    private static func modified(_ file: String) -> Date? {
        (try? FileManager.default.attributesOfItem(atPath: file))?[.modificationDate] as? Date
    }
}

/// Keys that cannot be used, for the operator.
package struct TokenPolicyError: Error, CustomStringConvertible {
    /// Which key, and what to do.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// The claims that the hub reads (RFC 7519 §4.1). `TokenVerifier`, which knows the policy, judges them.
private struct Claims: JWTPayload {
    let sub: String?
    let exp: Double?
    let nbf: Double?
    let iat: IssueTime?
    let iss: String?
    let aud: Audience?
    /// False where a claim has the wrong type, such as a number for `sub`. A thrown error would mean text that is no token.
    let areOfTheirKinds: Bool

    private enum CodingKeys: String, CodingKey { case sub, exp, nbf, iat, iss, aud }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        var areOfTheirKinds = true
        func read<Value: Decodable>(_ key: CodingKeys) -> Value? {
            do {
                return try container.decodeIfPresent(Value.self, forKey: key)
            } catch {
                areOfTheirKinds = false
                return nil
            }
        }
        sub = read(.sub)
        exp = read(.exp)
        nbf = read(.nbf)
        iat = read(.iat)
        iss = read(.iss)
        aud = read(.aud)
        self.areOfTheirKinds = areOfTheirKinds
    }

    func verify(using algorithm: some JWTAlgorithm) async throws {}

    /// Required by `JWTPayload`, but never used.
    func encode(to encoder: any Encoder) {}

    /// A value that is no time, such as a string, counts as absent: `iat` is optional, and matters only for revocation.
    struct IssueTime: Decodable, Sendable {
        let seconds: Double?

        init(from decoder: any Decoder) throws {
            let number = try? decoder.singleValueContainer().decode(Double.self)
            seconds = number.flatMap { $0.isFinite && abs($0) < 1e15 ? $0 : nil }
        }
    }

    struct Audience: Decodable, Sendable {
        let values: [String]

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let one = try? container.decode(String.self) {
                values = [one]
            } else {
                values = try container.decode([String].self)
            }
        }
    }
}
