import Clock

/// The bounds of pushes.
package enum PushLimits {
    /// Requests in flight to APNs, and to FCM. They share few connections.
    package static let requestsOfService = 256
    /// Requests in flight to the webhook, unless the settings say otherwise. Each may have a connection of its own.
    package static let requestsOfWebhook = 32
    /// Connections to one host of APNs or FCM.
    package static let connectionsOfHost = 8
    /// Requests that share a connection; a server may allow fewer.
    package static let streamsOfConnection = 256
    /// Connections to all hosts but the webhook's: APNs has two, FCM has one beside Google's for access tokens.
    static let connectionsOfServices = 4 * connectionsOfHost
    /// Bytes of an answer's head and body. More is not read.
    static let answerBytesMax = 16 << 10
    /// Time for name resolution, connecting and the TLS handshake.
    static let connectTimeout = Duration.seconds(5)
    /// Time for a whole request.
    static let requestTimeout = Duration.seconds(10)
    /// How long a connection may acknowledge nothing. Beyond that, its requests go to another one.
    static let silenceMax = Duration.seconds(15)
    /// How long handles of requests that have ended are kept for the next ones: each has some 20 KiB.
    static let spareKept = Duration.seconds(1)
    /// How often one push is sent again at once, with another credential.
    static let resendsMax = 1
    /// When a push is tried again that the provider refused for the hub's own fault.
    static let refusedPause = 60
    /// A push that waited so long for room, while its user had none in flight, was held up by others.
    static let heldUpAfter = Duration.seconds(1)
    /// The time between two lines of the log about one reason.
    static let troublePause = Duration.seconds(60)

    /// Descriptors that pushes may use at once: connections, tried twice while they are made, and name resolutions.
    ///
    /// - Parameter webhook: requests that may be in flight to the webhook.
    package static func descriptorsMax(webhook: Int) -> Int { 3 * (connectionsOfServices + webhook) + 16 }
}
