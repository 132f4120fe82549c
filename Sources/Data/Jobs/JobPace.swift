import Clock

/// How much of a job one batch does, and the pause after it. A batch's commit holds the streams of the users concerned, and
/// their devices' actions wait for it: it should take 20 ms. What fits depends on the machine and its disk, so the next
/// batch is as large as would have taken 20 ms by what this one did in its time, and at most twice and at least half as
/// large.
package struct JobPace: Sendable {
    /// The size of the next batch.
    package private(set) var batch = JobsLimits.batchFirst

    /// The pace of a job that has not run yet.
    package init() {}

    /// A batch has taken `time`, and did `count` of what it was asked for.
    package mutating func ran(for time: Duration, count: Int) {
        // A batch that did not get full tells only that it was too slow: there may have been no more to do.
        guard count >= batch || time > JobsLimits.batchTime else { return }
        let change = min(max(JobsLimits.batchTime / max(time, .milliseconds(1)), 0.5), 2)
        batch = min(max(Int(Double(batch) * change), JobsLimits.batchLeast), JobsLimits.batchMax)
    }

    /// A batch failed, perhaps for its size.
    package mutating func failed() {
        batch = max(batch / 2, JobsLimits.batchLeast)
    }

    /// The pause after a batch that took `time` and left more to do: a quarter of it. Who waits for a lock of the batch gets
    /// it at its commit, so the pause is only for others' share of the processors.
    package static func pause(after time: Duration) -> Duration {
        min(max(time / 4, JobsLimits.pauseLeast), JobsLimits.pauseMax)
    }
}
