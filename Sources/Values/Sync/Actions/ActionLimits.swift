/// Limits of the fields that the hub reads, in bytes unless noted.
package enum ActionLimits {
    package static let keyBytes = 200
    package static let deviceIDBytes = 200
    package static let typeBytes = 64
    package static let timeZoneBytes = 64
    /// The largest integer that JavaScript counts to.
    package static let numberMax: Int64 = 1 << 53
    /// Levels of nesting in an action, including the action itself.
    package static let depth = 32
}
