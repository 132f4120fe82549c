import Clock
import Testing

@Suite(.timeLimit(.minutes(15))) struct InstantTests {
    @Test func timeBetweenInstantsIsNeverNegative() {
        let (early, late) = (Instant(nanoseconds: 5), Instant(nanoseconds: 12))
        #expect(early < late)
        #expect(late.duration(since: early) == .nanoseconds(7))
        #expect(early.duration(since: late) == .zero)
        #expect(Instant(nanoseconds: .max).duration(since: Instant(nanoseconds: 0)) == .nanoseconds(Int64.max))
        #expect(early.advanced(by: .nanoseconds(7)) == late)
        #expect(late.advanced(by: .nanoseconds(-7)) == late)
        #expect(early.advanced(byNanoseconds: 7) == late)
    }

    @Test func theMonotonicClockGoesForward() {
        let first = Instant.read()
        var next = Instant.read()
        while next == first { next = Instant.read() }
        #expect(next > first)
    }
}

@Suite(.timeLimit(.minutes(15))) struct DurationTests {
    @Test func partsOfAUnitAreCutOffOrCountAsOne() {
        for (duration, nanoseconds, down, up, seconds) in [
            (Duration.zero, UInt64(0), 0, 0, 0), (.nanoseconds(1), 1, 0, 1, 1),
            (.nanoseconds(999_999), 999_999, 0, 1, 1),
            (.milliseconds(1), 1_000_000, 1, 1, 1), (.nanoseconds(1_000_001), 1_000_001, 1, 2, 1),
            (.seconds(2), 2_000_000_000, 2_000, 2_000, 2),
            (.nanoseconds(2_000_000_001), 2_000_000_001, 2_000, 2_001, 3),
        ] {
            #expect(duration.wholeNanoseconds == nanoseconds)
            #expect(duration.wholeMilliseconds == down)
            #expect(duration.millisecondsRoundedUp == up)
            #expect(duration.secondsRoundedUp == seconds)
        }
    }

    @Test func negativeTimesAreZeroAndLongOnesAreClamped() {
        for negative in [Duration.nanoseconds(-1), .seconds(-1), .seconds(Int64.min)] {
            #expect(negative.wholeNanoseconds == 0 && negative.secondsRoundedUp == 0)
        }
        for long in [Duration.seconds(Int64.max), .nanoseconds(Int64.max)] {
            #expect(UInt64(Int64.max / 2)...UInt64(Int64.max / 2) + 1_000_000_000 ~= long.wholeNanoseconds)
            #expect(long.secondsRoundedUp / 4_611_686_018 == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(15))) struct UnixTimeTests {
    @Test func theWallClockIsBetweenThisYearAndTheCenturysEnd() {
        #expect(UnixTime(seconds: 1_750_000_000)...UnixTime(seconds: 4_102_444_800) ~= UnixTime.read())
    }

    @Test func timesAreClampedAtBothEnds() {
        #expect(UnixTime(seconds: .max).microseconds == .max && UnixTime(seconds: .min).microseconds == .min)
        #expect(UnixTime(seconds: 1).advanced(by: .seconds(Int64.max)).microseconds == .max)
        #expect(UnixTime(seconds: -1).advanced(by: .seconds(Int64.min)).microseconds == .min)
        #expect(UnixTime(seconds: 1).advanced(by: .milliseconds(-1_500)).microseconds == -500_000)
        #expect(UnixTime(seconds: 1).duration(until: UnixTime(seconds: 3)) == .seconds(2))
        #expect(UnixTime(seconds: 3).duration(until: UnixTime(seconds: 1)) == .zero)
        #expect(UnixTime(seconds: .min).duration(until: UnixTime(seconds: .max)) == .microseconds(Int64.max))
    }
}
