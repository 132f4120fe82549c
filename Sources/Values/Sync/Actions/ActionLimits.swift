/// The bounds of what the hub itself looks at; in bytes where nothing else is said.
package enum ActionLimits {
    package static let keyBytes = 200
    package static let deviceIDBytes = 200
    package static let typeBytes = 64
    package static let timeZoneBytes = 64
    /// The largest number that JavaScript counts to.
    package static let numberMax: Int64 = 1 << 53
    /// Levels of nesting in an action, the action included.
    package static let depth = 32
}
