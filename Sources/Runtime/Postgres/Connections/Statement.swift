import CPostgres

/// A statement from the caller to its answer. A class: looking at a structure in a queue would copy all that it refers to.
final class Statement {
    enum Work {
        case text(String)
        case prepare(PreparedStatement)
        case execute(PreparedStatement)
    }

    let work: Work
    let parameters: CStringList
    let timeout: Duration
    let completion: Connection.Completion
    /// The prepared statement's name on this connection, set when it is sent.
    var name = ""

    init(
        work: Work, parameters: CStringList, timeout: Duration, completion: @escaping Connection.Completion
    ) {
        self.work = work
        self.parameters = parameters
        self.timeout = timeout
        self.completion = completion
    }

    /// The first function of schema sync that it calls, as `sync.news`; nil if there is none.
    var function: String? {
        let sql: String
        switch work {
        case .text(let text): sql = text
        case .prepare(let prepared), .execute(let prepared): sql = prepared.sql
        }
        guard let schema = sql.firstRange(of: "sync.") else { return nil }
        let name = sql[schema.lowerBound...].prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "._".contains($0)) }
        return sql[name.endIndex...].first == "(" ? String(name) : nil
    }

    /// Returns false if libpq cannot take it.
    func send(_ pg: OpaquePointer) -> Bool {
        let count = Int32(parameters.count)
        return parameters.withPointers { values in
            switch work {
            case .text(let sql): PQsendQueryParams(pg, sql, count, nil, values, nil, nil, 0)
            case .prepare(let prepared): PQsendPrepare(pg, name, prepared.sql, 0, nil)
            case .execute: PQsendQueryPrepared(pg, name, count, values, nil, nil, 0)
            }
        } == 1
    }
}

/// The statements prepared on a connection, and their names.
struct PreparedNames {
    private var names: [(statement: PreparedStatement, name: String)] = []
    private var count = 0

    func name(of statement: PreparedStatement) -> String? { names.first { $0.statement === statement }?.name }

    /// Assigns a new name to a statement that is about to be prepared.
    mutating func add(_ statement: PreparedStatement) -> String {
        count += 1
        names.removeAll { $0.statement === statement }
        names.append((statement, "s\(count)"))
        return "s\(count)"
    }

    /// Forgets a statement that the server does not have, or whose plan is outdated.
    mutating func failed(_ statement: Statement, _ error: PostgresError) {
        switch statement.work {
        case .text: return
        case .prepare: break
        case .execute: guard error.sqlstate?.advice == .outdated else { return }
        }
        names.removeAll { $0.name == statement.name }
    }

    mutating func removeAll() { names.removeAll() }
}
