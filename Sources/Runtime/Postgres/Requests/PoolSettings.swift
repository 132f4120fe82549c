import Bytes
import Clock

extension Duration {
    /// As PostgreSQL's settings have it.
    package var setting: String { "\(max(1, wholeMilliseconds))ms" }
}

/// What a pool carries, and how.
package struct PoolSettings {
    /// Requests of one kind: a queue of their own.
    package struct Kind {
        let weight: Int
        let bounds: FairQueue<TextKey, Request>.Bounds
        let isSerial: Bool

        /// - Parameters:
        ///   - weight: how many go in a row where those of later kinds wait.
        ///   - bounds: of what waits; the cost is the bytes of parameters.
        ///   - isSerial: whether one of a user is under way at a time, so that they are carried out in their order, and a user
        ///     whose requests are slow has one connection.
        package init(weight: Int = 1, _ bounds: FairQueue<TextKey, Request>.Bounds, isSerial: Bool) {
            self.weight = weight
            self.bounds = bounds
            self.isSerial = isSerial
        }
    }

    /// What waits while there is no connection.
    package enum Outages {
        /// It waits, and so does what comes.
        case waitedOut
        /// What comes is ended at once, and what waits soon.
        case told
        /// The same, but what may have been carried out on a lost connection waits for its deadline, to learn that.
        case toldUnlessSent
    }

    /// The connections, as logs have them, and by what they are counted.
    package var connections: [(name: String, meter: ConnectionMeter)]
    /// Statements sent ahead on one connection before the first of them is answered.
    package var depth: Int
    /// How long connecting may take.
    package var connectTimeout: Duration
    /// How long a statement may take, by the server's clock: the greeting tells it so. Ours is for a server that says nothing.
    package var statementTimeout: Duration
    /// The first statement on a connection, with its parameters.
    package var greeting: (sql: String, parameters: [String])
    /// What is wrong with the server, by the greeting's rows.
    package var complaint: (Rows) -> PostgresError? = { _ in nil }
    /// What is prepared before a connection is of use.
    package var prepared: [PreparedStatement] = []
    /// In their order: those of the first go before those of the next.
    package var kinds: [Kind]
    package var outages: Outages
    /// Whether all requests are reads, which may be executed twice for one answer.
    package var isOfReads = false
    /// Connections that may be lost under a request; with one more it ends.
    package var lossesMax: Int
    /// How long a user is held the first time.
    package var holdPause = Duration.milliseconds(300)
    /// Connections that may be leased at a time, the last ones first. One at least is left for requests.
    package var leasesMax = 0
    #if DEBUG
    /// Asked at these moments of a request: true ends the connection concerned.
    package var failpoint: ((Failpoint, Request) -> Bool)?
    #endif

    package init(
        connections: [(name: String, meter: ConnectionMeter)], depth: Int, connectTimeout: Duration,
        statementTimeout: Duration,
        greeting: (sql: String, parameters: [String]), kinds: [Kind], outages: Outages, lossesMax: Int
    ) {
        self.connections = connections
        self.depth = depth
        self.connectTimeout = connectTimeout
        self.statementTimeout = statementTimeout
        self.greeting = greeting
        self.kinds = kinds
        self.outages = outages
        self.lossesMax = lossesMax
    }
}
