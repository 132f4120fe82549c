import Bytes
import Gateway
import HTTP
import JSON

/// The demonstration of `carillon dev` at `/demo`: a page with two phones, to which `/` leads, and `POST /demo/token`, which
/// gives this page tokens of its user. Only for browsers of this machine.
///
/// A page elsewhere must get no token. Its requests have its own origin, and by a name of its own that leads to 127.0.0.1
/// (DNS rebinding) they have its name as the host: both are refused.
package struct DemonstrationRoutes: Sendable {
    /// A token of the user, and what a client needs beside it.
    package struct Pass: Sendable {
        let token: String
        let seconds: Int

        /// - Parameter seconds: how long the token is good.
        package init(token: String, seconds: Int) {
            self.token = token
            self.seconds = seconds
        }
    }

    static let path = "/demo"
    static let tokenPath = "/demo/token"

    private let key: String
    private let user: String
    private let zone: String
    private let pass: @Sendable () async throws -> Pass

    /// - Parameters:
    ///   - key: the key of the app that owns the database.
    ///   - user: the demonstration's user, who lives in `zone`.
    ///   - pass: makes a token of the user.
    package init(key: String, user: String, zone: String, pass: @escaping @Sendable () async throws -> Pass) {
        self.key = key
        self.user = user
        self.zone = zone
        self.pass = pass
    }

    /// Whether the path is one of the demonstration's.
    static func owns(_ path: String) -> Bool { path == "/" || path == Self.path || path.hasPrefix("/demo/") }

    /// Answers at once, or returns nil and has `answer` called later.
    func respond(to request: HTTPRequest, _ answer: @escaping @Sendable (HTTPResponse) -> Void) -> HTTPResponse? {
        guard request.isLocal else {
            return .problem(.forbidden, "The demonstration is for browsers of its own machine: use http://127.0.0.1.")
        }
        if request.path == Self.tokenPath { return token(for: request, answer) }
        let path = [Self.path, "/demo/", "/"].contains(request.path) ? "/demo/index.html" : request.path
        guard let file = WebFile.demonstration[path] else {
            return .problem(.notFound, "The demonstration has no such file.")
        }
        guard request.method == .get || request.method == .head else {
            return .problem(.methodNotAllowed, "Use GET.").with("Allow", "GET, HEAD")
        }
        if request.path == "/" { return HTTPResponse(.found).with("Location", Self.path) }
        return file.guardedResponse(to: request)
    }

    private func token(
        for request: HTTPRequest, _ answer: @escaping @Sendable (HTTPResponse) -> Void
    ) -> HTTPResponse? {
        guard request.method == .post else {
            return .problem(.methodNotAllowed, "Use POST.").with("Allow", "POST")
        }
        guard request.isOfOwnOrigin else {
            return .problem(.forbidden, "Only the demonstration's own page gets this token.")
        }
        Task(priority: .medium) {
            do {
                answer(WebFile.guarded(body(of: try await pass())).with("Cache-Control", "no-store"))
            } catch {
                answer(.problem(.serviceUnavailable, "No token can be made."))
            }
        }
        return nil
    }

    private func body(of pass: Pass) -> HTTPResponse {
        var body = ByteWriter(capacity: 512)
        body.append(#"{"token":"#)
        body.append(jsonString: pass.token)
        body.append(#","key":"#)
        body.append(jsonString: key)
        body.append(#","user":"#)
        body.append(jsonString: user)
        body.append(#","zone":"#)
        body.append(jsonString: zone)
        body.append(#","seconds":"#)
        body.append(decimal: pass.seconds)
        body.append("}\n")
        return HTTPResponse(.ok, body: body.array)
    }
}
