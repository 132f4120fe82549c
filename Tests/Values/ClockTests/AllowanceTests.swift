import Clock
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct AllowanceTests {
    private let start = Instant(nanoseconds: 1 << 50)

    /// A wrapper from which `#expect` can take.
    private final class Kept {
        var allowance = Allowance()

        func taken(_ rate: Rate, at now: Instant, tries: Int = 100) -> Int {
            (0..<tries).count { _ in take(rate, at: now) }
        }

        func take(_ rate: Rate, at now: Instant, cost: Int = 1) -> Bool { allowance.take(rate, at: now, cost: cost) }
    }

    @Test func aBurstAndThenOneEachInterval() {
        let rate = Rate(perSecond: 10, burst: 3)
        let kept = Kept()
        #expect(kept.taken(rate, at: start) == 3)
        #expect(kept.taken(rate, at: start.advanced(byNanoseconds: 99_999_999)) == 0)
        #expect(kept.taken(rate, at: start.advanced(byNanoseconds: 100_000_000)) == 1)
        #expect(kept.taken(rate, at: start.advanced(by: .seconds(3_600))) == 3, "never more than a burst")
    }

    @Test func whatIsReservedComesInTurn() {
        let rate = Rate(perSecond: 10, burst: 2)
        let kept = Kept()
        func reserve(_ milliseconds: Int, ahead: Int = 3) -> Duration? {
            kept.allowance.reserve(rate, at: start.advanced(by: .milliseconds(milliseconds)), ahead: ahead)
        }
        let waits = (0..<6).map { _ in reserve(0) }
        #expect(waits == [.zero, .zero, .milliseconds(100), .milliseconds(200), .milliseconds(300), nil])
        let later = [reserve(99), reserve(100), reserve(100), reserve(100, ahead: 4)]
        #expect(later == [nil, .milliseconds(300), nil, .milliseconds(400)])
        #expect(!kept.take(rate, at: start.advanced(by: .milliseconds(500))), "a whole burst is ahead")
        let none = reserve(10_000, ahead: -1)
        #expect(none == .zero && kept.taken(rate, at: start.advanced(by: .seconds(10))) == 1)
        #expect(kept.allowance.reserve(Rate(perSecond: 0, burst: 1), at: start, ahead: 0) == .zero)
        let huge = kept.allowance.reserve(Rate(nanoseconds: .max, burst: .max), at: start, ahead: .max)
        #expect(huge == .zero)
    }

    @Test func aWaitIsAsLongAsItTakes() {
        let rate = Rate(perSecond: 10, burst: 30)
        let kept = Kept()
        #expect(kept.allowance.wait(rate, at: start, cost: 1_000) == nil, "no more than a burst")
        #expect(kept.allowance.wait(rate, at: start, forThatOf: .seconds(1_000)) == nil)
        #expect(kept.taken(rate, at: start) == 30)
        for (cost, wait) in [(1, 100), (7, 700), (30, 3_000), (31, 3_000), (.max, 3_000)] {
            #expect(kept.allowance.wait(rate, at: start, cost: cost) == .milliseconds(wait))
            let due = start.advanced(by: .milliseconds(wait))
            let before = kept.allowance
            #expect(!kept.take(rate, at: Instant(nanoseconds: due.nanoseconds - 1), cost: cost))
            #expect(kept.allowance == before)
            #expect(kept.take(rate, at: due, cost: cost))
            kept.allowance = before
        }
        #expect(kept.allowance.wait(rate, at: start, forThatOf: .milliseconds(250)) == .milliseconds(250))
        #expect(kept.allowance.wait(rate, at: start, forThatOf: .seconds(1_000)) == .seconds(3))
    }

    @Test func whatIsRefusedTakesNothingAndWhatIsGivenBackIsThere() {
        let rate = Rate(perSecond: 1, burst: 5)
        let kept = Kept()
        #expect(kept.take(rate, at: start, cost: 3))
        #expect(!kept.take(rate, at: start, cost: 3))
        kept.allowance.giveBack(rate)
        #expect(kept.take(rate, at: start, cost: 3))
        #expect(kept.allowance.isTouched(at: start) && !kept.allowance.isTouched(at: start.advanced(by: .seconds(5))))
        // Giving back more than was taken leaves no more than a burst.
        for _ in 0..<10 { kept.allowance.giveBack(rate) }
        #expect(kept.taken(rate, at: start) == 5)
        var new = Allowance()
        new.giveBack(rate)
        #expect(new == Allowance())
    }

    /// A debt from a slow rate is made up for at the quicker rate that replaced it.
    @Test func aQuickerRateHoldsFromTheNextTryOn() {
        let (slow, quick) = (Rate(perSecond: 1, burst: 100), Rate(perSecond: 10, burst: 10))
        let kept = Kept()
        #expect(kept.taken(slow, at: start) == 100)
        #expect(kept.taken(quick, at: start) == 0)
        #expect(kept.taken(quick, at: start.advanced(by: .milliseconds(500))) == 5)
    }

    @Test func noBoundIsNoneAndNoNumberTraps() {
        let kept = Kept()
        #expect(kept.taken(Rate(perSecond: 0, burst: 1), at: start, tries: 10_000) == 10_000)
        #expect(!Rate(perSecond: 0, burst: 1).isBounded && kept.allowance == Allowance())
        #expect(kept.allowance.wait(Rate(perSecond: 0, burst: 1), at: start) == nil)
        for rate in [
            Rate(nanoseconds: .max, burst: .max), Rate(perSecond: .max, burst: .min), Rate(perSecond: 1, burst: .max),
        ] {
            for cost in [.min, 0, 1, .max] {
                _ = kept.take(rate, at: start, cost: cost)
                _ = kept.allowance.wait(rate, at: start, cost: cost)
            }
        }
    }

    /// Both types agree at equal rates, at whole ticks.
    @Test func theSmallOneSaysTheSame() {
        var random = SeededRandom()
        for _ in 0..<200 {
            let rate = SmallAllowance.rate(
                perSecond: Int.random(in: 1...2_000, using: &random), burst: Int.random(in: 1...50, using: &random))
            var (large, small) = (Allowance(), SmallAllowance())
            var tick = UInt64.random(in: 1...1 << 40, using: &random)
            for _ in 0..<200 {
                tick += UInt64.random(in: 0...20_000, using: &random)
                let cost = Int.random(in: 1...60, using: &random)
                let (one, other) = (
                    large.take(rate, at: Instant(nanoseconds: tick << 16), cost: cost),
                    small.take(rate, at: Instant(nanoseconds: tick << 16), cost: cost)
                )
                #expect(one == other, "seed \(random.seed)")
                small.settle(rate, at: Instant(nanoseconds: tick << 16))
            }
        }
    }
}
