/// An action as a device sends it, before anything in it is judged.
package struct ActionEnvelope: Sendable {
    /// The device's name for this action, the same each time it is sent.
    package var key: Identifier
    /// The device and its number for the action; without a number no order is asked for.
    package var device: Identifier?
    package var number: Int64?
    package var type: String
    package var payload: JSONTree?
    package var base: JSONTree?
    package var clientTime: JSONTree?
    package var zone: String?

    /// An envelope.
    package init(
        key: Identifier, device: Identifier? = nil, number: Int64? = nil, type: String, payload: JSONTree?,
        base: JSONTree? = nil, clientTime: JSONTree? = nil, zone: String? = nil
    ) {
        self.key = key
        self.device = device
        self.number = number
        self.type = type
        self.payload = payload
        self.base = base
        self.clientTime = clientTime
        self.zone = zone
    }

    /// What makes it the same action again: type, payload and base, however they are spelled. Without a payload, which is
    /// how one comes that PostgreSQL cannot read, the base is not looked at either.
    var content: Identifier {
        let base = payload == nil ? nil : base
        return Identifier(JSONTree.array([.string(type), payload ?? .null, base ?? .null]).canonicalText)
    }
}

/// What became of an action.
package enum ActionStatus: String, Sendable {
    case applied, noop, conflict, rejected, partial, retry
}

/// The answer to an action, `sync:result` on the wire.
package struct ActionAnswer: Sendable {
    package let key: Identifier
    package let status: ActionStatus
    /// Why, of conflict, rejected and retry.
    package var code: String?
    /// Why, in words.
    package var message: String?
    /// The member that is wrong.
    package var path: String?
    package var result: JSONTree?
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
