import Postgres

/// A function of the database that reads a snapshot of a user's: `(who text, …)` gives one row `(epoch text, top bigint,
/// body text)`, whose body is NULL where the user has no such thing. Make one for each, and keep it: connections prepare it
/// when it is first asked.
package final class SnapshotFunction: Sendable {
    /// What metrics call it.
    package let name: String
    /// How many arguments it takes beside the user.
    let argumentCount: Int
    let statement: PreparedStatement
    /// From the question to an answer, and for the database alone; that of all questions holds too.
    let timeout: Duration?
    /// The SQLSTATEs with which it tells the client something.
    let refusals: Set<String>

    /// - Parameters:
    ///   - function: its name with the schema, as SQL has it.
    ///   - types: the types of its arguments beside the user, as SQL has them.
    package init(
        _ name: String, _ function: String, _ types: [String] = [], within timeout: Duration? = nil,
        refusals: Set<String> = []
    ) {
        self.name = name
        argumentCount = types.count
        statement = PreparedStatement("SELECT epoch, top, body FROM \(Self.call(function, types))")
        self.timeout = timeout
        self.refusals = refusals
    }

    /// A call with the user and what else it takes, each of its type.
    static func call(_ function: String, _ types: [String]) -> String {
        let arguments = (["text"] + types).enumerated().map { "$\($0 + 1)::\($1)" }
        return "\(function)(\(arguments.joined(separator: ", ")))"
    }
}

/// A body and where the user's stream stood when it was read, both of one database snapshot: all events above the offset
/// follow it.
package struct Snapshot: Sendable, Equatable {
    /// The stream's epoch: letters, digits and dots.
    package let epoch: String
    package let offset: Int64
    /// JSON text.
    package let body: [UInt8]

    package init(epoch: String, offset: Int64, body: [UInt8]) {
        self.epoch = epoch
        self.offset = offset
        self.body = body
    }
}

/// What comes of a question for a snapshot.
package enum SnapshotAnswer: Sendable, Equatable {
    case found(Snapshot)
    /// The user has no such thing.
    case missing
    /// The function has raised one of its `refusals`: the SQLSTATE.
    case refused(String)
    /// It has more than `StoreLimits.snapshotBytesMax`.
    case tooLarge
    /// Too many wait, or the database cannot be asked at the moment: again after that time.
    case unavailable(after: Duration)
}

/// A question on its way to the database.
package struct SnapshotRequest: Sendable {
    /// Who asks, as the hub has verified, and about whom.
    package let user: String
    package let function: SnapshotFunction
    /// As many as the function takes, as PostgreSQL reads texts of the function's types; nil is NULL.
    package let arguments: [String?]
    /// Called exactly once, on the store's thread or on the caller's; must not wait.
    package let answer: @Sendable (SnapshotAnswer) -> Void

    package init(
        user: String, _ function: SnapshotFunction, _ arguments: [String?],
        answer: @escaping @Sendable (SnapshotAnswer) -> Void
    ) {
        self.user = user
        self.function = function
        self.arguments = arguments
        self.answer = answer
    }
}

extension SnapshotAnswer {
    /// What the database's row says: the epoch, the offset, and the body or NULL.
    init(_ rows: Rows) {
        guard rows.count == 1, let epoch = rows.string(0, 0), let offset = rows.integer(0, 1) else {
            self = .unavailable(after: .seconds(5))
            return
        }
        let answer = rows.withBytes(0, 2) { body -> SnapshotAnswer in
            guard body.count <= StoreLimits.snapshotBytesMax else { return .tooLarge }
            return .found(Snapshot(epoch: epoch, offset: offset, body: Array(body)))
        }
        self = answer ?? .missing
    }
}
