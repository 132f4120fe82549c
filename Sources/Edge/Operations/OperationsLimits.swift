import HTTP
import Reactor

/// The bounds of the operations listener.
package enum OperationsLimits {
    /// Open connections. One more closes the oldest.
    package static let connectionsMax = 64
    /// From accept to the end of the connection. A slower one is cut off.
    package static let exchangeTime = Duration.seconds(5)
    /// How long the end of the listener waits for the connections that it has accepted.
    package static let endTime = Duration.seconds(1)
    /// How long accepting rests when the process is out of descriptors.
    static let exhaustionPause = Duration.milliseconds(100)
    static let readBytes = 4096

    /// Requests have no body; those to added routes may.
    static let http: HTTPLimits = {
        var limits = HTTPLimits()
        limits.headBytes = 8192
        limits.bodyBytes = 0
        return limits
    }()
}
