import Bytes
import Clock

/// A token bucket per sender, refilled steadily up to a burst. A full bucket equals none, so only recent senders are kept.
struct TokenBuckets {
    private static let sweepInterval = Duration.seconds(1)

    private let rate: Rate
    private let bucketsMax: Int
    private var buckets: [TextKey: Allowance] = [:]
    private var sweptAt = Instant.min

    /// - Parameter bucketsMax: senders kept; beyond them new senders are not limited.
    init(_ rate: Rate, bucketsMax: Int = StoreLimits.bucketsMax) {
        self.rate = rate
        self.bucketsMax = bucketsMax
    }

    var count: Int { buckets.count }

    /// How long this sender must wait; nil if it has a token. Takes no token.
    ///
    /// Longer than until the next token, so that a sender of many actions gets several at once.
    func wait(_ sender: TextKey, now: Instant) -> Duration? {
        guard let bucket = buckets[sender], let wait = bucket.wait(rate, at: now) else { return nil }
        let refill = bucket.wait(rate, at: now, forThatOf: StoreLimits.refillTime) ?? .zero
        return .milliseconds(min(60_000, max(wait, refill).millisecondsRoundedUp))
    }

    /// Takes the token that `wait` found. More than one may leave the sender in debt, up to a whole burst.
    mutating func take(_ sender: TextKey, _ count: Int = 1, now: Instant) {
        guard rate.isBounded else { return }
        if buckets[sender] == nil, buckets.count >= bucketsMax {
            guard now.duration(since: sweptAt) >= Self.sweepInterval else { return }
            sweptAt = now
            buckets = buckets.filter { $0.value.isTouched(at: now) }
            guard buckets.count < bucketsMax else { return }
        }
        buckets[sender, default: Allowance()].charge(rate, at: now, cost: count)
    }

    /// Returns a token.
    mutating func giveBack(_ sender: TextKey, now: Instant) {
        buckets[sender]?.giveBack(rate)
    }
}
