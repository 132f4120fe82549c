import Postgres

/// A function of the database that reads a user's snapshot: `(who text, …)` returns one row `(epoch text, top bigint, body
/// text)`. The body is NULL if the user has no such thing. Create one and keep it: connections prepare it at its first use.
package final class SnapshotFunction: Sendable {
    /// Its name in metrics.
    package let name: String
    /// The number of its arguments after the user.
    let argumentCount: Int
    let statement: PreparedStatement
    /// The timeout from the request to the answer, and in the database; the general timeouts hold too.
    let timeout: Duration?
    /// The SQLSTATEs by which it refuses a client.
    let refusals: Set<String>

    /// - Parameters:
    ///   - function: its name with the schema, as written in SQL.
    ///   - types: the SQL types of its arguments after the user.
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

    /// A call with the user and the other arguments, each cast to its type.
    static func call(_ function: String, _ types: [String]) -> String {
        let arguments = (["text"] + types).enumerated().map { "$\($0 + 1)::\($1)" }
        return "\(function)(\(arguments.joined(separator: ", ")))"
    }
}

/// A body, and the position of the user's stream in the same database snapshot: it contains every event up to the offset.
package struct Snapshot: Sendable, Equatable {
    /// The stream's epoch: letters, digits and dots.
    package let epoch: String
    /// The stream's last offset that `body` includes.
    package let offset: Int64
    /// JSON text.
    package let body: [UInt8]

    /// A body, and the position at which it was read.
    package init(epoch: String, offset: Int64, body: [UInt8]) {
        self.epoch = epoch
        self.offset = offset
        self.body = body
    }
}

/// The answer to a snapshot request.
package enum SnapshotAnswer: Sendable, Equatable {
    case found(Snapshot)
    /// The user has no such thing.
    case missing
    /// The function raised one of its `refusals`: the SQLSTATE.
    case refused(String)
    /// The body has more than `StoreLimits.snapshotBytesMax`.
    case tooLarge
    /// Too many requests wait, or the database is unavailable: try again after that time.
    case unavailable(after: Duration)
}

/// A snapshot request on its way to the database.
package struct SnapshotRequest: Sendable {
    /// The user who asks, verified by the hub, and whose data it is.
    package let user: String
    /// What is read.
    package let function: SnapshotFunction
    /// As many as the function takes, in PostgreSQL's text format; nil is NULL.
    package let arguments: [String?]
    /// Called exactly once, on the store's thread or the caller's; must not block.
    package let answer: @Sendable (SnapshotAnswer) -> Void

    /// A verified user's snapshot. `answer` is called exactly once.
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
    /// From the row: the epoch, the offset, and the body or NULL.
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
