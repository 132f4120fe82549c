import JSON

// How a person decides conflicts.

/// How a conflict is decided.
public enum CarillonChoice: Sendable, Equatable {
    /// What the person did counts, whatever the hub has.
    case keepLocal
    /// What the hub has stays.
    case acceptServer
    /// What did not conflict counts, and over it the fields that the person chose.
    case merge(CarillonPayload)
    /// What did not conflict counts.
    case mergeAll

    var name: String {
        switch self {
        case .keepLocal: "keep_local"
        case .acceptServer: "accept_server"
        case .merge, .mergeAll: "merge"
        }
    }

    var merged: JSONTree? {
        guard case .merge(let fields) = self else { return nil }
        return fields.tree
    }
}

extension QueuedAction {
    /// Whether a decision of its conflicts is told by a `resolve`. Else the change is sent again: it is folded as any
    /// other is, and a person may have edited it.
    private var isResolvable: Bool { DoseOverlay.types.contains(type) || ReminderOverlay.types.contains(type) }

    /// The action by which a person's decision is told: a `resolve`, or the change again. Nil: nothing has to be sent.
    func decision(_ choice: CarillonChoice) -> (type: String, payload: JSONTree, base: JSONTree?)? {
        let rev = more.answer?["conflict"]?["server"]?["rev"]?.integer
        let base = rev.map { JSONTree.object([.init("rev", .integer($0))]) }
        guard isResolvable else {
            guard choice != .acceptServer else { return nil }
            return (type, payload.setting(choice.merged?.members ?? []), base)
        }
        var members: [JSONTree.Member] = [.init("of", .string(key)), .init("choice", .string(choice.name))]
        if let merged = choice.merged { members.append(.init("merged", merged)) }
        let each = (more.answer?["items"]?.elements ?? []).compactMap { item -> JSONTree.Member? in
            guard let id = item["occurrenceId"]?.string, let rev = item["conflict"]?["server"]?["rev"] else {
                return nil
            }
            return .init(id, .object([.init("rev", rev)]))
        }
        return ("resolve", .object(members), base ?? (each.isEmpty ? nil : .object(each)))
    }
}

extension ActionQueue {
    /// The row of a conflict that waits for a decision.
    func conflict(_ key: String) -> QueuedAction? {
        guard let row = row(key: key), row.state == .parked, row.more.answer != nil, row.more.decidedBy == nil else {
            return nil
        }
        return row
    }
}

extension Mirror {
    /// Notes the decision of a conflict; `made` is the action that tells it, if there is one.
    mutating func decide(_ key: String, _ made: QueuedAction?) throws {
        guard let made else {
            release(key)
            return
        }
        if made.type == "resolve", var stored = row(key: key) {
            stored.more.decidedBy = made.key
            put(stored)
            append(made)
        } else {
            // The change again goes before what has waited behind the conflict.
            let behind = actions.filter { $0.more.behind == key }
            for row in behind { remove(row) }
            release(key)
            append(made)
            for var row in behind {
                row.more.behind = nil
                row.state = .queued
                try enqueue(row)
            }
        }
    }
}
