import Bytes
import Postgres
import Sync

/// What the database's answer to `sync.apply` asks for.
enum Verdict {
    /// It is decided, and committed.
    case decided(ActionAnswer)
    /// Nothing was done, and the same may well succeed at once: it lost a race.
    case again
    /// Nothing was done: the plan was out of date, and is not the next time; or a trigger says the same in earnest.
    case outdated
    /// Nothing was done: another writer has the rows.
    case locked
    /// Nothing was done: a constraint was violated. Two at the same time may do that, and one alone would not.
    case constraint
    /// Nothing was done: a function or trigger of the application's says no, and would again.
    case refused
    /// Nothing was done, and nothing can be on this connection: the server is read-only.
    case readOnly
    /// Nothing was done: the connection ends, or the server is going down.
    case unavailable
    /// Nothing was done: the statement took too long, or the server is in trouble. Nobody's data may be judged by that,
    /// however often it comes.
    case failed
    /// Nothing was done: the server is well, and something in the database fails at this action: a trigger or function of
    /// the application's, a value that it cannot hold. It may be repaired in a moment; what fails again and again is refused.
    case broken

    init(_ answer: Result<Rows, PostgresError>) {
        switch answer {
        case .success(let rows): self = Self.verdict(rows)
        case .failure(let error): self = Self.verdict(error)
        }
    }

    private static func verdict(_ rows: Rows) -> Verdict {
        guard rows.count == 1, let status = rows.string(0, 0).flatMap({ ActionStatus(rawValue: $0) }),
            let json = rows.withBytes(0, 1, { SharedBytes.copy($0) })
        else { return .failed }
        return .decided(ActionAnswer(status: status, json: json, retry: status == .retry ? .outOfOrder : nil))
    }

    private static func verdict(_ error: PostgresError) -> Verdict {
        guard error.kind == .statement else { return .unavailable }
        guard let state = error.sqlstate else { return .failed }
        let verdict = verdict(sqlstate: state.code)
        // Where the hub's own statement cannot be run (no such function, no right to it), that is no action's fault.
        if case .broken = verdict, !error.isInFunction { return .failed }
        return verdict
    }

    /// The table of what failures mean, by PostgreSQL's SQLSTATE (Appendix A of its manual).
    static func verdict(sqlstate code: String) -> Verdict {
        switch code {
        case "55P03": .locked
        case "25006": .readOnly
        case "P0001": .refused
        // feature_not_supported is also how a cached plan says that its result has changed.
        case "26000", "0A000": .outdated
        // A foreign server that cannot be reached, a corrupted table or index, a session's or transaction's own timeout.
        case "HV00N", "XX001", "XX002", "25P03", "25P04": .failed
        default:
            switch code.prefix(2) {
            case "40": .again
            case "23": .constraint
            case "08": .unavailable
            // Disk, memory, connections; a statement cancelled; files; the configuration.
            case "53", "58", "F0": .failed
            case "57": code.hasPrefix("57P") ? .unavailable : .failed
            default: .broken
            }
        }
    }
}
