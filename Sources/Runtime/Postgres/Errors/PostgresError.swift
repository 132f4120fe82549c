import CPostgres

/// A failure of a connection or a statement, safe for a log. It holds codes and our own words, never the server's message
/// about a statement, which may quote rows. `StatementError` keeps that message for tools.
public struct PostgresError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What failed.
    package enum Kind: Hashable, Sendable {
        /// The connection string cannot be read.
        case connectionString
        /// Connecting failed: refused, no such host, wrong password.
        case connecting
        /// Connecting or a statement took too long; the connection is then closed.
        case timeout
        /// The connection broke; whether a statement in flight was carried out is unknown.
        case lost
        /// The server answered a statement with an error.
        case statement
        /// A statement was not sent: too many wait, or a parameter holds a NUL byte, which PostgreSQL's text cannot hold.
        case notSent
        /// The answer does not have the statement's shape.
        case unexpectedResult
    }

    /// The server's severity: all but `error` end the connection.
    package enum Severity: String, Hashable, Sendable {
        case error = "ERROR"
        case fatal = "FATAL"
        case panic = "PANIC"
    }

    /// What failed.
    package let kind: Kind
    /// PostgreSQL's code; nil for errors of the connection.
    package let sqlstate: SQLState?
    /// PostgreSQL's severity; nil for errors of the connection.
    package let severity: Severity?
    /// Whether the error arose inside a database function, not in the statement that called it.
    package let isInFunction: Bool
    /// One line in our words. For `connecting` it is libpq's text, shortened, since no statement has run then.
    package let message: String

    /// `message` is one line, and holds no data of rows.
    package init(
        _ kind: Kind, _ message: String, sqlstate: SQLState? = nil, severity: Severity? = nil,
        isInFunction: Bool = false
    ) {
        self.kind = kind
        self.message = message
        self.sqlstate = sqlstate
        self.severity = severity
        self.isInFunction = isInFunction
    }

    /// The error with the function that was called, where the role lacks a right: PostgreSQL's code does not name it.
    func naming(_ function: String?) -> PostgresError {
        guard let function, kind == .statement, sqlstate?.fault == .role else { return self }
        return PostgresError(
            kind, isInFunction ? "\(message), met in \(function)" : "\(message): it may not call \(function)",
            sqlstate: sqlstate, severity: severity, isInFunction: isInFunction)
    }

    /// What the caller should do.
    package var advice: Advice {
        guard kind == .statement else { return .unavailable }
        let advice = sqlstate?.advice ?? .failed
        // If the hub's own statement cannot run (no such function, no right), nobody's data is at fault.
        return advice == .broken && !isInFunction ? .failed : advice
    }

    /// Whether the failure passes by itself. Otherwise somebody must change something first.
    package var isPassing: Bool {
        switch kind {
        case .connecting, .timeout, .lost: true
        case .statement: sqlstate?.isPassing ?? false
        case .connectionString, .notSent, .unexpectedResult: false
        }
    }

    /// Whether others had the rows: it says nothing about the server or the data.
    package var isLostRace: Bool { advice == .again || advice == .locked }

    /// Whether the connection ends, rather than the statement failing. Decided by severity: a function may raise any code.
    package var isOfConnection: Bool { kind != .statement || severity == .fatal || severity == .panic }

    /// One line: the message, and the SQLSTATE if there is one.
    public var description: String {
        guard let sqlstate else { return message }
        return "\(message) (SQLSTATE \(sqlstate))"
    }
}

extension PostgresError {
    /// The error in a failed result; nil if the result is no failure.
    init?(result: OpaquePointer) {
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
            return nil
        case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE:
            let sqlstate = Self.field(result, Self.diagnosticSQLState).flatMap { SQLState($0) }
            let severity = Self.field(result, Self.diagnosticSeverity).flatMap { Severity(rawValue: $0) }
            let wording = sqlstate?.wording ?? "the statement failed"
            let isInFunction = PQresultErrorField(result, Self.diagnosticContext) != nil
            self.init(.statement, wording, sqlstate: sqlstate, severity: severity, isInFunction: isInFunction)
        default:
            self.init(.unexpectedResult, "the statement began a copy, which is not for this connection")
        }
    }

    /// The last failed attempt to connect, in libpq's words: host and reason, no password.
    init(connecting connection: OpaquePointer) {
        self.init(.connecting, Self.oneLine(String(cString: PQerrorMessage(connection))))
    }

    static func field(_ result: OpaquePointer, _ code: Int32) -> String? {
        PQresultErrorField(result, code).map { String(cString: $0) }
    }

    /// `text` in one line, shortened to `messageBytesMax`.
    static func oneLine(_ text: String) -> String {
        var line = ""
        for scalar in text.unicodeScalars {
            guard line.utf8.count < PostgresLimits.messageBytesMax else { break }
            let isSpace = scalar.value <= 0x20 || scalar.value == 0x7f
            if !isSpace {
                line.unicodeScalars.append(scalar)
            } else if !line.isEmpty, line.last != " " {
                line.append(" ")
            }
        }
        if line.last == " " { line.removeLast() }
        return line.isEmpty ? "no connection" : line
    }

    // libpq's PG_DIAG_ macros are character constants, which Swift does not import.
    private static let diagnosticSQLState = Int32(UInt8(ascii: "C"))
    private static let diagnosticSeverity = Int32(UInt8(ascii: "V"))
    private static let diagnosticContext = Int32(UInt8(ascii: "W"))
}

/// A failure as a tool shows it to its operator, whose own SQL it was: everything that the server said.
///
/// Never let one into the hub's log: it may quote rows.
package struct StatementError: Error, Sendable, CustomStringConvertible {
    /// The error without the server's words.
    package let reason: PostgresError
    /// libpq's message, usually several lines, with detail, hint and context.
    package let message: String

    /// An error with libpq's whole message.
    package init(_ reason: PostgresError, message: String) {
        self.reason = reason
        self.message = message
    }

    /// PostgreSQL's code; nil for errors of the connection.
    package var sqlstate: SQLState? { reason.sqlstate }

    /// libpq's message, or our own words where it has none.
    package var description: String { message.isEmpty ? reason.description : message }
}
