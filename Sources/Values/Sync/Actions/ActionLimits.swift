/// Limits of the fields that the hub reads, in bytes unless noted.
package enum ActionLimits {
    /// The idempotency key.
    package static let keyBytes = 200
    /// The device's id.
    package static let deviceIDBytes = 200
    /// The action's type.
    package static let typeBytes = 64
    /// The time zone's name.
    package static let timeZoneBytes = 64
    /// The largest integer that JavaScript counts to.
    package static let numberMax: Int64 = 1 << 53
    /// Levels of nesting in an action, including the action itself.
    package static let depth = 32
}
