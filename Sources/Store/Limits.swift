/// The bounds of this target, in one place.
package enum StoreLimits {
    /// Actions that may wait for their turn unless configured otherwise; one more is answered `retry`.
    package static let waitingMax = 10_000
    /// The same of one user.
    package static let waitingPerUserMax = 1_000
    /// Connections that write.
    package static let connectionsMax = 64
    /// Senders of each kind whose rate is known.
    package static let bucketsMax = 100_000
    /// A sender that is too fast is told to wait for so many seconds' worth of tokens.
    static let refillSeconds = 0.25
    /// Executions of one action that lose a race before it is answered `retry`.
    static let racesMax = 3
    /// Connections that one action may be lost with before it is answered `retry`: it may be what ends them.
    static let lossesMax = 5
    /// Different failures that the log tells of.
    static let complaintsMax = 100
}
