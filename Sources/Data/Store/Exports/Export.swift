import Postgres
import Reactor

/// A function of the database that opens a user's export: `(who text, …)` returns the content type and opens the cursor
/// `export`, whose rows each have one text, the next part of the body. NULL means that the export does not exist.
package final class ExportFunction: Sendable {
    let argumentCount: Int
    let sql: String
    /// The SQLSTATEs by which it refuses a client.
    let refusals: Set<String>

    /// The parameters mean what those of `SnapshotFunction` mean.
    package init(_ function: String, _ types: [String], refusals: Set<String>) {
        argumentCount = types.count
        sql = "SELECT \(SnapshotFunction.call(function, types))"
        self.refusals = refusals
    }
}

/// A request for an export.
package struct ExportRequest: Sendable {
    /// The user who asks, verified by the hub, and whose data it is.
    package let user: String
    /// What is exported.
    package let function: ExportFunction
    /// The function's own arguments, in PostgreSQL's text format; nil is NULL.
    package let arguments: [String?]
    /// Called exactly once, on the store's thread or the caller's; must not block.
    package let answer: @Sendable (ExportAnswer) -> Void
    /// Called once for each `pull`, and with `broken` at any time, on the store's thread; must not block.
    package let piece: @Sendable (ExportPiece) -> Void

    /// A verified user's export. `answer` is called once, and `piece` for each pull.
    package init(
        user: String, _ function: ExportFunction, _ arguments: [String?],
        answer: @escaping @Sendable (ExportAnswer) -> Void, piece: @escaping @Sendable (ExportPiece) -> Void
    ) {
        (self.user, self.function, self.arguments) = (user, function, arguments)
        (self.answer, self.piece) = (answer, piece)
    }
}

/// The answer to a request for an export.
package enum ExportAnswer: Sendable {
    /// The export has begun: each `pull` brings a piece.
    case begun(contentType: String, Export)
    case missing
    /// The function raised one of its `refusals`: the SQLSTATE.
    case refused(String)
    /// Too many exports are running, or one of this user, or the database is unavailable.
    case unavailable(after: Duration)
}

/// A piece of an export.
package enum ExportPiece: Sendable {
    case bytes([UInt8])
    case end
    /// The export failed: the pieces so far are not the whole.
    case broken
}

/// A running export. Ends with its last piece, or its last reference. A pull after its end brings `broken`.
package final class Export: Sendable {
    private let messages: Mailbox<StoreMessage>
    private let number: Int
    private let piece: @Sendable (ExportPiece) -> Void

    init(_ number: Int, _ messages: Mailbox<StoreMessage>, _ piece: @escaping @Sendable (ExportPiece) -> Void) {
        (self.number, self.messages, self.piece) = (number, messages, piece)
    }

    deinit { messages.post(.endExport(number)) }

    /// Requests one more piece, also while earlier ones are still to come. Any thread.
    package func pull() { messages.post(.pullExport(number, piece)) }
}
