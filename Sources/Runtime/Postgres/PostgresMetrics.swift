import Clock
import Metrics
import Reactor

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

    /// Whether its connections are for writing.
    var writes: Bool {
        switch self {
        case .write, .job, .push: true
        case .tail, .listen, .catchUp, .bulk, .query: false
        }
    }
}

/// Why PostgreSQL does not write, though it answers.
package enum WriteRefusal: Sendable {
    case diskFull, readOnly

    init?(_ error: PostgresError) {
        switch error.sqlstate?.code {
        case "53100": self = .diskFull
        case "25006": self = .readOnly
        // libpq's words where no server of the list lets a session write (`target_session_attrs`).
        case nil where error.kind == .connecting && error.message.contains("session is read-only"): self = .readOnly
        default: return nil
        }
    }

    /// A line for operators.
    package var message: StaticString {
        switch self {
        case .diskFull: "ok, but in the last minute PostgreSQL refused writes: its disk is full\n"
        case .readOnly:
            """
            ok, but in the last minute PostgreSQL refused writes: it is read-only (default_transaction_read_only, or a \
            standby)

            """
        }
    }
}

/// Metrics of the hub's connections to PostgreSQL and of their errors.
package final class PostgresMetrics: MetricSource {
    private let meters: [ConnectionRole: PostgresConnectionMetrics]
    private let complaints = LogDeduplicator()
    private let refused = Locked<(refusal: WriteRefusal, at: Instant)?>(nil)
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
        let (errors, complaints, refused) = (errors, complaints, refused)
        meters = Dictionary(
            uniqueKeysWithValues: ConnectionRole.allCases.map { role in
                (role, PostgresConnectionMetrics(errors, complaints, refused: role.writes ? refused : nil))
            })
    }

    /// Why PostgreSQL has refused to write in the last minute; nil where it has not. The hub's jobs write all the time, so
    /// that a refusal that lasts is met again. Any thread.
    package func writeRefusal(at now: Instant = .read()) -> WriteRefusal? {
        guard let last = refused.withLock({ $0 }), now.duration(since: last.at) < .seconds(60) else { return nil }
        return last.refusal
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
    /// The last refusal to write; nil for connections that do not write.
    private let refused: Locked<(refusal: WriteRefusal, at: Instant)?>?

    init(
        _ errors: CounterTable, _ complaints: LogDeduplicator,
        refused: Locked<(refusal: WriteRefusal, at: Instant)?>? = nil
    ) {
        self.errors = errors
        self.complaints = complaints
        self.refused = refused
    }

    /// Counts a failure of a connection or of one of its statements.
    func failed(_ error: PostgresError) {
        errors[error.sqlstate.map { String($0.code.prefix(2)) } ?? "none"].add()
        if let refused, let refusal = WriteRefusal(error) { refused.withLock { $0 = (refusal, .read()) } }
    }
}
