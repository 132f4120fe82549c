// Rules that are linked to schedules.

extension ReminderBook {
    /// A schedule as it is from now on; nil: it was deleted. Linked rules follow, and others that are about the same have other
    /// occurrences where it is given until another day.
    package mutating func write(_ schedule: ReminderSchedule?, _ id: Identifier, at now: Int) {
        let before = schedules?[id]
        regimen.write(schedule, id)
        let isTold = before.map { before in schedule.map { before.hasOtherDays(than: $0) } ?? false } ?? false
        for rule in rules.values.sorted(by: { $0.id < $1.id }) where rule.fields[.schedule] == .text(id) {
            var changed = rule
            if schedule == nil {
                // Its doses are gone.
                changed.fields[.schedule] = .absent
                changed.fields[.enabled] = .flag(false)
            } else {
                changed.fields = regimen.linked(rule.fields)
            }
            if isTold || changed.fields != rule.fields { write(changed, ReminderCause(now: now)) }
        }
        let after = schedules?[id]
        for rule in rules.values.sorted(by: { $0.id < $1.id }) where rule.fields[.schedule] == .absent {
            let others = regimen.givenUntil(rule.fields, besides: id)
            let days = [before, after].map { one in
                [others, one.flatMap { regimen.givenUntil(rule.fields, by: $0) }].compactMap(\.self).max() ?? .max
            }
            if days[0] != days[1] { write(rule, ReminderCause(now: now)) }
        }
    }
}
