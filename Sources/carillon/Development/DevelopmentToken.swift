import FoundationEssentials
import Glibc
import JWTKit
import Synchronization

/// The claims of a development token (RFC 7519 §4.1).
struct DevelopmentToken: JWTPayload, Equatable {
    let sub: SubjectClaim
    let iat: IssuedAtClaim
    let exp: ExpirationClaim
    let jti: IDClaim
    let iss: IssuerClaim?
    let aud: AudienceClaim?

    /// - Throws: a failure where no hub could accept the user.
    init(hub: HubRecord, user: String, lifetime: Duration, now: Date) throws(Failure) {
        guard !user.isEmpty else { throw Failure("--user is empty") }
        sub = SubjectClaim(value: user)
        // Whole seconds: some verifiers take no fraction.
        let start = Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down))
        iat = IssuedAtClaim(value: start)
        exp = ExpirationClaim(value: start.addingTimeInterval(max(1, lifetime / .seconds(1))))
        jti = IDClaim(value: UUID().uuidString)
        iss = hub.jwtIssuer.map { IssuerClaim(value: $0) }
        aud = hub.jwtAudience.map { AudienceClaim(value: $0) }
    }

    func verify(using algorithm: some JWTAlgorithm) async throws {
        try exp.verifyNotExpired()
    }

    /// Signs with HS256.
    func signed(secret: String) async throws -> String {
        let keys = JWTKeyCollection()
        await keys.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256)
        return try await keys.sign(self)
    }

    /// Signs with HS256, and blocks the calling thread for a moment: jwt-kit's keys are an actor. For the commands'
    /// main thread only; a thread of Swift's pool would wait for itself.
    func signedAtOnce(secret: String) throws -> String {
        let outcome = Outcome()
        Task.detached {
            do {
                let token = try await signed(secret: secret)
                outcome.result.withLock { $0 = .success(token) }
            } catch {
                outcome.result.withLock { $0 = .failure(error) }
            }
            outcome.isThere.set()
        }
        outcome.isThere.wait()
        guard let result = outcome.result.withLock({ $0 }) else { throw Failure("the token was not signed") }
        return try result.get()
    }
}

/// What the signing task hands back.
private final class Outcome: Sendable {
    let isThere = Latch()
    let result = Mutex<Result<String, any Error>?>(nil)
}
