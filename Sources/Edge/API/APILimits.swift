/// The bounds of this target; each is the largest number allowed.
package enum APILimits {
    /// Bytes of the body of a user's request. `HTTPLimits` bounds the bodies of backends.
    package static let userBodyBytes = 65_536
    /// Objects that one request may append.
    package static let appendedAtOnce = 100
    /// Bytes of an `Idempotency-Key` of a publish.
    package static let idempotencyKeyBytes = 255
    /// Bytes of the answers kept for repeated keys, all keys together.
    package static let keptAnswerBytes = 16 << 20
    /// Signatures that `ReplayGuard` remembers: 3,000 calls a second for as long as a signature is valid, at slightly more
    /// than 32 bytes each. One app gets at most four fifths.
    package static let seenCalls = 2_000_000
    /// Channels that one answer names.
    package static let channelsNamed = 100_000
}
