// Rules: made, changed and deleted.

extension ReminderBook {
    mutating func create(
        _ id: Identifier?, _ clientID: Identifier?, _ given: ReminderFields, _ cause: ReminderCause, newID: Identifier
    ) -> ReminderOutcome {
        let isTemporary = id.map(Self.isTemporary) ?? false
        let ownID = isTemporary ? nil : id
        let names = [clientID, isTemporary ? id : nil].compactMap { $0 }
        var wanted = regimen.completed(given)
        for known in [ownID].compactMap({ $0 }) + names {
            if let rule = rule(known) { return named(rule, names, cause) }
            if let tombstone = tombstone(known) {
                return .gone(tombstone, wanted: regimen.normal(given))
            }
        }
        guard regimen.isSound(wanted, since: nil) else { return .rejected("invalid") }
        wanted = regimen.linked(wanted)
        if ownID == nil, clientID.map(Self.isTemporary) ?? true {
            if let twin = twin(of: wanted, at: cause.now) {
                if names.isEmpty, queued[twin.id]?.isOf(cause.device) ?? false { queued[twin.id]?.isPosted = true }
                return named(twin, names, cause)
            }
            if names.isEmpty, let id = queuedTwin(of: wanted, cause) {
                queued[id]?.isPosted = true
                return ReminderOutcome(status: .noop, rule: rules[id] ?? tombstones[id]?.rule)
            }
        }
        guard !regimen.isRefused(wanted) else { return .rejected("invalid") }
        let rule = ReminderRule(
            id: ownID ?? newID, clientID: names.first, fields: wanted, rev: 1, createdAt: cause.now)
        write(rule, cause)
        for name in names { aliases[name] = rule.id }
        if let first = names.first, Self.isTemporary(first) {
            queued[rule.id] = QueuedReminder(
                fields: rules[rule.id]?.fields ?? wanted, device: cause.device, at: cause.now)
        }
        return ReminderOutcome(status: .applied, rule: rules[rule.id])
    }

    private static func isTemporary(_ name: Identifier) -> Bool { name.text.hasPrefix(ReminderAction.temporary) }

    /// A rule that is there already takes the names that a device has for it, but for those that another one has. The first
    /// one stands in the rule.
    private mutating func named(_ rule: ReminderRule, _ names: [Identifier], _ cause: ReminderCause) -> ReminderOutcome
    {
        for name in names where name != rule.id && self.rule(name) == nil {
            if var first = rules[rule.id], first.clientID == nil {
                first.clientID = name
                write(first, cause)
            }
            aliases[name] = rule.id
        }
        return ReminderOutcome(status: .noop, rule: rules[rule.id])
    }

    /// The rule that a queue has made already, when it sends an equal one without a key.
    private func twin(of fields: ReminderFields, at now: Int) -> ReminderRule? {
        return rules.values.filter { Self.isTwin($0.fields, fields) && now - $0.createdAt < Self.twinSeconds }
            .max { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }
    }

    /// The rule, living or deleted, that the device's queue made of the same wish: seed 001 posts it again without a name.
    private func queuedTwin(of fields: ReminderFields, _ cause: ReminderCause) -> Identifier? {
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

    mutating func update(
        _ name: Identifier, _ given: ReminderFields, _ base: Int64?, _ cause: ReminderCause
    ) -> ReminderOutcome {
        let changes = regimen.normal(given)
        guard var rule = rule(name) else {
            guard let tombstone = tombstone(name) else {
                return .lost(name, .update(name, changes, base: base), changes)
            }
            return .gone(tombstone, wanted: changes)
        }
        let known = history.base(base, of: rule, for: cause.device)
        let merge = ReminderMerge(changes, onto: rule.fields, since: known)
        if !merge.conflicts.isEmpty { return .conflict(rule, changes, merge, known) }
        let seen = rule
        let was = rule.fields
        if !merge.changed.isEmpty {
            rule.fields = rule.fields.setting(changes, merge.changed)
            let isOther = [.product, .stack].contains { rule.fields[$0] != was[$0] }
            guard regimen.isSound(rule.fields, since: was), !(isOther && regimen.isRefused(rule.fields)) else {
                return .rejected("invalid")
            }
            rule.fields = regimen.following(regimen.linked(rule.fields))
        }
        // A wish for another zone alone leaves a rule that follows its user as it was.
        let isChanged = rule.fields != was
        if isChanged { write(rule, cause) }
        if base.map({ $0 < seen.rev }) == true { history.find(changes, in: seen, by: cause.device, knowing: known) }
        return ReminderOutcome(status: isChanged ? .applied : .noop, rule: rules[rule.id])
    }

    mutating func delete(_ name: Identifier, _ base: Int64?, _ cause: ReminderCause) -> ReminderOutcome {
        guard let rule = rule(name) else { return ReminderOutcome(status: .noop) }
        if let base, history.isChanged(rule, since: base, but: cause.device) { return .changed(rule) }
        remove(rule, cause)
        return ReminderOutcome(status: .applied)
    }

    mutating func remove(_ rule: ReminderRule, _ cause: ReminderCause) {
        rules[rule.id] = nil
        days.remove(rule.id)
        tombstones[rule.id] = ReminderTombstone(rule: rule, at: cause.now)
        tell(.deleted(rule.id, rev: rule.rev), cause)
    }
}
