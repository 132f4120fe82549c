import Care
import Foundation
import JSON

// What the person does.

extension CarillonClient {
    /// Does what the person wants: here at once, and on the hub as soon as it can be reached. Returns when it is on disk.
    ///
    /// - Parameters:
    ///   - action: what the person does.
    ///   - base: the revision that the person saw, where the client cannot know it.
    @discardableResult
    public func act(_ action: CarillonAction, base: Int64? = nil) throws -> CarillonReceipt {
        let given = base.map { JSONTree.object([.init("rev", .integer($0))]) }
        let made = try display.row(action.type, CarillonPayload.object(action.payload).tree, base: given, store.mirror)
        try keep { try $0.enqueue(made.row) }
        return CarillonReceipt(
            key: made.row.key, id: made.row.payload["id"]?.string, status: made.prediction?.status,
            code: made.prediction?.code)
    }

    /// Takes an action back. What was never sent is never sent. Returns the key of the `undo`, if one is sent.
    /// Where its conflict is decided and the decision was sent, it throws `noConflict`: take the decision back.
    @discardableResult
    public func undo(key: String) throws -> String? {
        let payload = JSONTree.object([.init("targetKey", .string(key))])
        return try keep { mirror in
            guard try mirror.cancel(key) else { return nil }
            let undo = try display.row("undo", payload, base: nil, mirror).row
            try mirror.enqueue(undo)
            return undo.key
        }
    }

    /// Decides a conflict. Returns the key of the decision, if one is sent.
    @discardableResult
    public func resolve(key: String, choice: CarillonChoice) throws -> String? {
        try keep { mirror in
            guard let stored = mirror.queue.conflict(key) else { throw CarillonError.noConflict }
            let wanted = stored.decision(choice)
            let made = try wanted.map { try display.row($0.type, $0.payload, base: $0.base, mirror).row }
            try mirror.decide(key, made)
            return made?.key
        }
    }

    /// A refused action has been seen.
    public func dismiss(key: String) throws {
        try keep { $0.dismiss(key) }
    }

    /// Answers `zoneChanged`.
    public func setZone(_ choice: CarillonZoneChoice) throws {
        guard let change = signals.zoneChanged.current else { return }
        switch choice {
        case .convert: try act(CarillonAction("updateSettings", ["timezone": .string(change.to)]))
        case .keep: try keep { $0.set(MirrorKey.keptZone, change.to) }
        }
    }

    /// Encrypts the store with a new key from now on. Only for clients with a `keyStore`.
    public func rotateKey() throws {
        try store.rotate()
    }

    /// Writes what a person does, shows it, and sends it.
    func keep<Result>(_ rule: (inout Mirror) throws -> Result) throws -> Result {
        guard !isClosed else { throw CarillonError.closed }
        let result = try store.write(isFenced: false, rule)
        compute()
        pump()
        return result
    }
}
