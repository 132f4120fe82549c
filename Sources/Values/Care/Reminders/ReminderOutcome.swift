/// Who acts on reminders, and when.
struct ReminderCause {
    var key: Identifier?
    var device: Identifier?
    let now: Int
}

/// A conflict that a person may still decide.
struct PendingReminder: Sendable {
    let action: ReminderAction
    let rev: Int64
    /// What a merge takes of it.
    var taken = ReminderFields()
    /// The rule that was deleted.
    var gone: ReminderRule?
}

/// A rule that was made under a temporary name, as it was then.
struct QueuedReminder: Sendable {
    let fields: ReminderFields
    let device: Identifier?
    let at: Int
    /// Whether a create without a name was found to be it.
    var isPosted = false

    /// Whether a create by this device may be the queue's: where one of them names no device, nobody knows.
    func isOf(_ poster: Identifier?) -> Bool { device == nil || poster == nil || device == poster }
}

/// The answer to an action, and what is left to decide.
struct StoredReminder: Sendable {
    let action: ReminderAction
    let answer: ReminderAnswer
    let pending: PendingReminder?
}

/// What became of an action.
struct ReminderOutcome {
    let status: CareStatus
    var code: String?
    var rule: ReminderRule?
    var conflict: ReminderConflict?
    var pending: PendingReminder?

    static func rejected(_ code: String) -> ReminderOutcome { ReminderOutcome(status: .rejected, code: code) }

    // MARK: Conflicts

    /// The rule was changed on both sides.
    static func conflict(
        _ rule: ReminderRule, _ changes: ReminderFields, _ merge: ReminderMerge, _ base: ReminderMerge.Base
    ) -> ReminderOutcome {
        let merged = rule.fields.setting(changes, merge.changed)
        let fields = merge.conflicts.map { name in
            var seen = ReminderValue.absent
            if case .known(let fields, _) = base { seen = fields[name] }
            return ReminderConflictField(name: name, base: seen, server: rule.fields[name], local: changes[name])
        }
        // What the device sent along unchanged is no wish of the person's.
        let wanted = ReminderFields().setting(changes, merge.changed + merge.conflicts)
        let conflict = ReminderConflict(
            code: "field", id: rule.id, server: rule, serverRev: rule.rev, local: wanted, fields: fields, merged: merged
        )
        let pending = PendingReminder(
            action: .update(rule.id, wanted, base: rule.rev), rev: rule.rev,
            taken: ReminderFields().setting(changes, merge.changed))
        return ReminderOutcome(status: .conflict, code: "field", conflict: conflict, pending: pending)
    }

    /// The rule was changed, and is to be deleted.
    static func changed(_ rule: ReminderRule) -> ReminderOutcome {
        let conflict = ReminderConflict(
            code: "state", id: rule.id, server: rule, serverRev: rule.rev, local: ReminderFields(), fields: [],
            merged: rule.fields)
        let pending = PendingReminder(action: .delete(rule.id, base: rule.rev), rev: rule.rev)
        return ReminderOutcome(status: .conflict, code: "state", conflict: conflict, pending: pending)
    }

    /// The rule was deleted, and is to be changed.
    static func gone(_ tombstone: ReminderTombstone, wanted: ReminderFields) -> ReminderOutcome {
        let conflict = ReminderConflict(
            code: "gone", id: tombstone.rule.id, server: nil, local: wanted, fields: [],
            merged: tombstone.rule.fields.setting(wanted, wanted.names))
        let pending = PendingReminder(
            action: .update(tombstone.rule.id, wanted, base: nil), rev: tombstone.rule.rev, taken: wanted,
            gone: tombstone.rule)
        return ReminderOutcome(status: .conflict, code: "gone", conflict: conflict, pending: pending)
    }

    /// Nobody knows the rule any more.
    static func lost(_ name: Identifier, _ action: ReminderAction, _ wanted: ReminderFields) -> ReminderOutcome {
        let conflict = ReminderConflict(
            code: "gone", id: name, server: nil, local: wanted, fields: [], merged: nil)
        let pending = PendingReminder(action: action, rev: 0, taken: wanted)
        return ReminderOutcome(status: .conflict, code: "gone", conflict: conflict, pending: pending)
    }
}
