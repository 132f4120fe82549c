enum Limits {
    /// Connections of one run. Descriptors are limited, often to 20,000 a process.
    static let connectionsMax = 19_000
    /// Connections from one address 127.0.0.x, below the number of ephemeral ports.
    static let connectionsPerAddress = 10_000
    /// Concurrent handshakes; a hub's backlog is longer.
    static let handshakesAtOnce = 128
    /// Time without progress after which a run is aborted; a hub under valgrind on a busy machine is slow.
    static let stall = Duration.seconds(60)
    /// Writers, each a thread with a connection to PostgreSQL.
    static let writersMax = 64
    /// Row changes in flight: committed, but not yet received by all their devices.
    static let inFlightMax = 4096
    /// Actions of one device in flight.
    static let actionsPerDevice = 8
    static let rowsMax = 100_000
    /// Events of a stream whose content is kept, to compare deliveries.
    static let contentsKept = 64
    /// Gaps kept, to tell late events from repeated ones.
    static let gapsKept = 10_000
    /// Latest messages kept parsed.
    static let parsedKept = 64
    /// Bytes read at a time.
    static let readBytes = 256 << 10
    /// Bytes of one message of a hub.
    static let messageBytes = 1 << 20
}
