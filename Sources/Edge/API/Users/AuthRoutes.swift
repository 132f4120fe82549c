import Bytes
import Gateway
import HTTP
import HubEngine
import Identity
import JSON
import Pusher
import Sync

/// `POST /pusher/auth` and `POST /pusher/user-auth`: the auth endpoints that an app's backend would otherwise offer, for
/// users with a bearer token of the app (Pusher's "Authorizing users" and "Authenticating users").
///
/// Form fields, as Pusher's clients send them: `socket_id`, and `channel_name` for a channel. A token admits to its user's
/// own channels only; the app's backend signs other private channels. The signature carries the token's times: it expires
/// with the token, and revoking the user ends it.
package struct AuthRoutes: Sendable {
    static let channelPath = "/pusher/auth"
    static let userPath = "/pusher/user-auth"

    /// Only the id: the app's value is replaced when its secret changes.
    let appID: String
    private let bearer: BearerUser

    /// Signs for `app` what a verified token proves.
    package init(app: App, verifier: TokenVerifier) {
        appID = app.id
        bearer = BearerUser(verifier: verifier)
    }

    /// Returns an answer at once if the request itself is wrong; otherwise `answer` gets it after the token is verified.
    func respond(
        to request: HTTPRequest, _ channels: any ChannelDirectory, _ answer: @escaping @Sendable (HTTPResponse) -> Void
    ) -> HTTPResponse? {
        guard let token = request.bearerToken else { return BearerUser.missing }
        let subject: Subject
        do throws(RequestProblem) {
            subject = try self.subject(of: request)
        } catch {
            return .problem(error.status, error.message)
        }
        guard let credentials = channels.app(id: appID)?.credentials else {
            return .problem(.notFound, "This hub does not serve the app any more.")
        }
        bearer.verifyToken(token, refuse: answer) { answer(sign(subject, by: credentials, for: $0)) }
        return nil
    }

    private enum Subject: Sendable {
        case channel(ChannelName, SocketID)
        case user(SocketID)
    }

    private struct RequestProblem: Error {
        let status: Status
        let message: StaticString
    }

    private func subject(of request: HTTPRequest) throws(RequestProblem) -> Subject {
        if let type = request.contentType, !type.lowercased().hasPrefix("application/x-www-form-urlencoded") {
            throw RequestProblem(
                status: .unsupportedMediaType, message: "Send a form: application/x-www-form-urlencoded.")
        }
        let (socket, channel) = request.body.withUnsafeBytes {
            (FormReader.value("socket_id", in: $0), FormReader.value("channel_name", in: $0))
        }
        guard let socketID = socket.flatMap({ text in Array(text.utf8).withUnsafeBytes { SocketID($0) } }) else {
            throw RequestProblem(status: .badRequest, message: "socket_id is missing or not one.")
        }
        guard request.path == Self.channelPath else { return .user(socketID) }
        guard let name = channel.flatMap({ ChannelName($0) }) else {
            throw RequestProblem(status: .badRequest, message: "channel_name is missing or not one.")
        }
        return .channel(name, socketID)
    }

    private func sign(_ subject: Subject, by credentials: AppCredentials, for token: VerifiedToken) -> HTTPResponse {
        var body = ByteWriter(capacity: 256)
        body.append(#"{"auth":"#)
        switch subject {
        case .channel(let name, let socketID):
            guard let stream = try? StreamName.parse(name.string), stream.stream.user.hasSameBytes(as: token.userID)
            else { return .problem(.forbidden, "This channel is not the token's user's.") }
            // Carries the token's times, so the signature does not outlast the token.
            let times = GrantTimes(issuedAt: token.issuedAt, expiresAt: token.expiresAt)
            body.append(jsonString: credentials.sign(name, grant: times, socketID: socketID))
        case .user(let socketID):
            var data = ByteWriter(capacity: 128)
            // A token without an issue time counts as old; otherwise a revocation could not end its session.
            UserData.append(
                id: token.userID, issuedAt: token.issuedAt ?? 0, expiresAt: token.expiresAt, to: &data)
            body.append(jsonString: credentials.sign(.user(userData: data.string), socketID: socketID))
            body.append(#","user_data":"#)
            body.append(jsonString: data.string)
        }
        body.append("}")
        return HTTPResponse(.ok, body: body.array)
    }
}
