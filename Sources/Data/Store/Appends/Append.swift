import Postgres
import Sync

/// A function of the database that takes what clients append, many at a time: `(who text[], docs jsonb[])`, as long as each
/// other. What it cannot take it passes over; an error has it called again with each one alone.
package final class AppendFunction: Sendable {
    let statement: PreparedStatement

    /// - Parameter function: its name with the schema, as SQL has it.
    package init(_ function: String) {
        statement = PreparedStatement("SELECT \(function)($1::text[], $2::text[]::jsonb[])")
    }
}

/// Something to be appended.
package struct AppendRequest: Sendable {
    /// Who appends it, as the hub has verified.
    let user: String
    let function: AppendFunction
    /// JSON texts.
    let documents: [[UInt8]]
    /// Whether it was taken. Called exactly once, before the database has it; must not wait.
    let answer: @Sendable (Bool) -> Void

    package init(
        user: String, _ function: AppendFunction, _ documents: [[UInt8]], answer: @escaping @Sendable (Bool) -> Void
    ) {
        (self.user, self.function, self.documents, self.answer) = (user, function, documents, answer)
    }
}
