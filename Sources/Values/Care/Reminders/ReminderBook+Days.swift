// Single days of a rule.

extension ReminderBook {
    mutating func set(
        _ named: ReminderDay, _ change: ReminderDayChange, _ base: Int64?, _ cause: ReminderCause
    ) -> ReminderOutcome {
        guard let rule = rule(named.rule) else { return .rejected("invalid") }
        let day = ReminderDay(rule.id, named.day)
        let outcome = days.set(day, of: rule, change, base, cause, in: regimen)
        told(outcome, of: day, cause)
        return outcome
    }

    mutating func snooze(
        _ named: ReminderDay, _ until: Int?, _ minutes: Int?, _ cause: ReminderCause
    ) -> ReminderOutcome {
        guard let rule = rule(named.rule) else { return .rejected("invalid") }
        let day = ReminderDay(rule.id, named.day)
        let outcome = days.snooze(day, of: rule, until, minutes, cause, in: regimen)
        told(outcome, of: day, cause)
        return outcome
    }

    private mutating func told(_ outcome: ReminderOutcome, of day: ReminderDay, _ cause: ReminderCause) {
        guard outcome.status == .applied, let exception = days.exceptions[day] else { return }
        tell(.occurrence(day, exception), cause)
    }
}
