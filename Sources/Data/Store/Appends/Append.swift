import Postgres
import Sync

/// A function of the database that takes clients' documents, many at a time: `(who text[], docs jsonb[])`, of equal length.
/// It must skip documents that it cannot take, and may return their number. After an error it is called again with each
/// document alone.
package final class AppendFunction: Sendable {
    let statement: PreparedStatement

    /// - Parameter function: its name with the schema, as written in SQL.
    package init(_ function: String) {
        statement = PreparedStatement("SELECT \(function)($1::text[], $2::text[]::jsonb[])")
    }
}

/// Documents that a client appends.
package struct AppendRequest: Sendable {
    /// The user, verified by the hub.
    let user: String
    let function: AppendFunction
    /// JSON texts.
    let documents: [[UInt8]]
    /// Whether the documents were accepted. Called exactly once, before the database has them; must not block.
    let answer: @Sendable (Bool) -> Void

    /// Documents of a verified user. `answer` is called exactly once.
    package init(
        user: String, _ function: AppendFunction, _ documents: [[UInt8]], answer: @escaping @Sendable (Bool) -> Void
    ) {
        (self.user, self.function, self.documents, self.answer) = (user, function, documents, answer)
    }
}
