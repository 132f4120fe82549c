import API
import Bytes
import Digests
import Gateway
import HTTP

/// Who may use the console's routes.
///
/// With a credential: a caller that shows it as a bearer token. A browser sends none by itself, so a page elsewhere can do
/// nothing with an operator's browser. Without a credential, as in `carillon dev`: a browser on this machine, by a name that
/// is no other's, from the console's own page. A page elsewhere has another origin, also by a name of its own that leads to
/// 127.0.0.1 (DNS rebinding).
struct ConsoleAccess: Sendable {
    private let credential: [UInt8]?

    init(credential: String?) {
        self.credential = credential.map { Array($0.utf8) }
    }

    /// Whether the page's files are shown. They have nothing that is secret.
    func servesPage(to request: HTTPRequest) -> Bool { credential != nil || request.isLocal }

    /// Why the request is not answered; nil if it is.
    func refusal(of request: HTTPRequest) -> HTTPResponse? {
        // Browsers name the origin of each request that may change something, and of all that come from elsewhere.
        if request.origin != nil, !request.isOfOwnOrigin {
            return .problem(.forbidden, "Only the console's own page may ask.")
        }
        guard let credential else {
            if !request.isLocal {
                return .problem(
                    .forbidden, "Without console.credential, the console is for this machine: use http://127.0.0.1.")
            }
            if request.method != .get, request.origin == nil {
                return .problem(.forbidden, "Only the console's own page may ask.")
            }
            return nil
        }
        guard let token = request.bearerToken, Self.isSame(Array(token.utf8), credential) else {
            return .problem(.unauthorized, "Show the credential of the console as a bearer token.")
                .with("WWW-Authenticate", "Bearer")
        }
        return nil
    }

    /// The digests are compared, so that the time says nothing of how much of a guess is right.
    private static func isSame(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        let digests = [left, right].map { bytes in bytes.withUnsafeBytes { SHA256.hash($0).hex } }
        return digests[0] == digests[1]
    }
}
