import Gateway
import HTTP
import Identity

/// Identifies the user of a request by its bearer token (RFC 6750).
struct BearerUser: Sendable {
    private let verifier: TokenVerifier

    init(verifier: TokenVerifier) {
        self.verifier = verifier
    }

    static let missing = HTTPResponse.problem(
        .unauthorized, "This route needs the user's token: Authorization: Bearer ..."
    ).with("WWW-Authenticate", "Bearer")

    /// The answer while the revocations are unknown: the database is out of reach, or the hub has just started.
    static let undecided = HTTPResponse.problem(
        .serviceUnavailable, "The hub cannot tell at the moment whether this token was revoked."
    ).retrying(after: .seconds(1))

    /// Verifies the token off the loop. `body` gets the user, `refuse` the answer to a bad token.
    func verify(
        _ token: String, refuse: @escaping @Sendable (HTTPResponse) -> Void,
        then body: @escaping @Sendable (String) -> Void
    ) {
        verifyToken(token, refuse: refuse) { body($0.userID) }
    }

    /// Verifies the token off the loop, for a body that also needs the token's times.
    func verifyToken(
        _ token: String, refuse: @escaping @Sendable (HTTPResponse) -> Void,
        then body: @escaping @Sendable (VerifiedToken) -> Void
    ) {
        // Of a higher priority, libdispatch would complain that an ordinary user may not have it.
        Task(priority: .medium) {
            // Checked before the token is verified: if the list became complete only during the verification, the token may
            // have been checked against the incomplete list.
            guard verifier.revocations.isCurrent else { return refuse(Self.undecided) }
            switch await verifier.verify(token) {
            case .success(let token): body(token)
            case .failure(let rejection):
                var response = HTTPResponse.problem(.unauthorized, rejection.message)
                    .with("WWW-Authenticate", #"Bearer error="invalid_token""#)
                response.isForStrangers = true
                refuse(response)
            }
        }
    }
}
