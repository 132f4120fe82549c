import Store

/// The bounds of the console.
enum ConsoleLimits {
    /// Questions to loops and database under way.
    static let questionsMax = 16
    /// A request to publish, with its escapes.
    static let bodyBytesMax = 64 << 10
    /// Connections of each loop, and channels, in one answer.
    static let connectionsMax = 100
    static let channelsMax = 200
    /// Users of a presence channel in one answer.
    static let membersMax = 200
    /// Events of the log in one answer.
    static let loggedMax = 50
    /// What the latency is taken from: the page asks every two seconds.
    static let latencyTime = Duration.seconds(2)
    /// Between two lines of the log about refused credentials.
    static let refusalInterval = Duration.seconds(10)

    /// The log of a user's stream.
    static let log = SnapshotFunction("console", "sync.logged_events", ["text", "bigint", "int", "boolean"])
}
