import HTTP
import HubEngine
import Pusher
import Sync

/// A good request for an event stream (`text/event-stream`): which channels, for whom, and from where. The gateway verifies
/// the token, and answers with the stream, or with a refusal.
package struct EventStreamRequest: Sendable {
    /// The index of the app.
    let app: Int
    let subject: Subject

    /// What is streamed.
    package enum Subject: Sendable {
        /// The user's streams of these topics, for the bearer of a token of the user. `from`: what the client has of them.
        case user(String, topics: [String], from: [(topic: String, position: StreamPosition)], token: String)
        /// Channels that need no signature.
        case channels([ChannelName])
    }

    /// Whether it is for the bearer of a token.
    package var isOfUser: Bool { if case .user = subject { true } else { false } }

    /// - Parameter app: the app's index.
    package init(of app: Int, _ subject: Subject) {
        (self.app, self.subject) = (app, subject)
    }

    /// The names of the user's streams of these topics; nil where one cannot be written.
    package static func channels(of user: String, _ topics: [String]) -> [String]? {
        let names = topics.map { StreamName(form: .user, stream: StreamID(user: user, topic: $0)).format() }
        return names.contains(nil) ? nil : names.compactMap(\.self)
    }
}

/// A request for a user's event stream whose token is being verified.
final class PendingEventStream {
    let order: EventStreamRequest
    /// The answer, if it is one: the fields that let a page read it.
    let head: HTTPResponse
    let app: App
    /// The field `Origin` of the request.
    let origin: [UInt8]?

    init(_ order: EventStreamRequest, _ head: HTTPResponse, _ app: App, origin: [UInt8]?) {
        (self.order, self.head, self.app, self.origin) = (order, head, app, origin)
    }
}
