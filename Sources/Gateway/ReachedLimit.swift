/// A limit that a client has reached and was stopped for, by the name of its setting, or of what it bounds.
enum ReachedLimit: String, CaseIterable {
    case handshakeTimeout
    case messageTimeout
    case pongTimeout
    case unackedTimeout
    case stalledTimeout = "limits.stalledTimeout"
    case requestRate = "limits.requestBytesPerSecond"
    case headBytes = "limits.headBytes"
    case bodyBytes
    case messageBytes = "limits.messageBytes"
    case messageFragments = "limits.messageFragments"
    case messages = "limits.messagesPerSecond"
    case controlFrames = "limits.controlFramesPerSecond"
    case sendQueue = "limits.sendQueueBytes"
    /// Requests sent ahead of their answers: they wait, and the connection stays.
    case pipelining
}
