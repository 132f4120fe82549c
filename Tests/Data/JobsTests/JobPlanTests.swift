import Clock
import Testing

@testable import Jobs

@Suite struct JobPlanTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    private func at(_ time: Duration) -> Instant { Self.start.advanced(by: time) }

    @Test func dosesAreMissedAtOnceAndRetentionComesLater() {
        var plan = JobPlan(
            [(.missDoses, .seconds(1)), (.retainEvents, .seconds(3_600))], delay: .seconds(60), now: Self.start)
        #expect(plan.next(now: Self.start) == .run(.missDoses, batch: JobsLimits.batchFirst))
        plan.ran(.missDoses, count: 0, isMore: false, for: .milliseconds(1), now: Self.start)
        guard case .wait(let time)? = plan.next(now: Self.start) else {
            Issue.record("it does not wait")
            return
        }
        #expect(time >= .milliseconds(750) && time <= .milliseconds(1_250))
        // The one that has been due for longer comes first.
        #expect(plan.next(now: at(.seconds(61))) == .run(.missDoses, batch: JobsLimits.batchFirst))
        plan.ran(.missDoses, count: 0, isMore: false, for: .milliseconds(1), now: at(.seconds(61)))
        #expect(plan.next(now: at(.seconds(61))) == .run(.retainEvents, batch: JobsLimits.batchFirst))
    }

    @Test func aBatchThatLeftMoreIsFollowedAfterAQuarterOfItsTime() {
        var plan = JobPlan([(.missDoses, .seconds(1))], delay: .zero, now: Self.start)
        plan.ran(.missDoses, count: 10, isMore: true, for: .milliseconds(16), now: Self.start)
        #expect(plan.next(now: Self.start) == .wait(.milliseconds(4)))
        plan.ran(.missDoses, count: 10, isMore: true, for: .milliseconds(1), now: Self.start)
        #expect(plan.next(now: Self.start) == .wait(JobsLimits.pauseLeast))
        plan.ran(.missDoses, count: 10, isMore: true, for: .seconds(9), now: Self.start)
        #expect(plan.next(now: Self.start) == .wait(JobsLimits.pauseMax))
    }

    @Test func aBatchThatFailedIsTriedAgainSoonAndSmaller() {
        var plan = JobPlan([(.missDoses, .seconds(1))], delay: .zero, now: Self.start)
        plan.failed(.missDoses, now: Self.start)
        #expect(plan.next(now: Self.start) == .wait(JobsLimits.retryPause))
        #expect(plan.next(now: at(JobsLimits.retryPause)) == .run(.missDoses, batch: JobsLimits.batchFirst / 2))
    }

    @Test func withoutJobsThereIsNothingToWaitFor() {
        #expect(JobPlan([], delay: .zero, now: Self.start).next(now: Self.start) == nil)
        var configuration = JobsConfiguration(connectionString: "")
        configuration.retainDays = 0
        #expect(configuration.jobs.map(\.job) == [.planDoses, .missDoses, .fireReminders, .spreadProducts])
    }

    @Test func batchesGrowWhileTheyAreFastAndFull() {
        var pace = JobPace()
        for _ in 0..<20 { pace.ran(for: .milliseconds(5), count: pace.batch) }
        #expect(pace.batch == JobsLimits.batchMax)
        pace.ran(for: .milliseconds(5), count: 3)
        #expect(pace.batch == JobsLimits.batchMax)
        pace.ran(for: .milliseconds(40), count: 3)
        #expect(pace.batch == JobsLimits.batchMax / 2)
        for _ in 0..<20 { pace.failed() }
        #expect(pace.batch == JobsLimits.batchLeast)
        var small = JobPace()
        small.ran(for: .milliseconds(5), count: small.batch - 1)
        #expect(small.batch == JobsLimits.batchFirst)
    }

    @Test func batchesAimAtTheirTime() {
        // A commit that costs 4 ms, and 0.1 ms for each dose.
        func time(_ batch: Int) -> Duration { .microseconds(4_000 + 100 * batch) }
        for start in [JobsLimits.batchLeast, JobsLimits.batchMax] {
            var pace = JobPace()
            while pace.batch != start {
                if start < pace.batch { pace.failed() } else { pace.ran(for: .milliseconds(1), count: pace.batch) }
            }
            for _ in 0..<20 { pace.ran(for: time(pace.batch), count: pace.batch) }
            #expect(time(pace.batch) > .milliseconds(19) && time(pace.batch) <= .milliseconds(21))
        }
    }

    @Test func rowsOfAnotherShapeAreNoResult() {
        #expect(BatchResult([["3", "t", "1.5"]])?.count == 3)
        #expect(BatchResult([["3", "f", nil]])?.isMore == false)
        #expect(BatchResult([]) == nil)
        #expect(BatchResult([["x", "t", nil]]) == nil)
        #expect(BatchResult([["3", nil, nil]]) == nil)
        #expect(BatchResult([["3", "t"]]) == nil)
    }
}
