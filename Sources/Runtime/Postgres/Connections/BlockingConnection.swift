import CPostgres

/// Blocking libpq for tools: each call waits for its answer, and errors carry everything that the server said.
///
/// For `migrate`, `dev`, tests and the load tester; never used on the hub's loops. Belongs to one thread at a time.
package final class BlockingConnection {
    private let pg: OpaquePointer

    /// - Parameters:
    ///   - string: a URI or keyword string.
    ///   - timeoutSeconds: for connecting, unless the string has its own `connect_timeout`; libpq takes no fraction.
    /// - Throws: also if it leads through a pooler of transactions.
    package convenience init(_ string: String, timeoutSeconds: Int = 10) throws(StatementError) {
        try self.init(unchecked: string, timeoutSeconds)
        try checkSession { () throws(StatementError) in
            try BlockingConnection(unchecked: string, Int(SessionMark.patience.components.seconds))
        }
    }

    private init(unchecked string: String, _ timeoutSeconds: Int) throws(StatementError) {
        let parameters: ConnectionParameters
        do {
            parameters = try ConnectionParameters(
                string,
                defaults: ConnectionParameters.keepalive + [.init("connect_timeout", String(timeoutSeconds))])
        } catch {
            throw StatementError(error, message: error.message)
        }
        guard let pg = parameters.withLists({ PQconnectdbParams($0, $1, 0) }) else {
            throw StatementError(PostgresError(.connecting, "out of memory"), message: "")
        }
        guard PQstatus(pg) == CONNECTION_OK else {
            let error = PostgresError(connecting: pg)
            PQfinish(pg)
            throw StatementError(error, message: error.message)
        }
        _ = PQsetNoticeReceiver(pg, { _, _ in }, nil)
        self.pg = pg
    }

    deinit {
        PQfinish(pg)
    }

    /// As `SessionCheck`, whose words explain it.
    private func checkSession(_ witness: () throws(StatementError) -> BlockingConnection) throws(StatementError) {
        let pooled = StatementError(.pooledTransactions, message: PostgresError.pooledTransactions.message)
        let mark = SessionMark()
        let before = try query(SessionMark.set, [mark.text]).first
        guard SessionMark.isNew(before?[1]) else { throw pooled }
        if before?[0] == String(backendPID) { return }
        func look() throws(StatementError) {
            guard try query(SessionMark.look).first?[0] == mark.text else { throw pooled }
        }
        if let witness = try? witness() {
            /// Without an answer, it has seen nothing.
            func witnessLooks() throws(StatementError) {
                if let row = try? witness.query(SessionMark.look).first, !SessionMark.isNew(row[0]) { throw pooled }
            }
            try witnessLooks()
            for _ in 0..<SessionMark.rounds {
                try look()
                do { try witness.execute("BEGIN") } catch {
                    guard !SessionMark.isRefusal(error.sqlstate) else { throw pooled }
                    break
                }
                try witnessLooks()
                try look()
                guard (try? witness.execute("COMMIT")) != nil else { break }
            }
        }
        try look()
    }

    /// The server process behind this connection.
    package var backendPID: Int32 { PQbackendPID(pg) }

    /// Runs any number of statements, separated by semicolons, in one transaction unless they say otherwise.
    package func execute(_ sql: String) throws(StatementError) {
        _ = try rows(of: PQexec(pg, sql))
    }

    /// Runs one statement with text parameters (`$1` and on), and returns its rows as text.
    package func query(_ sql: String, _ parameters: [String?] = []) throws(StatementError) -> [[String?]] {
        guard let list = CStringList(parameters) else {
            throw StatementError(PostgresError(.notSent, "a parameter holds a NUL"), message: "a parameter holds a NUL")
        }
        let result = list.withPointers { values in
            PQexecParams(pg, sql, Int32(list.count), nil, values, nil, nil, 0)
        }
        return try rows(of: result).strings()
    }

    private var lastMessage: String { String(cString: PQerrorMessage(pg)) }

    private func rows(of result: OpaquePointer?) throws(StatementError) -> Rows {
        guard let result else {
            throw StatementError(PostgresError(.lost, "the connection was lost"), message: lastMessage)
        }
        guard let error = PostgresError(result: result) else { return Rows(result) }
        let message = String(cString: PQresultErrorMessage(result))
        PQclear(result)
        guard PQstatus(pg) == CONNECTION_OK else {
            throw StatementError(
                PostgresError(.lost, "the connection was lost", sqlstate: error.sqlstate), message: message)
        }
        throw StatementError(error, message: message)
    }
}
