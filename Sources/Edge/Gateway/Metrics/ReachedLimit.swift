/// A limit that stopped a client, by the name of its setting, or of what it bounds where no setting changes it. Limits of
/// memory that slow clients take up are counted in `overload_closings_total`.
package enum ReachedLimit: String, CaseIterable, Sendable {
    case handshakeTimeout
    case messageTimeout
    case pongTimeout
    case unackedTimeout
    case requestRate = "limits.requestBytesPerSecond"
    /// Requests without a good token or signature, and event streams of one user.
    case strangerRequests = "limits.requestsPerSecond"
    case headBytes = "limits.headBytes"
    case bodyBytes = "limits.bodyBytes"
    /// The body of a user's request.
    case userBodyBytes
    case messageBytes = "limits.messageBytes"
    case messageFragments = "limits.messageFragments"
    /// Empty blocks in a compressed message.
    case messagePadding
    case messages = "limits.messagesPerSecond"
    case controlFrames = "limits.controlFramesPerSecond"
    /// Subscribes that would have made one more channel than the hub, or the app, has room for.
    case channels = "limits.channels"
    case appChannels = "apps[].limits.channels"
    case streamsPerUser = "limits.streamsPerUser"
    /// Streams of all users. A client that asks for one more comes back later.
    case streams
    /// New keys requested over TLS.
    case keyUpdates
    /// Requests sent ahead of their answers: they wait, and the connection stays.
    case pipelining

    /// Whether this is ordinary coming and going: clients lose their network, or open connections in advance.
    var isRoutine: Bool { [.handshakeTimeout, .pongTimeout, .unackedTimeout].contains(self) }
}
