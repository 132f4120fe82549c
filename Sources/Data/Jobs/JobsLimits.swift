import Clock

/// The bounds of this target.
package enum JobsLimits {
    /// What the first batch of a job may do.
    package static let batchFirst = 50
    /// What one batch may do when its commits are slow: fewer would do little less work, for each batch has its own.
    package static let batchLeast = 25
    /// What one batch may do when its commits are fast.
    package static let batchMax = 1_000
    /// How long a batch should take, its commit included: as long may an action wait for it.
    package static let batchTime = Duration.milliseconds(20)
    /// The shortest pause between two batches.
    package static let pauseLeast = Duration.milliseconds(2)
    /// The longest pause between two batches.
    package static let pauseMax = Duration.milliseconds(500)
    /// How soon a batch that failed is tried again.
    static let retryPause = Duration.seconds(2)
    /// How long a batch may wait for a lock. Jobs skip what is locked, so only a table's or a trigger's can be meant.
    package static let lockTimeout = Duration.milliseconds(100)
    /// How long a batch may take in the database.
    package static let statementTimeout = Duration.seconds(5)
}
