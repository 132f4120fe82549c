import Clock
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct SmallAllowanceTests {
    private func taken(_ allowance: inout SmallAllowance, _ rate: Rate, at now: Instant, tries: Int = 1_000) -> Int {
        var count = 0
        for _ in 0..<tries where allowance.take(rate, at: now) { count += 1 }
        return count
    }

    @Test func aBurstAndThenARate() {
        let rate = SmallAllowance.rate(perSecond: 10, burst: 30)
        var allowance = SmallAllowance()
        var now = Instant(nanoseconds: 1 << 50)
        var count = taken(&allowance, rate, at: now)
        #expect(count == 30)
        count = taken(&allowance, rate, at: now)
        #expect(count == 0)
        now = now.advanced(by: .milliseconds(501))
        count = taken(&allowance, rate, at: now)
        #expect(count == 5)
        now = now.advanced(by: .seconds(3600))
        count = taken(&allowance, rate, at: now)
        #expect(count == 30, "never more than a burst")
    }

    @Test func someCostMore() {
        let rate = SmallAllowance.rate(perSecond: 10, burst: 30)
        var allowance = SmallAllowance()
        let now = Instant(nanoseconds: 1 << 50)
        var isTaken = allowance.take(rate, at: now, cost: 17)
        #expect(isTaken)
        isTaken = allowance.take(rate, at: now, cost: 14)
        #expect(!isTaken, "13 are left")
        let count = taken(&allowance, rate, at: now)
        #expect(count == 13, "what was refused has taken nothing")
    }

    /// Whatever the cost, it is available after a long enough silence.
    @Test(arguments: [30, 31, 1_000_000, Int(UInt32.max)]) func nothingCostsMoreThanThereIs(_ cost: Int) {
        let rate = SmallAllowance.rate(perSecond: 10, burst: 30)
        var allowance = SmallAllowance()
        let now = Instant(nanoseconds: 1 << 50)
        let isTaken = allowance.take(rate, at: now, cost: cost)
        #expect(isTaken)
        let count = taken(&allowance, rate, at: now)
        #expect(count == 0)
        let later = allowance.take(rate, at: now.advanced(by: .milliseconds(3_010)), cost: cost)
        #expect(later)
    }

    @Test func noBoundIsNone() {
        var allowance = SmallAllowance()
        let count = taken(
            &allowance, SmallAllowance.rate(perSecond: 0, burst: 1), at: Instant(nanoseconds: 5), tries: 10_000)
        #expect(count == 10_000)
    }

    @Test(arguments: [1, 7, 100, 1_000, 10_000]) func theRateHoldsOnTheLongRun(_ perSecond: Int) {
        let rate = SmallAllowance.rate(perSecond: perSecond, burst: perSecond)
        var allowance = SmallAllowance()
        var now = Instant(nanoseconds: 1 << 50)
        _ = taken(&allowance, rate, at: now, tries: 100_000)
        var count = 0
        for _ in 0..<1_000 {
            now = now.advanced(by: .milliseconds(10))
            count += taken(&allowance, rate, at: now, tries: 2 * perSecond / 100 + 2)
        }
        #expect(Double(count) > Double(perSecond) * 9)
        #expect(Double(count) < Double(perSecond) * 16)
    }

    /// A new allowance is full, also when the machine's clock is about to wrap.
    @Test func aNewOneIsWhole() {
        let rate = SmallAllowance.rate(perSecond: 10, burst: 100)
        let wrap = Instant(nanoseconds: 1 << 48)
        for before in stride(from: 0 as UInt64, through: 12_000, by: 500) {
            var allowance = SmallAllowance()
            let now = Instant(nanoseconds: wrap.nanoseconds - before * 1_000_000)
            let count = taken(&allowance, rate, at: now)
            #expect(count == 100, "\(before) ms before")
        }
    }

    /// And so is one unused until the ticks come round.
    @Test func anUnusedAllowanceSurvivesTheTicksWrap() {
        let rate = SmallAllowance.rate(perSecond: 10, burst: 100)
        var allowance = SmallAllowance()
        let start = Instant(nanoseconds: 1 << 50)
        _ = taken(&allowance, rate, at: start)
        // 1 << 48 nanoseconds later the ticks repeat.
        for hour in 1...77 as ClosedRange<Int64> {
            allowance.settle(rate, at: start.advanced(by: .seconds(hour * 3_600)))
        }
        let count = taken(&allowance, rate, at: Instant(nanoseconds: start.nanoseconds + (1 << 48)))
        #expect(count == 100)
        // A debt that remains is not forgotten.
        allowance.settle(rate, at: Instant(nanoseconds: start.nanoseconds + (1 << 48)))
        let more = taken(&allowance, rate, at: Instant(nanoseconds: start.nanoseconds + (1 << 48)))
        #expect(more == 0)
    }

    /// The ticks wrap after 78 hours: a long silence must not block anyone.
    @Test func aLongSilenceHoldsNobodyUp() {
        let rate = SmallAllowance.rate(perSecond: 100, burst: 1_000)
        var random = SeededRandom()
        for _ in 0..<200 {
            var allowance = SmallAllowance()
            let start = Instant(nanoseconds: random.next() >> 2)
            let first = taken(&allowance, rate, at: start, tries: 1)
            #expect(first == 1)
            let silence = Duration.seconds(Int64.random(in: 11...400_000, using: &random))
            let count = taken(&allowance, rate, at: start.advanced(by: silence), tries: 1_500)
            #expect(count <= 1_000 && count >= 1, "seed \(random.seed)")
        }
    }
}
