import Postgres
import Reactor

/// A function of the database that opens an export of a user's: `(who text, …)` returns the content type of what is exported, and
/// opens the cursor `export`, each row of which has a text, the next part of the body. NULL: there is no such thing.
package final class ExportFunction: Sendable {
    let argumentCount: Int
    let sql: String
    /// The SQLSTATEs with which it tells the client something.
    let refusals: Set<String>

    /// As those of `SnapshotFunction`.
    package init(_ function: String, _ types: [String], refusals: Set<String>) {
        argumentCount = types.count
        sql = "SELECT \(SnapshotFunction.call(function, types))"
        self.refusals = refusals
    }
}

/// A question for an export.
package struct ExportRequest: Sendable {
    /// Who asks, as the hub has verified, and about whom.
    package let user: String
    package let function: ExportFunction
    package let arguments: [String?]
    /// Called exactly once, on the store's thread or on the caller's; must not wait.
    package let answer: @Sendable (ExportAnswer) -> Void
    /// Called once for each `pull`, and with `broken` at any time; on the store's thread. Must not wait.
    package let piece: @Sendable (ExportPiece) -> Void

    package init(
        user: String, _ function: ExportFunction, _ arguments: [String?],
        answer: @escaping @Sendable (ExportAnswer) -> Void, piece: @escaping @Sendable (ExportPiece) -> Void
    ) {
        (self.user, self.function, self.arguments) = (user, function, arguments)
        (self.answer, self.piece) = (answer, piece)
    }
}

/// What comes of a question for an export.
package enum ExportAnswer: Sendable {
    /// It has begun: pieces come as they are asked for.
    case begun(contentType: String, Export)
    case missing
    /// The function has raised one of its `refusals`: the SQLSTATE.
    case refused(String)
    /// As many as may are under way, one of the user's among them perhaps, or the database cannot be asked at the moment.
    case unavailable(after: Duration)
}

/// A part of an export.
package enum ExportPiece: Sendable {
    case bytes([UInt8])
    case end
    /// It has failed: what was handed out is not the whole.
    case broken
}

/// An export under way. It ends with its last piece, or when nobody holds this any more. A pull behind its end brings `broken`.
package final class Export: Sendable {
    private let messages: Mailbox<StoreMessage>
    private let number: Int
    private let piece: @Sendable (ExportPiece) -> Void

    init(_ number: Int, _ messages: Mailbox<StoreMessage>, _ piece: @escaping @Sendable (ExportPiece) -> Void) {
        (self.number, self.messages, self.piece) = (number, messages, piece)
    }

    deinit { messages.post(.endExport(number)) }

    /// Asks for the next piece. Any thread; not before the one before has come.
    package func pull() { messages.post(.pullExport(number, piece)) }
}
