/// A limit that a client has reached and was stopped for, by the name of its setting, or of what it bounds. Those of memory
/// that a slow one takes up are `overload_closings_total`'s.
enum ReachedLimit: String, CaseIterable {
    case handshakeTimeout
    case messageTimeout
    case pongTimeout
    case unackedTimeout
    case requestRate = "limits.requestBytesPerSecond"
    case headBytes = "limits.headBytes"
    case bodyBytes
    case messageBytes = "limits.messageBytes"
    case messageFragments = "limits.messageFragments"
    case messages = "limits.messagesPerSecond"
    case controlFrames = "limits.controlFramesPerSecond"
    /// Requests sent ahead of their answers: they wait, and the connection stays.
    case pipelining
}
