import Foundation

/// What a connection to a hub tells.
public enum SocketEvent: Sendable, Equatable {
    /// A message of text.
    case text(String)
    /// The connection has ended; 1006 where the peer has not said why.
    case closed(code: Int, reason: String)

    /// The message.
    var text: String? {
        guard case .text(let text) = self else { return nil }
        return text
    }
}

/// An open WebSocket.
public protocol TransportSocket: Sendable {
    /// What the peer says, until `closed`, which is the last.
    var inbox: SocketInbox { get }
    /// Sends a message of text. What cannot be sent is lost: `closed` follows.
    func send(_ text: String)
    /// Ends the connection.
    func close()
}

/// The answer to a request by HTTP.
public struct TransportReply: Sendable {
    /// The status.
    public let status: Int
    /// The fields of its head, by lower-case names.
    public let fields: [String: String]
    /// The body.
    public let body: [UInt8]

    /// An answer.
    public init(status: Int, fields: [String: String], body: [UInt8]) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// The network, as the client uses it: WebSockets, and GET by HTTP.
///
/// Each takes `https` and `wss`; without TLS only loopback is allowed, which `CarillonClient` checks.
public protocol ClientTransport: Sendable {
    /// Opens a WebSocket.
    func connect(to url: URL) async throws -> any TransportSocket
    /// Fetches a resource, within half a minute.
    func get(_ url: URL, fields: [String: String]) async throws -> TransportReply
}
