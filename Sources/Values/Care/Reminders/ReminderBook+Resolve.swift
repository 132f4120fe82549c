// Conflicts decided by a person, on any device.

extension ReminderBook {
    mutating func resolve(
        _ target: Identifier, _ choice: ConflictChoice, _ edited: ReminderFields?, _ base: Int64?,
        _ cause: ReminderCause
    ) -> ReminderOutcome {
        guard let pending = stored[target]?.pending else { return .rejected("invalid") }
        let rev = base ?? pending.rev
        switch (pending.action, choice) {
        case (.set(let day, _, _), .acceptServer), (.set(let day, _, _), .merge):
            return ReminderOutcome(status: .noop, rule: rules[day.rule])
        case (.set(let day, let change, _), .keepLocal):
            return set(day, change, rev, cause)
        case (.update(let id, _, _), .acceptServer), (.delete(let id, _), .acceptServer):
            return ReminderOutcome(status: .noop, rule: rules[id])
        case (.delete(let id, _), .keepLocal):
            return delete(id, rev, cause)
        case (.delete(let id, _), .merge):
            guard let edited else { return ReminderOutcome(status: .noop, rule: rules[id]) }
            return update(id, edited, rev, cause)
        case (.update(let id, let wanted, _), _):
            var fields = choice == .keepLocal ? wanted : pending.taken
            if choice == .merge, let edited {
                let edited = regimen.normal(edited)
                fields = fields.setting(edited, edited.names)
            }
            guard let gone = pending.gone, rules[id] == nil, tombstones[id].map({ $0.rule.rev <= rev }) ?? true else {
                return update(id, fields, rev, cause)
            }
            return bringBack(gone, fields, cause)
        case (.create, _), (.snooze, _), (.resolve, _):
            return .rejected("invalid")
        }
    }

    /// An edit of a rule that was deleted meanwhile makes it again, with its id and its next revision.
    private mutating func bringBack(
        _ gone: ReminderRule, _ fields: ReminderFields, _ cause: ReminderCause
    ) -> ReminderOutcome {
        let gone = tombstones[gone.id]?.rule ?? gone
        var rule = gone
        if schedules != nil, regimen.schedule(of: gone.fields) == nil { rule.fields[.schedule] = .absent }
        rule.fields = rule.fields.setting(fields, fields.names)
        let isOther = [.product, .stack].contains { rule.fields[$0] != gone.fields[$0] }
        guard regimen.isSound(rule.fields, since: rule.fields), !(isOther && regimen.isRefused(rule.fields)) else {
            return .rejected("invalid")
        }
        rule.fields = regimen.linked(rule.fields)
        rule.rev = gone.rev + 1
        write(rule, cause)
        return ReminderOutcome(status: .applied, rule: rules[rule.id])
    }
}
