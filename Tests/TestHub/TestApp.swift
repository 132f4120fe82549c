import HubEngine
import Pusher

/// One of a test's several apps.
package struct TestApp {
    package var number = 0
    package var key: String?
    package var secret = "secret"
    package var previousSecret: String?
    package var ownsDatabase = false
    package var features = AppFeatures()
    package var limits = AppLimits()

    package init(_ number: Int = 0, _ change: (inout TestApp) -> Void = { _ in }) {
        self.number = number
        change(&self)
    }

    package var app: App {
        App(
            id: "\(number + 1)",
            credentials: AppCredentials(key: key ?? "key\(number)", secret: secret, previousSecret: previousSecret),
            index: number, ownsDatabase: ownsDatabase, features: features, limits: limits)
    }

    package var path: String { "/app/\(key ?? "key\(number)")?protocol=7" }
}

extension TestClient {
    /// Opens a connection and reads its first message.
    package static func opened(_ fixture: GatewayFixture, _ app: TestApp) async throws -> (TestClient, socketID: String)
    {
        try await opened(port: fixture.port, path: app.path)
    }

    /// Signs in with the app's signature; reads the answer.
    package func signin(_ user: String, more: String = "", _ app: TestApp, _ socketID: String) async throws {
        let data = #"{"id":"\#(user)"\#(more)}"#
        let auth = app.app.credentials.sign(.user(userData: data), socketID: try Self.id(socketID))
        let escaped = data.replacing("\"", with: "\\\"")
        try await send(#"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(escaped)"}}"#)
        let answer = try await text()
        guard answer.hasPrefix(#"{"event":"pusher:signin_success""#) else { throw Failure(reason: answer) }
    }

    /// Subscribes with the app's signature; reads the answer.
    package func subscribe(_ channel: String, _ app: TestApp, _ socketID: String) async throws {
        guard let name = ChannelName(channel) else { throw Failure(reason: channel) }
        let auth = app.app.credentials.sign(.channel(name, channelData: nil), socketID: try Self.id(socketID))
        try await send(#"{"event":"pusher:subscribe","data":{"auth":"\#(auth)","channel":"\#(channel)"}}"#)
        let answer = try await text()
        guard answer.contains("subscription_succeeded") else { throw Failure(reason: answer) }
    }

    /// Subscribes to a presence channel as that user; gives the answer.
    package func enter(
        _ channel: String, as user: String, info: String = "{}", _ app: TestApp, _ socketID: String
    ) async throws -> String {
        guard let name = ChannelName(channel) else { throw Failure(reason: channel) }
        let data = #"{"user_id":"\#(user)","user_info":\#(info)}"#
        let auth = app.app.credentials.sign(.channel(name, channelData: data), socketID: try Self.id(socketID))
        let quoted = data.replacing("\"", with: "\\\"")
        try await send(
            #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)","auth":"\#(auth)","channel_data":"\#(quoted)"}}"#
        )
        return try await text()
    }

    private static func id(_ text: String) throws -> SocketID {
        guard let id = Array(text.utf8).withUnsafeBytes({ SocketID($0) }) else { throw Failure(reason: text) }
        return id
    }

    package func text() async throws -> String {
        let next = try await next()
        guard case .text(let text) = next else { throw Failure(reason: "\(next)") }
        return text
    }

    /// Whether the connection is open, with nothing before its answer.
    package func answersPing() async throws -> Bool {
        try await send(#"{"event":"pusher:ping"}"#)
        return try await next() == .text(#"{"event":"pusher:pong","data":"{}"}"#)
    }
}
