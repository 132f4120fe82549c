import Bytes
import Clock

/// How fast each of many senders may act: a token for each action, refilled steadily up to a burst.
///
/// A full bucket is as good as none, so only senders of the last moments are kept.
struct TokenBuckets {
    private static let sweepInterval = Duration.seconds(1)

    private let rate: Rate
    private let bucketsMax: Int
    private var buckets: [TextKey: Allowance] = [:]
    private var sweptAt = Instant.min

    /// - Parameter bucketsMax: senders kept; beyond them new ones are not limited.
    init(_ rate: Rate, bucketsMax: Int = StoreLimits.bucketsMax) {
        self.rate = rate
        self.bucketsMax = bucketsMax
    }

    /// Senders kept.
    var count: Int { buckets.count }

    /// How long this sender has to wait; `nil` where a token is there. Takes none.
    ///
    /// Not merely until the next token: a sender of many actions should come for several at once, and not be refused
    /// for each.
    func wait(_ sender: TextKey, now: Instant) -> Duration? {
        guard let bucket = buckets[sender], let wait = bucket.wait(rate, at: now) else { return nil }
        let refill = bucket.wait(rate, at: now, forThatOf: StoreLimits.refillTime) ?? .zero
        return .milliseconds(min(60_000, max(wait, refill).millisecondsRoundedUp))
    }

    /// Takes a token, which `wait` has found.
    mutating func take(_ sender: TextKey, now: Instant) {
        guard rate.isBounded else { return }
        if buckets[sender] == nil, buckets.count >= bucketsMax {
            guard now.duration(since: sweptAt) >= Self.sweepInterval else { return }
            sweptAt = now
            buckets = buckets.filter { $0.value.isTouched(at: now) }
            guard buckets.count < bucketsMax else { return }
        }
        _ = buckets[sender, default: Allowance()].take(rate, at: now)
    }

    /// Gives one back.
    mutating func giveBack(_ sender: TextKey, now: Instant) {
        buckets[sender]?.giveBack(rate)
    }
}
