import Bytes
import Gateway
import HTTP
import Identity
import Sync

/// `POST /users/{userId}/adherence/actions` and `…/bulk` (seed 000 §4): what `sync:action` is on the socket, for clients
/// that have none at hand. Who sends an envelope gets the `sync:result` object; who sends the plain shape gets the entity
/// at the top level (`PlainAnswer`).
package struct ActionRoutes: Sendable {
    private let bearer: BearerUser

    package init(verifier: TokenVerifier) {
        bearer = BearerUser(verifier: verifier)
    }

    /// What a path names: whose doses, and the shape of a body that is no envelope.
    struct Target: Sendable {
        let user: String
        let shape: ActionShape

        /// Nil where the path is none of these routes'.
        init?(_ path: UserPath) {
            switch path.rest {
            case "/adherence/actions": shape = .plain
            case "/adherence/bulk": shape = .plainBulk
            default: return nil
            }
            user = path.user
        }
    }

    /// Answers at once where the request cannot be anybody's action, and else by `answer`.
    func respond(
        to request: HTTPRequest, _ target: Target, _ exchange: HTTPExchange,
        _ answer: @escaping @Sendable (HTTPResponse) -> Void
    ) -> HTTPResponse? {
        guard let token = request.bearerToken else { return BearerUser.missing }
        guard Self.isJSON(request.contentType) else {
            return .problem(.unsupportedMediaType, "Send JSON: application/json.")
        }
        bearer.verify(token, refuse: answer) { user in
            guard user.hasSameBytes(as: target.user) else {
                return answer(.problem(.forbidden, "The path names another user than the token."))
            }
            act(request, target, exchange, answer)
        }
        return nil
    }

    private func act(
        _ request: HTTPRequest, _ target: Target, _ exchange: HTTPExchange,
        _ answer: @escaping @Sendable (HTTPResponse) -> Void
    ) {
        do throws(ActionError) {
            let (envelope, wording) = try ActionEnvelope.decode(
                request.body, plain: target.shape, keyField: request.idempotencyKey.map(Self.key))
            exchange.act(envelope, as: target.user) { answer(.result($0, wording)) }
        } catch {
            switch error {
            case .keyless(let message): answer(.problem(.badRequest, message))
            case .invalid(let key, let path, let message, let wording):
                answer(.result(.invalid(key: key, path: path.description, message: message), wording))
            }
        }
    }

    /// A request that says nothing of its content is taken at its word when it is read.
    private static func isJSON(_ contentType: String?) -> Bool {
        guard let type = contentType?.lowercased() else { return true }
        let rest = type.utf8.dropFirst("application/json".utf8.count)
        return type.hasPrefix("application/json") && (rest.isEmpty || rest.first == 0x3B || rest.first == 0x20)
    }

    /// The key of the field `Idempotency-Key`: bare, or in the quotes that the IETF's draft asks for. What is no text is
    /// no key.
    private static func key(_ field: [UInt8]) -> String {
        field.withUnsafeBytes { field in
            let isQuoted = field.count >= 2 && field.first == 0x22 && field.last == 0x22
            let key = isQuoted ? field.part(1..<field.count - 1) : field
            return UTF8Validator.isValid(key) ? key.string : ""
        }
    }
}

extension HTTPResponse {
    /// The answer to an action, in the shape and the words of the request.
    static func result(_ answer: ActionAnswer, _ wording: ActionWording) -> HTTPResponse {
        let body = wording.shape == .envelope ? answer.json.array : PlainAnswer.body(of: answer, to: wording)
        let response = HTTPResponse(answer.httpStatus, body: body)
        guard answer.status == .retry else { return response }
        return response.retrying(after: answer.retryAfter ?? .zero)
    }
}

extension ActionAnswer {
    fileprivate var httpStatus: Status {
        switch status {
        case .applied, .noop, .partial: .ok
        case .conflict: .conflict
        case .rejected: .unprocessableContent
        case .retry: retry == .rateLimited ? .tooManyRequests : .serviceUnavailable
        }
    }
}
