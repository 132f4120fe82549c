import Gateway
import HTTP
import Identity

/// Who a request is from, by its bearer token (RFC 6750).
struct BearerUser: Sendable {
    private let verifier: TokenVerifier

    init(verifier: TokenVerifier) {
        self.verifier = verifier
    }

    /// The answer where there is no token.
    static let missing = HTTPResponse.problem(
        .unauthorized, "This route needs the user's token: Authorization: Bearer ..."
    ).with("WWW-Authenticate", "Bearer")

    /// The answer while the hub does not know who is revoked: the database is out of reach, or the hub has just begun.
    static let undecided = HTTPResponse.problem(
        .serviceUnavailable, "The hub cannot tell at the moment whether this token was revoked."
    ).retrying(after: .seconds(1))

    /// Has the token verified off the loop: `body` gets the user, `refuse` the answer to a bad token.
    func verify(
        _ token: String, refuse: @escaping @Sendable (HTTPResponse) -> Void,
        then body: @escaping @Sendable (String) -> Void
    ) {
        verifyToken(token, refuse: refuse) { body($0.userID) }
    }

    /// The same, for a body that asks for the token's times as well.
    func verifyToken(
        _ token: String, refuse: @escaping @Sendable (HTTPResponse) -> Void,
        then body: @escaping @Sendable (VerifiedToken) -> Void
    ) {
        // Before anything else that the pool has to do: a client waits, with a deadline.
        Task(priority: .high) {
            // Before the token is judged: a list that becomes complete meanwhile may have been consulted before.
            guard verifier.revocations.isCurrent else { return refuse(Self.undecided) }
            switch await verifier.verify(token) {
            case .success(let token): body(token)
            case .failure(let rejection):
                refuse(
                    .problem(.unauthorized, rejection.message)
                        .with("WWW-Authenticate", #"Bearer error="invalid_token""#))
            }
        }
    }
}
