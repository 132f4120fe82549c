import Channels
import Foundation
import Pusher

@testable import Gateway

/// One of several apps of a test.
struct TestApp {
    var number = 0
    var key: String?
    var secret = "secret"
    var previousSecret: String?
    var ownsDatabase = false
    var features = AppFeatures()
    var limits = AppLimits()

    init(_ number: Int = 0, _ change: (inout TestApp) -> Void = { _ in }) {
        self.number = number
        change(&self)
    }

    var app: App {
        App(
            id: "\(number + 1)",
            credentials: AppCredentials(key: key ?? "key\(number)", secret: secret, previousSecret: previousSecret),
            index: number, ownsDatabase: ownsDatabase, features: features, limits: limits)
    }

    var path: String { "/app/\(key ?? "key\(number)")?protocol=7" }
}

/// Holds the verification of tokens up until it is told to let them pass: a thread of the pool waits here.
///
/// `@unchecked Sendable`: all is touched under the condition's lock alone.
final class Toll: @unchecked Sendable {
    private let condition = NSCondition()
    private var isOpen = true
    private var waiting = 0

    func close() { condition.withLock { isOpen = false } }

    func open() {
        condition.withLock {
            isOpen = true
            condition.broadcast()
        }
    }

    func pass() {
        condition.withLock {
            waiting += 1
            condition.broadcast()
            while !isOpen { condition.wait() }
            waiting -= 1
        }
    }

    /// Waits for one that is held up.
    func awaitSomebody() {
        condition.withLock { while waiting == 0 { condition.wait() } }
    }
}

extension GatewayFixture {
    /// Has all of the user's connections closed; returns when all loops have said that they are.
    func terminate(_ user: String, of app: App) async {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(
                .ask { loop in
                    let answer = { @Sendable in continuation.resume() }
                    if loop.directory.terminate(user, of: app, answer) != nil { continuation.resume() }
                })
        }
    }
}

extension GatewayFixture {
    /// What `body` finds on the first loop.
    func inLoop<Result: Sendable>(_ body: @escaping @Sendable (ClientLoop) -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            gateway.context.mailboxes[0].post(.ask { continuation.resume(returning: body($0)) })
        }
    }
}

extension ClientLoop {
    /// All that are open or were until now.
    var connections: [Connection] {
        var found: [Connection] = []
        loop.forEachSource { source in
            if let connection = source as? Connection { found.append(connection) }
        }
        return found
    }
}

extension TestClient {
    /// Opens a connection and reads its first message.
    static func opened(_ fixture: GatewayFixture, _ app: TestApp) async throws -> (TestClient, socketID: String) {
        try await opened(port: fixture.port, path: app.path)
    }

    /// Signs in by the app's signature; reads the answer.
    func signin(_ user: String, more: String = "", _ app: TestApp, _ socketID: String) async throws {
        let data = #"{"id":"\#(user)"\#(more)}"#
        let auth = app.app.credentials.sign(.user(userData: data), socketID: try Self.id(socketID))
        let escaped = data.replacing("\"", with: "\\\"")
        try await send(#"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(escaped)"}}"#)
        let answer = try await text()
        guard answer.hasPrefix(#"{"event":"pusher:signin_success""#) else { throw Failure(reason: answer) }
    }

    /// Subscribes by the app's signature; reads the answer.
    func subscribe(_ channel: String, _ app: TestApp, _ socketID: String) async throws {
        guard let name = ChannelName(channel) else { throw Failure(reason: channel) }
        let auth = app.app.credentials.sign(.channel(name, channelData: nil), socketID: try Self.id(socketID))
        try await send(#"{"event":"pusher:subscribe","data":{"auth":"\#(auth)","channel":"\#(channel)"}}"#)
        let answer = try await text()
        guard answer.contains("subscription_succeeded") else { throw Failure(reason: answer) }
    }

    private static func id(_ text: String) throws -> SocketID {
        guard let id = Array(text.utf8).withUnsafeBytes({ SocketID($0) }) else { throw Failure(reason: text) }
        return id
    }

    func text() async throws -> String {
        let next = try await next()
        guard case .text(let text) = next else { throw Failure(reason: "\(next)") }
        return text
    }

    /// The connection is open, and nothing else comes before its answer.
    func answersPing() async throws -> Bool {
        try await send(#"{"event":"pusher:ping"}"#)
        return try await next() == .text(#"{"event":"pusher:pong","data":"{}"}"#)
    }
}
