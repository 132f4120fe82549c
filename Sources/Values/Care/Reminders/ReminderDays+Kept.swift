// Days that keep their instant when their rule's zone changes, as doses do.

extension ReminderDays {
    /// A rule is in another zone, or a linked one has its schedule's other time: the days that keep their instants, or do
    /// not any more. One keeps it unless the old and the new one both lie ahead. The model knows no doses.
    mutating func keep(
        from was: ReminderRule, to rule: ReminderRule, at now: Int, in regimen: Regimen
    ) -> [ReminderDay] {
        guard was.isEnabled, rule.isEnabled, (was.minute, was.zone) != (rule.minute, rule.zone) else { return [] }
        let (old, new) = (regimen.zone(of: was), regimen.zone(of: rule))
        let today = old.day(at: now)
        // No zone is more than 26 hours from another.
        let near = (-2...2).map { today.adding($0) }
        let moved = exceptions.filter { day, exception in
            let starts = [exception.kept ?? exception.movedTo.map(old.second(of:)), exception.snoozedUntil]
            return day.rule == rule.id && starts.compactMap { $0 }.max().map { $0 >= now - 2 * 86_400 } ?? false
        }
        var changed: [ReminderDay] = []
        for day in Set(near + moved.keys.map(\.day)).sorted()
        where regimen.gives(day, by: was) && regimen.gives(day, by: rule) {
            let named = ReminderDay(rule.id, day)
            var exception = exceptions[named] ?? ReminderException()
            let oldStart = was.start(on: day, exception, in: old)
            let wasKept = exception.kept != nil
            exception.kept = nil
            let newStart = rule.start(on: day, exception, in: new)
            var keeps = false
            // What came before the rule was made has not come.
            let moves = newStart > now && (oldStart > now || oldStart < rule.createdAt)
            if !moves {
                if was.minute == rule.minute {
                    let last = max(oldStart, newStart, exception.snoozedUntil ?? oldStart)
                    guard last > now - Self.snoozeSeconds else { continue }
                    keeps = true
                } else {
                    let link = rule.fields[.schedule]
                    let next = day.adding(1)
                    // Not where the next one comes within hours: 23:30 is set to 00:30 at 23:00.
                    let nextStart = rule.start(on: next, ReminderException(), in: new)
                    let isNextNear =
                        regimen.gives(next, by: rule) && nextStart > now && nextStart <= oldStart + Self.snoozeSeconds
                    keeps = oldStart > now && link != .absent && link == was.fields[.schedule] && !isNextNear
                }
            }
            keeps = keeps && oldStart != newStart
            guard keeps != wasKept else { continue }
            if keeps { exception.kept = oldStart }
            write(exception, of: named)
            changed.append(named)
        }
        return changed
    }
}

extension ReminderException {
    /// A person moves the day to a local second; nil: to where the rule has it. To where it is already is not a move.
    mutating func move(to wall: Int?, on day: LocalDate, by rule: ReminderRule, in zone: ZoneTransitions) {
        let usual = day.days * 86_400 + rule.minute * 60
        if let kept {
            let isThere = wall.map { zone.second(of: $0) == kept } ?? (movedTo == nil)
            if isThere { return }
        }
        kept = nil
        movedTo = wall == usual ? nil : wall
    }
}
