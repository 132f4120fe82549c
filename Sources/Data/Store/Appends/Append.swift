import Postgres
import Sync

/// A function of the database that takes clients' documents, many at a time: `(who text[], docs jsonb[])`, of equal length.
/// It must skip documents that it cannot take, and may return their number. In a second column it may return users who have
/// as many documents as they may have, one a row: their next documents are refused for a while. After an error it is called
/// again with each document alone.
package final class AppendFunction: Sendable {
    let statement: PreparedStatement

    /// - Parameter function: its name with the schema, as written in SQL.
    package init(_ function: String) {
        statement = PreparedStatement("SELECT * FROM \(function)($1::text[], $2::text[]::jsonb[])")
    }
}

/// What became of documents that a client appends.
package enum AppendAnswer: Sendable, Equatable {
    /// They will be written.
    case taken
    /// There is no room for them now.
    case noRoom
    /// The user sends faster than a user may, or has as many as a user may have.
    case tooMany(after: Duration)
}

/// Documents that a client appends.
package struct AppendRequest: Sendable {
    /// The user, verified by the hub.
    let user: String
    let function: AppendFunction
    /// JSON texts.
    let documents: [[UInt8]]
    /// Whether the documents were accepted. Called exactly once, before the database has them; must not block.
    let answer: @Sendable (AppendAnswer) -> Void

    /// Documents of a verified user. `answer` is called exactly once.
    package init(
        user: String, _ function: AppendFunction, _ documents: [[UInt8]],
        answer: @escaping @Sendable (AppendAnswer) -> Void
    ) {
        (self.user, self.function, self.documents, self.answer) = (user, function, documents, answer)
    }
}
