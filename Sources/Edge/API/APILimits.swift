/// The bounds of this target; each is the largest number allowed.
package enum APILimits {
    /// Bytes of the body of a request of a user's; those of backends have a bound of their own (`HTTPLimits`).
    package static let userBodyBytes = 65_536
    /// Objects that one request appends.
    package static let appendedAtOnce = 100
    /// Bytes of an `Idempotency-Key` of a publish.
    package static let idempotencyKeyBytes = 255
    /// Bytes of the answers that are kept for repeats, of all keys.
    package static let keptAnswerBytes = 16 << 20
    /// Signatures remembered, where calls that come again are refused: 3,000 calls a second over the time that a signature
    /// is good for, in 32 bytes each or a little more. One app has four fifths of them at most.
    package static let seenCalls = 2_000_000
    /// Channels that one answer names.
    package static let channelsNamed = 100_000
}
