import JSON

/// The result of an action.
package enum CareStatus: String, Sendable {
    case applied, noop, conflict, rejected, partial, retry
}

/// The answer to an action, `sync:result` on the wire.
package struct CareAnswer: Sendable {
    /// The action's key.
    package let key: Identifier
    /// The result.
    package let status: CareStatus
    /// The reason code of a conflict, rejection or retry.
    package var code: String?
    /// The reason in words.
    package var message: String?
    /// The member at fault.
    package var path: String?
    /// The dose after the action; for actions on many doses, their items.
    package var result: JSONTree?
    /// The conflict of an action on one dose.
    package var conflict: JSONTree?
    /// The channels that actions of its type may cause events on, and the position of each after them.
    package var positions: [(channel: String, epoch: String, offset: Int64)] = []
    /// The number that the device must send next.
    package var expected: Int64?
    /// Whether the action has used up its number; nil where it has none, or is to be sent again.
    package var isNumberUsed: Bool?
    /// Whether this is a stored answer to a repeated action.
    package var isReplayed = false

    /// An answer without further members.
    package init(_ key: Identifier, _ status: CareStatus, code: String? = nil, message: String? = nil) {
        self.key = key
        self.status = status
        self.code = code
        self.message = message
    }

    /// The JSON for clients, without members that do not apply.
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
        if !positions.isEmpty {
            let told = positions.map { position in
                JSONTree.Member(
                    position.channel,
                    .object([.init("epoch", .string(position.epoch)), .init("offset", .integer(position.offset))]))
            }
            members.append(.init("positions", .object(told)))
        }
        if let expected { members.append(.init("expected", .integer(expected))) }
        if let isNumberUsed { members.append(.init("numberUsed", .bool(isNumberUsed))) }
        if isReplayed { members.append(.init("replayed", .bool(true))) }
        return .object(members)
    }
}

extension CareAnswer {
    /// A reason code in words.
    static func message(_ code: String) -> String {
        switch code {
        case "state": "the status of the dose has been changed since"
        case "late": "it is too late for this: makeUp is the way"
        case "gone": "this dose is not there any more"
        case "superseded": "the dose has been changed since"
        case "too_many": "this dose has as many notes as a dose may have"
        case "invalid": "lies more than a day before the window of the dose"
        default: "the time for this has not come yet"
        }
    }
}

extension DoseVerdict {
    /// The status of an item in an answer, and its reason code.
    var spelled: (CareStatus, String?) {
        switch self {
        case .applied: (.applied, nil)
        case .noop: (.noop, nil)
        case .conflict(let code): (.conflict, code.rawValue)
        case .notDue: (.rejected, "not_due")
        case .tooManyNotes: (.rejected, "too_many")
        case .untimely: (.rejected, "invalid")
        }
    }
}
