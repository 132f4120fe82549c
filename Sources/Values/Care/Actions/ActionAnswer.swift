import JSON

/// What became of an action.
package enum ActionStatus: String, Sendable {
    case applied, noop, conflict, rejected, partial, retry
}

/// The answer to an action, `sync:result` on the wire.
package struct ActionAnswer: Sendable {
    /// The action's key.
    package let key: Identifier
    /// What became of it.
    package let status: ActionStatus
    /// Why, of conflict, rejected and retry.
    package var code: String?
    /// Why, in words.
    package var message: String?
    /// The member that is wrong.
    package var path: String?
    /// The dose as it now is; of actions on many doses, their items.
    package var result: JSONTree?
    /// What is in the way, of an action on one dose.
    package var conflict: JSONTree?
    /// The channel of the events that the action caused, and the place behind them.
    package var position: (channel: String, epoch: String, offset: Int64)?
    /// The number that the device should send next.
    package var expected: Int64?
    /// Whether this is the stored answer to a repeat.
    package var isReplayed = false

    /// An answer without further members.
    package init(_ key: Identifier, _ status: ActionStatus, code: String? = nil, message: String? = nil) {
        self.key = key
        self.status = status
        self.code = code
        self.message = message
    }

    /// As clients get it: what does not apply is absent.
    package var tree: JSONTree {
        var members: [JSONTree.Member] = [
            .init("key", .string(key.text)), .init("status", .string(status.rawValue)),
        ]
        for (name, text) in [("code", code), ("message", message), ("path", path)] {
            if let text { members.append(.init(name, .string(text))) }
        }
        for (name, value) in [("result", result), ("conflict", conflict)] {
            if let value { members.append(.init(name, value)) }
        }
        if let position {
            let place = JSONTree.object([
                .init("epoch", .string(position.epoch)), .init("offset", .integer(position.offset)),
            ])
            members.append(.init("positions", .object([.init(position.channel, place)])))
        }
        if let expected { members.append(.init("expected", .integer(expected))) }
        if isReplayed { members.append(.init("replayed", .bool(true))) }
        return .object(members)
    }
}
