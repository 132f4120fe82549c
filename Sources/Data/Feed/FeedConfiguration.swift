/// The settings of a feed.
package struct FeedConfiguration: Sendable {
    /// The hub's connection string; its role must be allowed to execute the hub functions.
    package var connectionString: String
    /// The connection string for LISTEN; nil if it is the same. For tests.
    package var notifyConnectionString: String?
    /// How often the tail is read without a notification, and so the longest delay that a lost notification causes.
    package var pollInterval = Duration.milliseconds(1_500)
    /// How often the tail is read while the listening connection is down.
    package var pollIntervalUnheard = Duration.milliseconds(250)
    /// The time in which every watched stream is compared with the database once.
    package var positionCheckInterval = Duration.seconds(30)
    /// The shortest time between two reads of revocations.
    package var revocationInterval = Duration.milliseconds(250)
    /// How long a read of the log may wait while the feed is current and no read is answered; then the answer is `busy`.
    package var readTimeout = Duration.seconds(5)
    /// How long the database may be unreachable before that is reported.
    package var degradedAfter = Duration.seconds(1)
    /// How often the feed checks that the listening connection still listens.
    package var heartbeatInterval = Duration.seconds(10)
    /// How long that check may take.
    package var heartbeatTimeout = Duration.seconds(5)
    /// How long connecting may take.
    package var connectTimeout = Duration.seconds(10)
    /// How long a statement may take.
    package var statementTimeout = Duration.seconds(10)
    /// The newest migration that this program carries: an older database is waited for, a newer one gets a warning.
    package var schemaVersion: Int64 = 0
    /// Streams watched at a time.
    package var streamsMax = FeedLimits.streamsMax
    /// Streams of one user watched at a time.
    package var streamsPerUserMax = FeedLimits.streamsPerUserMax
    /// Reads of the log of each kind, pages and confirmations, that may wait.
    package var readsMax = FeedLimits.readsMax
    /// Reads of each kind that may wait for one user's streams.
    package var readsPerUserMax = FeedLimits.readsPerUserMax
    /// Messages queued for the loops above which the feed reads no events.
    package var backlogMax = FeedLimits.backlogMax

    /// The defaults, for the database of a libpq connection string.
    package init(connectionString: String) {
        self.connectionString = connectionString
    }
}
