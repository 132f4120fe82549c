// Rules: made, changed and deleted.

extension ReminderBook {
    mutating func create(
        _ id: Identifier?, _ clientID: Identifier?, _ given: ReminderFields, _ cause: Cause, newID: Identifier
    ) -> Outcome {
        let isTemporary = id.map(Self.isTemporary) ?? false
        let ownID = isTemporary ? nil : id
        let names = [clientID, isTemporary ? id : nil].compactMap { $0 }
        var wanted = completed(given)
        for known in [ownID].compactMap({ $0 }) + names {
            if let rule = rule(known) { return named(rule, names, cause) }
            if let tombstone = tombstone(known) {
                return gone(tombstone, wanted: normal(given))
            }
        }
        guard isSound(wanted, since: nil) else { return .rejected("invalid") }
        wanted = linked(wanted)
        if ownID == nil, clientID.map(Self.isTemporary) ?? true {
            if let twin = twin(of: wanted, at: cause.now) {
                if names.isEmpty, queued[twin.id]?.isOf(cause.device) ?? false { queued[twin.id]?.isPosted = true }
                return named(twin, names, cause)
            }
            if names.isEmpty, let id = queuedTwin(of: wanted, cause) {
                queued[id]?.isPosted = true
                return Outcome(status: .noop, rule: rules[id] ?? tombstones[id]?.rule)
            }
        }
        let rule = ReminderRule(
            id: ownID ?? newID, clientID: names.first, fields: wanted, rev: 1, createdAt: cause.now)
        write(rule, cause)
        for name in names { aliases[name] = rule.id }
        if let first = names.first, Self.isTemporary(first) {
            queued[rule.id] = Queued(
                fields: rules[rule.id]?.fields ?? wanted, device: cause.device, at: cause.now)
        }
        return Outcome(status: .applied, rule: rules[rule.id])
    }

    private static func isTemporary(_ name: Identifier) -> Bool { name.text.hasPrefix(ReminderAction.temporary) }

    /// A rule that is there already takes the names that a device has for it, but for those that another one has. The first
    /// one stands in the rule.
    private mutating func named(_ rule: ReminderRule, _ names: [Identifier], _ cause: Cause) -> Outcome {
        for name in names where name != rule.id && self.rule(name) == nil {
            if var first = rules[rule.id], first.clientID == nil {
                first.clientID = name
                write(first, cause)
            }
            aliases[name] = rule.id
        }
        return Outcome(status: .noop, rule: rules[rule.id])
    }

    /// The rule that a queue has made already, when it sends an equal one without a key.
    private func twin(of fields: ReminderFields, at now: Int) -> ReminderRule? {
        return rules.values.filter { Self.isTwin($0.fields, fields) && now - $0.createdAt < Self.twinSeconds }
            .max { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }
    }

    /// The rule, living or deleted, that the device's queue made of the same wish: seed 001 posts it again without a name.
    private func queuedTwin(of fields: ReminderFields, _ cause: Cause) -> Identifier? {
        queued.filter {
            !$1.isPosted && $1.isOf(cause.device) && cause.now - $1.at < Self.postSeconds
                && Self.isTwin($1.fields, fields)
                && (rules[$0] != nil || tombstones[$0] != nil)
        }.min { ($0.value.at, $0.key) < ($1.value.at, $1.key) }?.key
    }

    private static func isTwin(_ one: ReminderFields, _ other: ReminderFields) -> Bool {
        twinFields.allSatisfy { one[$0] == other[$0] }
            && (one[.repeats] != .text("custom") || one[.days] == other[.days])
    }

    private static let twinFields: [ReminderField] = [.product, .stack, .time, .repeats, .zone]

    /// With what a new rule has where nobody says otherwise.
    private func completed(_ given: ReminderFields) -> ReminderFields {
        var fields = filled(normal(given))
        func fill(_ field: ReminderField, _ value: ReminderValue) {
            if fields[field] == .absent { fields[field] = value }
        }
        fill(.appliesTo, .text(fields[.stack] == .absent ? "item" : "stack"))
        fill(.zone, .text(home.name))
        fill(.zoneMode, .text("fixed"))
        fill(.repeats, .text("daily"))
        fill(.delivery, .text("local"))
        fill(.enabled, .flag(true))
        return fields
    }

    /// With what follows from a change: a stack takes the product away, and the reverse; who follows is in the user's zone.
    func normal(_ changes: ReminderFields) -> ReminderFields {
        var fields = ReminderFields().setting(
            changes, changes.names.filter { changes[$0] != .absent || $0.mayBeMissing })
        if fields[.stack] != .absent {
            (fields[.product], fields[.appliesTo]) = (.absent, .text("stack"))
        } else if fields[.product] != .absent {
            (fields[.stack], fields[.appliesTo]) = (.absent, .text("item"))
        }
        if fields[.zoneMode] == .text("follow") { fields[.zone] = .text(home.name) }
        return fields
    }

    /// Whether a rule may be so; `was`: as it was before, nil: it is new.
    func isSound(_ fields: ReminderFields, since was: ReminderFields?) -> Bool {
        let hasStack = fields[.stack] != .absent
        guard hasStack != (fields[.product] != .absent), fields[.appliesTo] == .text(hasStack ? "stack" : "item")
        else { return false }
        if schedules != nil, fields[.schedule] != .absent { return isSoundLink(fields, since: was) }
        guard case .number = fields[.time] else { return false }
        if fields[.repeats] == .text("custom") {
            guard case .days(let days) = fields[.days], !days.isEmpty else { return false }
        }
        return true
    }

    mutating func update(
        _ name: Identifier, _ given: ReminderFields, _ base: Int64?, _ cause: Cause
    ) -> Outcome {
        let changes = normal(given)
        guard var rule = rule(name) else {
            guard let tombstone = tombstone(name) else {
                return lost(name, .update(name, changes, base: base), changes)
            }
            return gone(tombstone, wanted: changes)
        }
        let known = self.base(base, of: rule, cause)
        let merge = ReminderMerge(changes, onto: rule.fields, since: known)
        if !merge.conflicts.isEmpty { return conflict(rule, changes, merge, known) }
        let done =
            base.map { $0 < rule.rev } == true ? foundDone(changes, in: rule, by: cause.device, knowing: known) : nil
        let was = rule.fields
        if !merge.changed.isEmpty {
            rule.fields = rule.fields.setting(changes, merge.changed)
            guard isSound(rule.fields, since: was) else { return .rejected("invalid") }
            rule.fields = following(linked(rule.fields))
        }
        // A wish for another zone alone leaves a rule that follows its user as it was.
        let isChanged = rule.fields != was
        if isChanged { write(rule, cause) }
        if let done { found[rule.id, default: []].append(done) }
        return Outcome(status: isChanged ? .applied : .noop, rule: rules[rule.id])
    }

    /// Of a rule of which a device knew an older revision: what the device wants and another one did before.
    private func foundDone(
        _ changes: ReminderFields, in rule: ReminderRule, by device: Identifier?, knowing base: ReminderMerge.Base
    ) -> Found? {
        guard let device else { return nil }
        var seen: ReminderFields?
        if case .known(let fields) = base { seen = fields }
        let done = changes.names.filter {
            changes[$0] == rule.fields[$0] && (seen == nil || seen?[$0] != changes[$0])
        }
        return done.isEmpty
            ? nil : Found(rev: rule.rev, device: device, fields: ReminderFields().setting(changes, done))
    }

    mutating func delete(_ name: Identifier, _ base: Int64?, _ cause: Cause) -> Outcome {
        guard let rule = rule(name) else { return Outcome(status: .noop, isKept: tombstone(name) != nil) }
        if let base, isChanged(rule, since: base, cause) {
            let conflict = ReminderConflict(
                code: "state", id: rule.id, server: rule, serverRev: rule.rev, local: ReminderFields(), fields: [],
                merged: rule.fields)
            let pending = Pending(action: .delete(rule.id, base: rule.rev), rev: rule.rev)
            return Outcome(status: .conflict, code: "state", conflict: conflict, pending: pending)
        }
        remove(rule, cause)
        return Outcome(status: .applied)
    }

    mutating func remove(_ rule: ReminderRule, _ cause: Cause) {
        rules[rule.id] = nil
        exceptions = exceptions.filter { $0.key.rule != rule.id }
        decisions = decisions.filter { $0.key.rule != rule.id }
        tombstones[rule.id] = ReminderTombstone(rule: rule, at: cause.now)
        tell(.deleted(rule.id, rev: rule.rev), cause)
    }

    // MARK: Conflicts

    private func conflict(
        _ rule: ReminderRule, _ changes: ReminderFields, _ merge: ReminderMerge, _ base: ReminderMerge.Base
    ) -> Outcome {
        let merged = rule.fields.setting(changes, merge.changed)
        let fields = merge.conflicts.map { name in
            var seen = ReminderValue.absent
            if case .known(let fields) = base { seen = fields[name] }
            return ReminderConflictField(name: name, base: seen, server: rule.fields[name], local: changes[name])
        }
        // What the device sent along unchanged is no wish of the person's.
        let wanted = ReminderFields().setting(changes, merge.changed + merge.conflicts)
        let conflict = ReminderConflict(
            code: "field", id: rule.id, server: rule, serverRev: rule.rev, local: wanted, fields: fields, merged: merged
        )
        let pending = Pending(
            action: .update(rule.id, wanted, base: rule.rev), rev: rule.rev,
            taken: ReminderFields().setting(changes, merge.changed))
        return Outcome(status: .conflict, code: "field", conflict: conflict, pending: pending)
    }

    private func gone(_ tombstone: ReminderTombstone, wanted: ReminderFields) -> Outcome {
        let conflict = ReminderConflict(
            code: "gone", id: tombstone.rule.id, server: nil, local: wanted, fields: [],
            merged: tombstone.rule.fields.setting(wanted, wanted.names))
        let pending = Pending(
            action: .update(tombstone.rule.id, wanted, base: nil), rev: tombstone.rule.rev, taken: wanted,
            gone: tombstone.rule)
        return Outcome(status: .conflict, code: "gone", conflict: conflict, pending: pending)
    }

    private func lost(_ name: Identifier, _ action: ReminderAction, _ wanted: ReminderFields) -> Outcome {
        let conflict = ReminderConflict(
            code: "gone", id: name, server: nil, local: wanted, fields: [], merged: nil)
        return Outcome(
            status: .conflict, code: "gone", conflict: conflict, pending: Pending(action: action, rev: 0, taken: wanted)
        )
    }
}
