// Rules that are linked to schedules.

extension ReminderBook {
    /// A schedule as it is from now on; nil: it was deleted. Linked rules follow. Others that are about the same have other
    /// occurrences where it is given until another day.
    package mutating func write(_ schedule: ReminderSchedule?, _ id: Identifier, at now: Int) {
        let before = schedules?[id]
        regimen.write(schedule, id)
        let isTold = before.map { before in schedule.map { before.hasOtherDays(than: $0) } ?? false } ?? false
        for rule in rules.values.sorted(by: { $0.id < $1.id }) {
            var (changed, isOther) = (rule, isTold)
            switch rule.fields[.schedule] {
            case .absent: isOther = regimen.gives(rule.fields, otherwiseBy: id, than: before)
            case .text(id) where schedule == nil:
                // Its doses are gone.
                changed.fields = changed.fields.setting(.init([.enabled: .flag(false)]), [.schedule, .enabled])
            case .text(id): changed.fields = regimen.linked(rule.fields)
            default: continue
            }
            if isOther || changed.fields != rule.fields { write(changed, ReminderCause(now: now)) }
        }
    }
}
