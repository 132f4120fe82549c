import Clock

/// The bounds of this target.
package enum OutboxLimits {
    /// Pushes that one claim takes of each platform, and one settlement settles.
    package static let batchMax = 500
    /// Pushes of one platform that are claimed and not settled. It bounds what is sent twice if the hub is killed.
    package static let heldMax = 1_000
    /// Pushes of one user that one claim takes of a platform. A user of whom so many are held there gets no more: others
    /// have the rest of `heldMax`, however many of the user's are due.
    package static let shareOfUser = 16
    /// Less room than this is not worth a claim, unless nothing is held; nor are fewer outcomes worth a settlement, unless
    /// they have waited.
    static let roomLeast = 400
    /// How long outcomes wait for more.
    static let gathering = Duration.milliseconds(10)
    /// How long a claimed push belongs to this hub: longer than a request may take, and its wait before that.
    package static let lease = Duration.seconds(30)
    /// How long a settlement may wait for a lock.
    static let lockTimeout = Duration.seconds(1)
    /// How long a statement may take in the database.
    static let statementTimeout = Duration.seconds(5)
    /// How soon a statement that failed is tried again.
    static let retryPause = Duration.seconds(1)
    /// The time between two looks at how many wait.
    static let stateInterval = Duration.seconds(5)
}
