/// A five-character SQLSTATE (PostgreSQL manual, appendix A): what went wrong, without a word of the rows.
package struct SQLState: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
    /// The five characters.
    package let code: String

    /// Nil unless `code` is five digits or upper-case letters.
    package init?(_ code: String) {
        guard code.utf8.count == 5, code.utf8.allSatisfy(Self.isAllowed) else { return nil }
        self.code = code
    }

    /// For literals in our own source.
    package init(stringLiteral code: String) {
        precondition(code.utf8.count == 5, "a SQLSTATE has five characters")
        self.code = code
    }

    /// The five characters.
    package var description: String { code }

    /// What the caller should do if the error arose inside a function.
    package var advice: Advice { meaning?.advice ?? .broken }

    /// Whether the failure passes by itself.
    var isPassing: Bool { meaning?.isPassing ?? false }

    /// What the error blames, where that is known.
    package var fault: Fault? { meaning?.fault }

    /// Our own words for it: the server's message may quote values, and values are health data.
    package var wording: String { meaning?.wording ?? "the statement failed" }

    private var meaning: Meaning? {
        Self.meanings.first { code.hasPrefix($0.prefix) }
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte)
    }
}

/// What to do about a failed statement, of which nothing was done. The table below decides.
package enum Advice: Sendable, Equatable {
    /// It lost a race; a retry may succeed at once.
    case again
    /// The prepared statement or its plan was outdated, which a retry repairs; or a trigger raised that code deliberately.
    case outdated
    /// Another writer has locked the rows.
    case locked
    /// A constraint was violated. Two concurrent writers may cause that where one alone would not.
    case constraint
    /// One of the application's functions or triggers refuses it, and would again.
    case refused
    /// Nothing can be written on this connection: the server is a standby, or no longer the primary.
    case readOnly
    /// The connection ends, or the server is going down.
    case unavailable
    /// It took too long, or the server is in trouble. That says nothing about the data, however often it happens.
    case failed
    /// The server is well, but something in the database fails for this statement: a trigger or function of the
    /// application, or a value out of range. Somebody may repair it at any time.
    case broken
}

/// What has to change before a statement can succeed.
package enum Fault: Sendable {
    /// The values that it was given.
    case values
    /// The schema: `carillon migrate` was not run.
    case schema
    /// The rights of the role.
    case role
}

extension SQLState {
    private struct Meaning {
        let prefix: String
        let advice: Advice
        let wording: String
        let isPassing: Bool
        let fault: Fault?

        init(
            _ prefix: String, _ advice: Advice, _ wording: String = "the statement failed", isPassing: Bool = false,
            fault: Fault? = nil
        ) {
            self.prefix = prefix
            self.advice = advice
            self.wording = wording
            self.isPassing = isPassing
            self.fault = fault
        }
    }

    /// Codes stand before their classes: the first matching prefix decides.
    private static let meanings = [
        Meaning("08", .unavailable, "the connection failed", isPassing: true),
        // PostgreSQL also reports a cached plan whose result type changed as feature_not_supported.
        Meaning("0A000", .outdated),
        Meaning("22", .broken, "a value was refused", fault: .values),
        Meaning("23", .constraint, "a constraint was violated", fault: .values),
        Meaning("25006", .readOnly, "the server is read-only: a standby, or no longer the primary", isPassing: true),
        // The timeout of a session or transaction.
        Meaning("25P03", .failed),
        Meaning("25P04", .failed),
        Meaning("26000", .outdated),
        Meaning("28", .broken, "the server refused the role or its password"),
        Meaning("3D000", .broken, "there is no such database"),
        Meaning("3F000", .broken, "a schema is missing: run carillon migrate", fault: .schema),
        Meaning("40001", .again, "the transaction lost a race with another", isPassing: true),
        Meaning("40P01", .again, "a deadlock was broken", isPassing: true),
        Meaning("40", .again, "the transaction was rolled back", isPassing: true),
        Meaning("42501", .broken, "the role lacks a right", fault: .role),
        Meaning("42P01", .broken, "a table is missing: run carillon migrate", fault: .schema),
        Meaning("42883", .broken, "a function is missing: run carillon migrate", fault: .schema),
        Meaning("42", .broken, "the statement is wrong for this database"),
        Meaning("53300", .failed, "the server has no connection left", isPassing: true),
        Meaning("53", .failed, "the server is out of resources", isPassing: true),
        Meaning("55P03", .locked, "a lock was not to be had in time", isPassing: true),
        Meaning("57014", .failed, "the statement was cancelled or ran out of time", isPassing: true),
        Meaning("57P04", .unavailable, "the database was dropped"),
        Meaning("57P", .unavailable, "the server is shutting down or starting", isPassing: true),
        Meaning("57", .failed),
        Meaning("58", .failed, "the server met an error of its system", isPassing: true),
        Meaning("F0", .failed),
        // A foreign server is unreachable.
        Meaning("HV00N", .failed),
        Meaning("P0001", .refused, "the database refused it", fault: .values),
        // Errors of PL/pgSQL, such as a row that was not found.
        Meaning("P0", .broken, fault: .values),
        // A table or index is corrupted.
        Meaning("XX001", .failed, "the server met an internal error", isPassing: true),
        Meaning("XX002", .failed, "the server met an internal error", isPassing: true),
        Meaning("XX", .broken, "the server met an internal error", isPassing: true),
    ]
}
