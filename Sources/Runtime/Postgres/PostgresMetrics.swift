import Metrics

/// What a connection to PostgreSQL is for.
package enum ConnectionRole: String, Sendable, CaseIterable {
    /// Reads the event log.
    case tail
    /// Hears notifications.
    case listen
    /// Reads the log for subscribers that have fallen behind.
    case catchUp = "catch_up"
    /// Reads a backlog of more than one page, such as one large commit.
    case bulk
    /// Applies actions.
    case write
    /// Reads snapshots.
    case query
    /// Runs jobs.
    case job
    /// Claims and settles pushes.
    case push
}

/// Metrics of the hub's connections to PostgreSQL and of their errors.
package final class PostgresMetrics: MetricSource {
    private let meters: [ConnectionRole: PostgresConnectionMetrics]
    private let complaints = LogDeduplicator()
    private let errors = CounterTable(
        "sqlstate_class",
        // Classes of appendix A of PostgreSQL's manual that a hub can meet. `none`: the error came from no server.
        [
            "none", "08", "0A", "22", "23", "25", "26", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58",
            "P0",
            "XX",
        ])

    /// Creates the metrics before any connection exists.
    package init() {
        let (errors, complaints) = (errors, complaints)
        meters = Dictionary(
            uniqueKeysWithValues: ConnectionRole.allCases.map { ($0, PostgresConnectionMetrics(errors, complaints)) })
    }

    /// The meter of one role's connections.
    package func meter(_ role: ConnectionRole) -> PostgresConnectionMetrics {
        meters[role] ?? PostgresConnectionMetrics(errors, complaints)
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        let roles = ConnectionRole.allCases.map { ($0, meter($0)) }.filter { $0.1.slots.level > 0 }
        var connections: [([Exposition.Label], Double)] = []
        for (role, meter) in roles {
            let up = meter.up.level
            for (state, count) in [("up", up), ("down", meter.slots.level - up)] {
                connections.append(([.init("role", role.rawValue), .init("state", state)], Double(count)))
            }
        }
        exposition.gauge(
            "pg_connections", "Connections to PostgreSQL that the hub has, or is trying to make.", connections)
        exposition.counter(
            "pg_reconnects_total", "Connections to PostgreSQL made again after one was lost.",
            [PostgresConnectionMetrics](meters.values).reduce(0) { $0 &+ $1.reconnects.count })
        exposition.counter(
            "pg_errors_total",
            "Connections and statements that failed; the classes 55 and 40 are locks and lost races.",
            errors)
    }
}

/// Counts the PostgreSQL connections of one role: those that are up, made again, and failed.
package final class PostgresConnectionMetrics: Sendable {
    /// Connections that are up or being made.
    let slots = Gauge()
    let up = Gauge()
    let reconnects = Counter()
    /// Shared by all of the hub's connections.
    let complaints: LogDeduplicator
    private let errors: CounterTable

    init(_ errors: CounterTable, _ complaints: LogDeduplicator) {
        self.errors = errors
        self.complaints = complaints
    }

    /// Counts a failure of a connection or of one of its statements.
    func failed(_ error: PostgresError) {
        errors[error.sqlstate.map { String($0.code.prefix(2)) } ?? "none"].add()
    }
}
