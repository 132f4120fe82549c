import Bytes
import HTTP
import Pusher

/// A parsed path of Pusher's HTTP API (pusher.md §2): `/apps/{id}/…`, or `/users/{id}/terminate_connections`, which
/// pusher-http-python calls without an app.
struct PusherPath: Sendable {
    /// The call; the raw value is its label in metrics.
    enum Route: String, CaseIterable, Sendable {
        case events, batchEvents = "batch_events", channels, channel, users
        case terminate = "terminate_connections"
        case channelEvents = "channel_events", channelStats = "channel_stats"

        /// Whether the call changes anything, and so must be a POST.
        var isPost: Bool {
            switch self {
            case .events, .batchEvents, .terminate, .channelEvents: true
            case .channels, .channel, .users, .channelStats: false
            }
        }
    }

    /// The app's id; nil if the path does not contain it.
    let app: String?
    /// Nil if the hub has no such call.
    let route: Route?
    /// The channel or user in the path, decoded.
    let subject: String

    /// Nil if the path belongs to other routes.
    init?(_ path: String) {
        var path = path
        let parts: (String?, Route?, String)? = path.withUTF8 { bytes in
            let path = UnsafeRawBufferPointer(bytes)
            if path.hasPrefix(Self.appsPrefix) { return Self.ofApp(path) }
            guard let user = Self.terminated(path, behind: Self.usersPrefix.utf8CodeUnitCount, Self.usersPrefix) else {
                return nil
            }
            return (nil, .terminate, user)
        }
        guard let parts else { return nil }
        (app, route, subject) = parts
    }

    private static let appsPrefix: StaticString = "/apps/"
    private static let usersPrefix: StaticString = "/users/"
    private static let slash = UInt8(ascii: "/")

    private static func ofApp(_ path: UnsafeRawBufferPointer) -> (String?, Route?, String) {
        let start = appsPrefix.utf8CodeUnitCount
        let end = path.firstIndex(of: slash, from: start) ?? path.count
        let app = path.part(start..<end).string
        let rest = path.part(end..<path.count)
        if rest.equals("/events") { return (app, .events, "") }
        if rest.equals("/batch_events") { return (app, .batchEvents, "") }
        if rest.equals("/channels") { return (app, .channels, "") }
        if let user = terminated(rest, behind: usersPrefix.utf8CodeUnitCount, usersPrefix) {
            return (app, .terminate, user)
        }
        guard rest.hasPrefix("/channels/") else { return (app, nil, "") }
        let tail = rest.part(10..<rest.count)
        let nameEnd = tail.firstIndex(of: slash, from: 0) ?? tail.count
        guard let name = Percent.decodeString(tail.part(0..<nameEnd)) else { return (app, nil, "") }
        let what = tail.part(nameEnd..<tail.count)
        if what.count == 0 { return (app, .channel, name) }
        if what.equals("/users") { return (app, .users, name) }
        if what.equals("/events") { return (app, .channelEvents, name) }
        if what.equals("/stats") { return (app, .channelStats, name) }
        return (app, nil, "")
    }

    /// The user of `/users/{id}/terminate_connections`; nil for other paths.
    private static func terminated(
        _ path: UnsafeRawBufferPointer, behind start: Int, _ prefix: StaticString
    ) -> String? {
        guard path.hasPrefix(prefix), let end = path.firstIndex(of: slash, from: start), end > start,
            path.part(end..<path.count).equals("/terminate_connections")
        else { return nil }
        return Percent.decodeString(path.part(start..<end))
    }
}
