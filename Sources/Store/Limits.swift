/// The bounds of this target, in one place.
package enum StoreLimits {
    /// Actions that may wait for their turn unless configured otherwise; one more is answered `retry`.
    package static let waitingMax = 10_000
    /// The same of one user.
    package static let waitingPerUserMax = 1_000
}
