import Bytes
import Postgres

/// Actions of one user that waited at one time, in one transaction.
final class ActionTransaction: RequestBatch {
    static let batching = Batching(
        countMax: StoreLimits.actionBatchMax, bytesMax: StoreLimits.actionBatchBytesMax,
        join: { ActionTransaction($0.compactMap { $0 as? Action }) })

    /// The types of the parameters behind the user, in the order of an action's own.
    private static let types = ["text", "text", "bigint", "text", "text", "text", "text", "text"]
    private static let applyAll = PreparedStatement(
        "SELECT * FROM sync.apply_all($1::text, "
            + types.enumerated().map { "$\($0.offset + 2)::\($0.element)[]" }.joined(separator: ", ") + ")")

    let actions: [Action]

    private init(_ actions: [Action]) {
        self.actions = actions
        let (kind, user) = (actions[0].kind, actions[0].user)
        super.init(of: actions, Terms(kind: kind, of: user, Self.applyAll, Self.parameters(of: actions)))
    }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep { actions[0].answered(answer, in: self) }

    /// The user, and an array of each further parameter.
    private static func parameters(of actions: [Action]) -> CStringList {
        var list = CStringList()
        actions[0].parameters.withBytes(of: 0) { user in
            // No action holds a NUL byte.
            if let user { _ = list.append(user) }
        }
        for index in 1...types.count {
            var array = TextArray()
            for action in actions {
                action.parameters.withBytes(of: index) { text in
                    if let text { array.append(text) } else { array.appendNull() }
                }
            }
            _ = list.append(array.closed())
        }
        return list
    }
}
