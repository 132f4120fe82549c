/// A limit that a client has reached and was stopped for, by the name of its setting, or of what it bounds. Those of memory
/// that a slow one takes up are `overload_closings_total`'s.
package enum ReachedLimit: String, CaseIterable, Sendable {
    case handshakeTimeout
    case messageTimeout
    case pongTimeout
    case unackedTimeout
    case requestRate = "limits.requestBytesPerSecond"
    case headBytes = "limits.headBytes"
    case bodyBytes = "limits.bodyBytes"
    /// Of a request of a user's, which no setting moves.
    case userBodyBytes
    case messageBytes = "limits.messageBytes"
    case messageFragments = "limits.messageFragments"
    /// Blocks of nothing in a compressed message, which no setting moves.
    case messagePadding
    case messages = "limits.messagesPerSecond"
    case controlFrames = "limits.controlFramesPerSecond"
    /// Subscribes that would have made one more channel than the hub, or the app, has room for.
    case channels = "limits.channels"
    case appChannels = "apps[].limits.channels"
    case streamsPerUser = "limits.streamsPerUser"
    /// Streams of all users, which no setting moves: a client that asks for one more comes back later.
    case streams
    /// New keys asked for over TLS.
    case keyUpdates
    /// Requests sent ahead of their answers: they wait, and the connection stays.
    case pipelining

    /// Whether that is how clients come and go: they lose their network, or open connections to be ready.
    var isRoutine: Bool { [.handshakeTimeout, .pongTimeout, .unackedTimeout].contains(self) }
}
