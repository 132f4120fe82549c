import Gateway
import HTTP
import HubEngine
import Pusher
import Sync

/// Event streams by HTTP: `GET /users/{userId}/events?topics=` for a user's streams, and `GET /app/{key}/events?channels=`
/// for channels that need no signature. These routes read the request; the gateway verifies the token and streams.
struct EventStreamRoutes: Sendable {
    static let userPath = PathPattern("/users/{userId}/events")
    static let appPath = PathPattern("/app/{key}/events")

    /// Whose events a path means.
    enum Target: Sendable {
        case user(String)
        case app(key: String)
    }

    /// Ordinary channels in one request. A user's topics are bounded by the id that names them all (`EventStreamID`).
    static let channelsMax = 100

    /// The app that owns the database; nil where none does.
    let appID: String?

    static func target(_ path: String) -> Target? {
        if let user = userPath.captures(of: path)?.first { return .user(user) }
        return appPath.captures(of: path)?.first.map { .app(key: $0) }
    }

    func response(
        to request: HTTPRequest, _ target: Target, _ channels: any ChannelDirectory
    ) -> HTTPResponse {
        switch target {
        case .user(let user): ofUser(user, request, channels)
        case .app(let key): ofApp(key, request, channels)
        }
    }

    private func ofUser(_ user: String, _ request: HTTPRequest, _ channels: any ChannelDirectory) -> HTTPResponse {
        guard let app = appID.flatMap({ channels.app(id: $0) }) else {
            return .problem(.notFound, "This hub has no database, so it knows no users.")
        }
        guard let token = request.bearerToken else { return BearerUser.missing }
        guard let topics = Self.list("topics", request),
            topics.allSatisfy({ Array($0.utf8).withUnsafeBytes { StreamName.isTopic($0) } }),
            EventStreamRequest.channels(of: user, topics) != nil
        else { return .problem(.badRequest, "topics must name one topic or more, such as adherence,reminders.") }
        let idBytes = topics.reduce(0) { $0 + $1.utf8.count + EventStreamID.positionBytesMax }
        guard idBytes <= EventStreamID.bytesMax else {
            return .problem(
                .badRequest, "topics names too many topics for one stream: ask for some of them on another.")
        }
        guard let positions = EventStreamID.positions(request.lastEventID ?? "") else {
            return .problem(.badRequest, "Last-Event-ID is not an id of this stream. Leave it out to begin anew.")
        }
        return HTTPResponse(
            EventStreamRequest(of: app.index, .user(user, topics: topics, from: positions, token: token)))
    }

    private func ofApp(_ key: String, _ request: HTTPRequest, _ channels: any ChannelDirectory) -> HTTPResponse {
        guard let app = channels.app(key: key) else {
            return .problem(.notFound, "This hub serves no app with this key.")
        }
        guard let texts = Self.list("channels", request), texts.count <= Self.channelsMax else {
            return .problem(.badRequest, "channels must name one channel or more, separated by commas.")
        }
        var names: [ChannelName] = []
        for text in texts {
            guard let name = ChannelName(text) else { return .problem(.badRequest, "channels has an invalid name.") }
            guard !name.kind.needsAuthentication else {
                return .problem(.forbidden, "A channel that needs a signature cannot be streamed. Use a WebSocket.")
            }
            // Names that belong to users are guarded; one that is no good name of a user's is not offered either.
            guard !app.ownsDatabase || !text.hasPrefix("user.") else {
                return .problem(.forbidden, "A user's channels are at /users/{userId}/events.")
            }
            names.append(name)
        }
        return HTTPResponse(EventStreamRequest(of: app.index, .channels(names)))
    }

    /// The members of a parameter, without repetition, in order; nil where there is none, or it is given twice.
    private static func list(_ name: StaticString, _ request: HTTPRequest) -> [String]? {
        let text = request.query.withUnsafeBytes { query in
            FormReader.isRepeated(name, in: query) ? "" : FormReader.value(name, in: query) ?? ""
        }
        var found: [String] = []
        for part in text.split(separator: ",").map(String.init) where !found.contains(part) { found.append(part) }
        return found.isEmpty ? nil : found
    }
}
