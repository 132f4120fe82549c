import Bytes
import Postgres
import Sync

/// What the database's answer to `sync.apply` asks for.
enum Verdict {
    /// It is decided, and committed.
    case decided(ActionAnswer)
    /// Nothing was done, and the same may well succeed at once: it lost a race, or its plan was out of date.
    case again
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
    /// Nothing was done, and whose fault that is cannot be known: the statement took too long, the server is in
    /// trouble, or something in the database is broken. Nobody's data may be judged by that.
    case failed

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
        guard let code = error.sqlstate else { return .failed }
        switch code {
        case "40001", "40P01", "26000", "0A000": return .again
        case "55P03": return .locked
        case "25006": return .readOnly
        case _ where code.code.hasPrefix("23"): return .constraint
        case "P0001": return .refused
        case _ where code.code.hasPrefix("08") || code.code.hasPrefix("57P"): return .unavailable
        default: return .failed
        }
    }
}
