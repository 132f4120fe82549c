// A device's view: rules as the hub told them.

extension ReminderBook {
    /// A rule of the hub.
    package mutating func adopt(_ rule: ReminderRule) {
        rules[rule.id] = rule
        remember(rule.fields, rev: rule.rev, of: rule.id)
        if let name = rule.clientID { aliases[name] = rule.id }
    }

    /// What a rule was when the person saw it.
    package mutating func remember(_ fields: ReminderFields, rev: Int64, of rule: Identifier) {
        history.add(fields, rev: rev, of: rule, by: nil)
    }

    /// A day that differs from its rule.
    package mutating func adopt(_ exception: ReminderException, of day: ReminderDay) {
        days.adopt(exception, of: day)
    }

    /// The second at which a day's reminder comes, by rule, exception and snooze.
    package func shownStart(of day: ReminderDay) -> Int? {
        guard let rule = rules[day.rule] else { return nil }
        return days.shownStart(of: day.day, by: rule, in: regimen.zone(of: rule))
    }

    /// The next times of a rule after a second, with the day that each is of.
    package func upcoming(_ rule: ReminderRule, after now: Int, _ wanted: Int) -> [(day: LocalDate, start: Int)] {
        days.upcoming(rule, after: now, wanted, in: regimen)
    }
}
