import Clock

/// How much of a job one batch does, and the pause after it. A batch's commit holds the streams of the users concerned, and
/// their devices' actions wait for it: it should take 20 ms. What fits depends on the machine and its disk, so a batch that
/// took longer halves the next one, and one that took half as long doubles it.
package struct JobPace: Sendable {
    /// The size of the next batch.
    package private(set) var batch = JobsLimits.batchFirst

    /// The pace of a job that has not run yet.
    package init() {}

    /// A batch has taken `time`, and did `count` of what it was asked for.
    package mutating func ran(for time: Duration, count: Int) {
        if time > JobsLimits.batchTime {
            batch = max(batch / 2, JobsLimits.batchLeast)
        } else if time < JobsLimits.batchTime / 2, count >= batch {
            batch = min(batch * 2, JobsLimits.batchMax)
        }
    }

    /// A batch failed, perhaps for its size.
    package mutating func failed() {
        batch = max(batch / 2, JobsLimits.batchLeast)
    }

    /// The pause after a batch that took `time` and left more to do: half as long. Who waits for a lock of the batch gets it
    /// at its commit, so the pause is for others' share of the processors.
    package static func pause(after time: Duration) -> Duration {
        min(max(time / 2, JobsLimits.pauseLeast), JobsLimits.pauseMax)
    }
}
