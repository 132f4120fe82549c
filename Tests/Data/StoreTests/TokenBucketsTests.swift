import Bytes
import Clock
import Reactor
import Testing

@testable import Store

/// Rates, by a manual clock.
@Suite struct TokenBucketsTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func at(_ milliseconds: Int) -> Instant {
        start.advanced(by: .milliseconds(milliseconds))
    }

    @Test func aBurstAndThenTheRate() {
        var buckets = TokenBuckets(Rate(perSecond: 10, burst: 3))
        let sender = TextKey("ann")
        for _ in 0..<3 {
            #expect(buckets.wait(sender, now: start) == nil)
            buckets.take(sender, now: start)
        }
        // The wait is for a quarter of a second's worth of tokens, 2.5 of them.
        #expect(buckets.wait(sender, now: start) == .milliseconds(250))
        #expect(buckets.wait(TextKey("bob"), now: start) == nil)
        #expect(buckets.wait(sender, now: at(50)) == .milliseconds(200))
        #expect(buckets.wait(sender, now: at(100)) == nil)
        buckets.take(sender, now: at(100))
        #expect(buckets.wait(sender, now: at(100)) == .milliseconds(250))
        // After that wait, two actions pass and half of the third token is there.
        for _ in 0..<2 {
            #expect(buckets.wait(sender, now: at(350)) == nil)
            buckets.take(sender, now: at(350))
        }
        #expect(buckets.wait(sender, now: at(350)) == .milliseconds(200))
        // Never more than the burst, after any pause.
        for _ in 0..<3 {
            #expect(buckets.wait(sender, now: at(100_000)) == nil)
            buckets.take(sender, now: at(100_000))
        }
        #expect(buckets.wait(sender, now: at(100_000)) != nil)
    }

    /// A list that comes for the last token is paid for before the next one.
    @Test func aListLeavesADebt() {
        var buckets = TokenBuckets(Rate(perSecond: 100, burst: 1_000))
        let sender = TextKey("ann")
        buckets.take(sender, 999, now: start)
        #expect(buckets.wait(sender, now: start) == nil)
        buckets.take(sender, 100, now: start)
        #expect(buckets.wait(sender, now: at(990)) != nil)
        #expect(buckets.wait(sender, now: at(1_000)) == nil)
        // In ten seconds, with a list for each token, as much as the rate and one burst.
        var taken = 0
        for time in 1_000..<11_000 where buckets.wait(sender, now: at(time)) == nil {
            buckets.take(sender, 100, now: at(time))
            taken += 100
        }
        #expect(taken <= 1_100)
        // A debt is never more than another burst.
        buckets.take(sender, 100_000, now: at(11_000))
        #expect(buckets.wait(sender, now: at(21_500)) == nil)
    }

    @Test func slowRatesWaitForOneToken() {
        var buckets = TokenBuckets(Rate(nanoseconds: 2_000_000_000, burst: 1))
        let sender = TextKey("ann")
        buckets.take(sender, now: start)
        #expect(buckets.wait(sender, now: start) == .seconds(2))
        #expect(buckets.wait(sender, now: at(1_500)) == .milliseconds(500))
        #expect(buckets.wait(sender, now: at(2_000)) == nil)
    }

    @Test func zeroIsNoBound() {
        var buckets = TokenBuckets(Rate(perSecond: 0, burst: 0))
        for _ in 0..<10 {
            buckets.take(TextKey("ann"), now: start)
            #expect(buckets.wait(TextKey("ann"), now: start) == nil)
        }
        #expect(buckets.count == 0)
    }

    @Test func fullBucketsAreDropped() {
        var buckets = TokenBuckets(Rate(perSecond: 10, burst: 2), bucketsMax: 100)
        for number in 0..<100 { buckets.take(TextKey("\(number)"), now: start) }
        #expect(buckets.count == 100)
        // While all senders up to the bound are in use, one more is not limited.
        buckets.take(TextKey("more"), now: start)
        #expect(buckets.count == 100)
        buckets.take(TextKey("0"), now: at(1_000))
        buckets.take(TextKey("more"), now: at(1_050))
        #expect(buckets.count == 2)
        #expect(buckets.wait(TextKey("0"), now: at(1_050)) == nil)
    }
}
