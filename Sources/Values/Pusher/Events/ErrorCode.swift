import Bytes

/// A Pusher code for a close frame or `pusher:error`, with its text. Its hundred says what the client does (pusher-js 8.6.0
/// and the protocol page agree): 40 does not come back with these parameters, 41 after a second or more, 42 at once. 43 is
/// not for closing, since clients would not come back: it is sent as `pusher:error` on an open connection.
package struct ErrorCode: Hashable, Sendable {
    /// The number, 4000–4399.
    package let rawValue: UInt16
    /// The text for the close frame or the event.
    package let message: StaticString

    private init(_ rawValue: UInt16, _ message: StaticString) {
        self.rawValue = rawValue
        self.message = message
    }

    /// Compares the numbers.
    package static func == (left: ErrorCode, right: ErrorCode) -> Bool { left.rawValue == right.rawValue }

    /// Hashes the number.
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }

    /// No app has this key.
    package static let unknownApp = ErrorCode(4001, "Application does not exist")
    /// The app's setting `enabled` is false.
    package static let appDisabled = ErrorCode(4003, "Application disabled")
    /// The app has as many connections as it may have.
    package static let overQuota = ErrorCode(4004, "Application is over connection quota")
    /// `protocol` is not a number.
    package static let invalidVersion = ErrorCode(4006, "Invalid version string format")
    /// A protocol version other than 5, 6 and 7.
    package static let unsupportedProtocol = ErrorCode(4007, "Unsupported protocol version")
    /// The app's backend terminated the user's connections. pusher-js does not come back, not even with a good token. So we
    /// use it for nothing else, although Pusher also uses it for connections not authorized in time.
    package static let terminated = ErrorCode(4009, "You got disconnected by the app.")
    /// The hub has no room. Clients reconnect after a second.
    package static let overCapacity = ErrorCode(4100, "Over capacity")
    /// Too many messages from a client. Clients reconnect after a second.
    package static let tooManyMessages = ErrorCode(4100, "Too many messages")
    /// Too many pings or pongs from a client.
    package static let tooManyControlFrames = ErrorCode(4100, "Too many control frames")
    /// Neither signed in nor subscribed with a signature within the app's time limit.
    package static let notAuthorizedInTime = ErrorCode(4100, "Connection not authorized within timeout")
    /// The user's token has expired, and the client sent no other in time.
    package static let tokenExpired = ErrorCode(4109, "Token expired")
    /// Too many tokens in a row were refused. The client needs a new token.
    package static let tokensRefused = ErrorCode(4109, "Too many tokens refused")
    /// The user's access was revoked. The client needs a token or signature issued later.
    package static let accessRevoked = ErrorCode(4110, "Access revoked")
    /// Only for established connections: before `connection_established`, clients loop on it. Only while the address still
    /// accepts connections: pusher-js reconnects at once, and if that fails, after 15 seconds, then 30.
    package static let reconnect = ErrorCode(4200, "Please reconnect")
    /// The client has not answered a ping in time.
    package static let pongTimeout = ErrorCode(4201, "Pong reply not received in time")
    /// The client sends events too quickly. The connection stays open.
    package static let rateLimited = ErrorCode(4301, "Client event rejected due to rate limit")
    /// A user watches too many others. The connection stays open.
    package static let watchlistLimited = ErrorCode(4302, "Watchlist limit exceeded")
}

/// The supported protocol versions.
package enum ProtocolVersion {
    /// From 5 to 7.
    package static let supported = 5...7

    /// Checks the query's `protocol`; a missing one means 7. Returns the close code; nil when fine.
    package static func check(_ value: UnsafeRawBufferPointer?) -> ErrorCode? {
        guard let value, value.count > 0 else { return nil }
        guard value.count <= 9, let version = value.decimalValue else { return .invalidVersion }
        return supported.contains(version) ? nil : .unsupportedProtocol
    }

    /// The WebSocket subprotocol that pusher-websocket-swift offers. Echo it when offered.
    package static let subprotocol: StaticString = "pusher-channels-protocol-7"
}
