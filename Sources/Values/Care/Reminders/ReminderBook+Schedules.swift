// Rules that are linked to schedules, and what presets stand for.

extension ReminderBook {
    /// Minutes after midnight that presets stand for, where the user has none of their own.
    package static let usualPresetTimes = ["AM_WITH_FOOD": 480, "WITH_BREAKFAST": 510, "LUNCH": 750, "BEDTIME": 1_320]

    /// A schedule as it is from now on; nil: it was deleted. Linked rules follow.
    package mutating func write(_ schedule: ReminderSchedule?, _ id: Identifier, at now: Int) {
        let before = schedules?[id]
        var after = schedule
        if after?.fields[.zoneMode] == .text("follow") { after?.fields[.zone] = .text(home.name) }
        schedules?[id] = after
        let isTold = before.map { before in after.map { before.hasOtherDays(than: $0) } ?? false } ?? false
        for rule in rules.values.sorted(by: { $0.id < $1.id }) where rule.fields[.schedule] == .text(id) {
            var changed = rule
            if after == nil {
                // Its doses are gone.
                changed.fields[.schedule] = .absent
                changed.fields[.enabled] = .flag(false)
            } else {
                changed.fields = linked(rule.fields)
            }
            if isTold || changed.fields != rule.fields { write(changed, Cause(now: now)) }
        }
    }

    /// The schedule that fields name, where it is known.
    func schedule(of fields: ReminderFields) -> ReminderSchedule? {
        guard case .text(let id) = fields[.schedule] else { return nil }
        return schedules?[id]
    }

    /// With what their schedule says. One that is taken as needed has no time: its reminder is silent.
    func linked(_ fields: ReminderFields) -> ReminderFields {
        guard let schedule = schedule(of: fields) else { return fields }
        guard schedule.isAsNeeded else { return fields.setting(schedule.fields, ReminderSchedule.taken) }
        var silent = fields
        silent[.enabled] = .flag(false)
        return silent
    }

    /// Whether a link may be so. While a rule is linked, its time, days and zone are changed at the schedule.
    func isSoundLink(_ fields: ReminderFields, since was: ReminderFields?) -> Bool {
        guard let schedule = schedule(of: fields), schedule.fields[.product] == fields[.product],
            schedule.fields[.stack] == fields[.stack]
        else { return false }
        guard let was, was[.schedule] == fields[.schedule] else { return !schedule.isAsNeeded }
        let isEnabledNow = fields[.enabled] == .flag(true) && was[.enabled] != .flag(true)
        return ReminderSchedule.taken.allSatisfy { fields[$0] == was[$0] } && !(schedule.isAsNeeded && isEnabledNow)
    }

    /// The target of a new rule's schedule, and the time of its preset, where it names none.
    func filled(_ given: ReminderFields) -> ReminderFields {
        var fields = given
        if fields[.product] == .absent, fields[.stack] == .absent, let schedule = schedule(of: fields) {
            fields = fields.setting(schedule.fields, [.product, .stack])
        }
        if fields[.time] == .absent, let own = presetTimes, case .text(let preset) = fields[.preset],
            let minute = own[preset.text] ?? Self.usualPresetTimes[preset.text]
        {
            fields[.time] = .number(minute)
        }
        return fields
    }
}
