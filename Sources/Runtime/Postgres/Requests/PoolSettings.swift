import Bytes
import Clock

extension Duration {
    /// The duration in the form of PostgreSQL's settings, such as `250ms`.
    package var setting: String { "\(max(1, wholeMilliseconds))ms" }
}

/// The settings of a `RequestPool`.
package struct PoolSettings {
    /// Requests of one kind, which have a queue of their own.
    package struct Kind {
        let weight: Int
        let bounds: FairQueue<TextKey, Request>.Bounds
        let isSerial: Bool
        let batching: Batching?

        /// - Parameters:
        ///   - weight: how many are sent in a row while requests of later kinds wait.
        ///   - bounds: of the queue; the cost of a request is the bytes of its parameters.
        ///   - isSerial: whether one request of a user is in flight at a time. The user's requests are then carried out in
        ///     order, and a user with slow requests occupies one connection.
        ///   - batching: how requests of a user that wait are joined; of a serial kind only.
        package init(
            weight: Int = 1, _ bounds: FairQueue<TextKey, Request>.Bounds, isSerial: Bool, batching: Batching? = nil
        ) {
            self.weight = weight
            self.bounds = bounds
            self.isSerial = isSerial
            self.batching = batching
        }
    }

    /// What happens to requests while there is no connection.
    package enum Outages {
        /// Queued and new requests wait.
        case waitedOut
        /// New requests end at once, queued ones after a second.
        case told
        /// As `told`, but a request that may have been carried out on a lost connection waits until its deadline.
        case toldUnlessSent
    }

    /// The connections: each with its name in logs and its meter.
    package var connections: [(name: String, meter: PostgresConnectionMetrics)]
    /// Statements in flight on one connection.
    package var depth: Int
    /// How long connecting may take.
    package var connectTimeout: Duration
    /// The server's limit for a statement, set by the greeting; the hub waits longer, for a server that does not answer.
    package var statementTimeout: Duration
    /// The first statement on a connection, with its parameters.
    package var greeting: (sql: String, parameters: [String])
    /// Judges the server by the greeting's rows; nil accepts it.
    package var complaint: (Rows) -> PostgresError? = { _ in nil }
    /// Statements that are prepared before a connection is used.
    package var prepared: [PreparedStatement] = []
    /// The kinds of requests, by priority: earlier kinds are sent first.
    package var kinds: [Kind]
    /// What becomes of requests while no connection is up.
    package var outages: Outages
    /// Whether all requests are reads, which may be executed twice for one answer.
    package var isOfReads = false
    /// How many connections may be lost under one request; one more loss ends the request.
    package var lossesMax: Int
    /// How long a user is held the first time.
    package var holdPause = Duration.milliseconds(300)
    /// Connections that may be leased at a time, the last ones first. At least one connection is left for requests.
    package var leasesMax = 0
    #if DEBUG
    /// Asked at each failpoint of a request: true ends its connection.
    package var failpoint: ((Failpoint, Request) -> Bool)?
    #endif

    /// Settings without a default. `greeting` is the first statement of each connection.
    package init(
        connections: [(name: String, meter: PostgresConnectionMetrics)], depth: Int, connectTimeout: Duration,
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
