/// The settings of a feed.
package struct FeedConfiguration: Sendable {
    /// The hub's connection string; of a role that may execute the hub functions.
    package var connectionString: String
    /// The connection string of the LISTEN connection, where the other leads through a pooler that pools transactions.
    package var notifyConnectionString: String?
    /// How often the tail is read without a notification: the most that a lost one costs.
    package var pollInterval = Duration.milliseconds(1_500)
    /// The same while the listening connection is down.
    package var pollIntervalUnheard = Duration.milliseconds(250)
    /// In which time every watched stream is compared with the database once.
    package var positionCheckInterval = Duration.seconds(30)
    /// The shortest time from one look for revocations to the next.
    package var revocationInterval = Duration.milliseconds(250)
    /// How long a read of the log may wait while the feed is current and no read is answered; then it is `busy`.
    package var readTimeout = Duration.seconds(5)
    /// How long the database may be out of reach before that is told.
    package var degradedAfter = Duration.seconds(1)
    /// How often the listening connection is asked whether it still listens.
    package var heartbeatInterval = Duration.seconds(10)
    /// How long it may take to say so.
    package var heartbeatTimeout = Duration.seconds(5)
    /// How long connecting may take.
    package var connectTimeout = Duration.seconds(10)
    /// How long a statement may take.
    package var statementTimeout = Duration.seconds(10)
    /// The newest migration that this program carries; a database beyond it is warned of.
    package var schemaVersionKnown = Self.schemaVersionNeeded
    /// Streams watched at a time.
    package var streamsMax = FeedLimits.streamsMax
    /// Streams of one user watched at a time.
    package var streamsPerUserMax = FeedLimits.streamsPerUserMax
    /// Reads of the log of each kind, pages and confirmations, waiting at a time.
    package var readsMax = FeedLimits.readsMax
    /// The same of one user's streams.
    package var readsPerUserMax = FeedLimits.readsPerUserMax
    /// Messages before the loops above which no events are read.
    package var backlogMax = FeedLimits.backlogMax

    package init(connectionString: String) {
        self.connectionString = connectionString
    }

    /// The newest migration that the statements here rely on, or that the functions they call came with.
    package static let schemaVersionNeeded: Int64 = 6
}
