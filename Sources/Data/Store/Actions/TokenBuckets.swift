import Bytes
import Clock
import Reactor

/// How fast each of many senders may act: a token for each action, refilled steadily up to a burst.
///
/// A full bucket is as good as none, so only senders of the last moments are kept.
struct TokenBuckets {
    private struct Bucket {
        var tokens: Double
        var filledAt: Instant
    }

    private static let sweepInterval = Duration.seconds(1)

    let rate: ActionRate
    private let bucketsMax: Int
    private var buckets: [TextKey: Bucket] = [:]
    private var sweptAt = Instant(nanoseconds: 0)

    /// - Parameter bucketsMax: senders kept; beyond them new ones are not limited.
    init(_ rate: ActionRate, bucketsMax: Int = StoreLimits.bucketsMax) {
        self.rate = rate
        self.bucketsMax = bucketsMax
    }

    /// Senders kept.
    var count: Int { buckets.count }

    /// How long this sender has to wait; `nil` where a token is there. Takes none.
    ///
    /// Not merely until the next token: whoever has many actions to send should come for several at once, not be
    /// refused for each.
    func wait(_ sender: TextKey, now: Instant) -> Duration? {
        guard rate.perSecond > 0, let bucket = buckets[sender] else { return nil }
        let tokens = filled(bucket, now)
        guard tokens < 1 else { return nil }
        let wanted = max(1, min(rate.burst, rate.perSecond * StoreLimits.refillSeconds))
        return .milliseconds(Int64(min(60_000, ((wanted - tokens) / rate.perSecond * 1_000).rounded(.up))))
    }

    /// Takes a token, which `wait` has found.
    mutating func take(_ sender: TextKey, now: Instant) {
        guard rate.perSecond > 0 else { return }
        if buckets[sender] == nil, buckets.count >= bucketsMax {
            guard now.duration(since: sweptAt) >= Self.sweepInterval else { return }
            sweptAt = now
            buckets = buckets.filter { filled($0.value, now) < rate.burst }
            guard buckets.count < bucketsMax else { return }
        }
        let bucket = buckets[sender] ?? Bucket(tokens: rate.burst, filledAt: now)
        buckets[sender] = Bucket(tokens: filled(bucket, now) - 1, filledAt: now)
    }

    /// Gives one back.
    mutating func giveBack(_ sender: TextKey, now: Instant) {
        guard let bucket = buckets[sender] else { return }
        buckets[sender] = Bucket(tokens: min(rate.burst, filled(bucket, now) + 1), filledAt: now)
    }

    private func filled(_ bucket: Bucket, _ now: Instant) -> Double {
        let elapsed = now.duration(since: bucket.filledAt)
        let seconds = Double(elapsed.wholeNanoseconds) / 1_000_000_000
        return min(rate.burst, bucket.tokens + seconds * rate.perSecond)
    }
}
