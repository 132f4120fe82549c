import FoundationEssentials
import JWTKit

/// The claims of a development token (RFC 7519 §4.1).
struct DevelopmentToken: JWTPayload, Equatable {
    let sub: SubjectClaim
    let iat: IssuedAtClaim
    let exp: ExpirationClaim
    let jti: IDClaim
    let iss: IssuerClaim?
    let aud: AudienceClaim?

    /// - Throws: a failure when no hub could accept the user.
    init(hub: HubRecord, user: String, lifetime: Duration, now: Date) throws(Failure) {
        try self.init(user: user, issuer: hub.jwtIssuer, audience: hub.jwtAudience, lifetime: lifetime, now: now)
    }

    /// - Throws: a failure when no hub could accept the user.
    init(user: String, issuer: String?, audience: String?, lifetime: Duration, now: Date) throws(Failure) {
        guard !user.isEmpty else { throw Failure("--user is empty") }
        sub = SubjectClaim(value: user)
        // Whole seconds: some verifiers reject fractions.
        let start = Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down))
        iat = IssuedAtClaim(value: start)
        exp = ExpirationClaim(value: start.addingTimeInterval(max(1, lifetime / .seconds(1))))
        jti = IDClaim(value: UUID().uuidString)
        iss = issuer.map { IssuerClaim(value: $0) }
        aud = audience.map { AudienceClaim(value: $0) }
    }

    func verify(using algorithm: some JWTAlgorithm) async throws {
        try exp.verifyNotExpired()
    }

    /// Signs with HS256, on the commands' main thread (`atOnce`).
    func signedAtOnce(secret: String) throws -> String {
        try atOnce { try await signed(secret: secret) }
    }

    func signed(secret: String) async throws -> String {
        let keys = JWTKeyCollection()
        await keys.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256)
        return try await keys.sign(self)
    }
}
