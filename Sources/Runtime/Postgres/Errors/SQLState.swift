/// A five-character SQLSTATE (PostgreSQL manual, appendix A): what went wrong, and never a word of the rows.
package struct SQLState: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
    /// The five characters.
    package let code: String

    /// `nil` unless `code` is five digits or upper-case letters.
    package init?(_ code: String) {
        guard code.utf8.count == 5, code.utf8.allSatisfy(Self.isAllowed) else { return nil }
        self.code = code
    }

    /// For literals in our own source.
    package init(stringLiteral code: String) {
        precondition(code.utf8.count == 5, "a SQLSTATE has five characters")
        self.code = code
    }

    package var description: String { code }

    /// What to do about it.
    package var advice: Advice { meaning?.advice ?? .rejected }

    /// What it says, in words of ours: the server's own message may quote values, and values are health data.
    package var wording: String { meaning?.wording ?? "the statement failed" }

    private var meaning: Meaning? {
        Self.meanings.first { code.hasPrefix($0.prefix) }
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte)
    }
}

/// What the receiver of an error should do.
package enum Advice: Sendable, Equatable {
    /// The server or the way to it is away, full, or no longer the primary: connect anew, after a pause.
    case reconnect
    /// The transaction lost a race: the same statement may well succeed.
    case retry
    /// The same statement will fail in the same way: its data or our code is wrong.
    case rejected
    /// Somebody must change something first: a password, a right, a migration that has not run.
    case operatorNeeded
}

extension SQLState {
    private struct Meaning {
        let prefix: String
        let advice: Advice
        let wording: String

        init(_ prefix: String, _ advice: Advice, _ wording: String) {
            self.prefix = prefix
            self.advice = advice
            self.wording = wording
        }
    }

    /// Codes before their classes: the first prefix that fits decides.
    private static let meanings = [
        Meaning("08", .reconnect, "the connection failed"),
        Meaning("25006", .reconnect, "the server is read-only: a standby, or no longer the primary"),
        Meaning("53300", .reconnect, "the server has no connection left"),
        Meaning("53", .reconnect, "the server is out of resources"),
        Meaning("57014", .retry, "the statement was cancelled or ran out of time"),
        Meaning("57P04", .operatorNeeded, "the database was dropped"),
        Meaning("57P", .reconnect, "the server is shutting down or starting"),
        Meaning("58", .reconnect, "the server met an error of its system"),
        Meaning("40001", .retry, "the transaction lost a race with another"),
        Meaning("40P01", .retry, "a deadlock was broken"),
        Meaning("40", .retry, "the transaction was rolled back"),
        Meaning("55P03", .retry, "a lock was not to be had in time"),
        Meaning("28", .operatorNeeded, "the server refused the role or its password"),
        Meaning("3D000", .operatorNeeded, "there is no such database"),
        Meaning("3F000", .operatorNeeded, "a schema is missing: run carillon migrate"),
        Meaning("42501", .operatorNeeded, "the role lacks a right"),
        Meaning("42P01", .operatorNeeded, "a table is missing: run carillon migrate"),
        Meaning("42883", .operatorNeeded, "a function is missing: run carillon migrate"),
        Meaning("42", .rejected, "the statement is wrong for this database"),
        Meaning("22", .rejected, "a value was refused"),
        Meaning("23", .rejected, "a constraint was violated"),
        Meaning("P0001", .rejected, "the database refused it"),
        Meaning("XX", .reconnect, "the server met an internal error"),
    ]
}
