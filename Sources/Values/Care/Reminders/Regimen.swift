/// What rules take of their user: the zone, the schedules, and the times of presets.
package struct Regimen: Sendable {
    /// Minutes after midnight that presets stand for, where the user has none of their own.
    package static let usualPresetTimes = ["AM_WITH_FOOD": 480, "WITH_BREAKFAST": 510, "LUNCH": 750, "BEDTIME": 1_320]

    /// The user's zone.
    var home: ZoneTransitions
    /// The user's schedules, by id; nil: nobody knows them here, and rules may be linked to any.
    var schedules: [Identifier: ReminderSchedule]?
    /// Minutes after midnight that presets stand for, where they are the user's own; nil: not known here.
    var presetTimes: [String: Int]?
    /// Products and stacks that were stopped: their rules are silent.
    var stopped: Set<Identifier> = []
    /// The user's stacks with their products; nil: nobody knows them here.
    var stacks: [Identifier: Set<Identifier>]?
    /// Rules of which a hub says that nothing comes.
    var silent: Set<Identifier> = []
    private let zones: [String: ZoneTransitions]

    init(
        home: ZoneTransitions, zones: [ZoneTransitions], schedules: [Identifier: ReminderSchedule]?,
        presetTimes: [String: Int]?
    ) {
        self.home = home
        (self.schedules, self.presetTimes) = (schedules, presetTimes)
        self.zones = Dictionary(zones.map { ($0.name, $0) }) { first, _ in first }
    }

    // MARK: The zone

    /// The user is in another zone: schedules that follow are too.
    mutating func travel(to zone: ZoneTransitions) {
        home = zone
        for (id, schedule) in schedules ?? [:] where schedule.fields[.zoneMode] == .text("follow") {
            schedules?[id]?.fields[.zone] = .text(zone.name)
        }
    }

    func zone(of rule: ReminderRule) -> ZoneTransitions { zones[rule.zone] ?? home }

    /// A rule that follows its user is in the user's zone, whatever zone was wished for.
    func following(_ fields: ReminderFields) -> ReminderFields {
        guard fields[.zoneMode] == .text("follow") else { return fields }
        return fields.setting(ReminderFields([.zone: .text(home.name)]), [.zone])
    }

    // MARK: Schedules

    /// A schedule as it is from now on; nil: it was deleted.
    mutating func write(_ schedule: ReminderSchedule?, _ id: Identifier) {
        var after = schedule
        if after?.fields[.zoneMode] == .text("follow") { after?.fields[.zone] = .text(home.name) }
        schedules?[id] = after
    }

    /// The schedule that fields name, where it is known.
    func schedule(of fields: ReminderFields) -> ReminderSchedule? {
        guard case .text(let id) = fields[.schedule] else { return nil }
        return schedules?[id]
    }

    /// With what their schedule says. One that is taken as needed has no time: its reminder keeps its own, and is silent.
    func linked(_ fields: ReminderFields) -> ReminderFields {
        guard let schedule = schedule(of: fields), !schedule.isAsNeeded else { return fields }
        return fields.setting(schedule.fields, ReminderSchedule.taken)
    }

    /// Whether a link may be so. While a rule is linked, its time, days and zone are changed at the schedule.
    private func isSoundLink(_ fields: ReminderFields, since was: ReminderFields?) -> Bool {
        guard let schedule = schedule(of: fields), schedule.fields[.product] == fields[.product],
            schedule.fields[.stack] == fields[.stack]
        else { return false }
        guard let was, was[.schedule] == fields[.schedule] else { return !schedule.isAsNeeded }
        return ReminderSchedule.taken.allSatisfy { fields[$0] == was[$0] }
    }

    // MARK: Fields of rules

    /// With what a new rule has where nobody says otherwise.
    func completed(_ given: ReminderFields) -> ReminderFields {
        var fields = filled(normal(given))
        func fill(_ field: ReminderField, _ value: ReminderValue) {
            if fields[field] == .absent { fields[field] = value }
        }
        fill(.appliesTo, .text(fields[.stack] == .absent ? "item" : "stack"))
        fill(.zone, .text(home.name))
        // Who names another zone than the user's means that one.
        fill(.zoneMode, .text(fields[.zone] == .text(home.name) ? "follow" : "fixed"))
        fill(.repeats, .text("daily"))
        fill(.delivery, .text("local"))
        fill(.enabled, .flag(true))
        return fields
    }

    /// The target of a new rule's schedule, and the time of its preset, where it names none.
    private func filled(_ given: ReminderFields) -> ReminderFields {
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

    // MARK: Days

    /// Whether a rule's medicine was stopped. One that is linked to a product's schedule goes by that.
    func isStopped(_ fields: ReminderFields) -> Bool {
        guard case .text(let stack) = fields[.stack] else {
            guard fields[.schedule] == .absent, case .text(let product) = fields[.product] else { return false }
            return stopped.contains(product)
        }
        return stopped.contains(stack)
    }

    /// The last day on which schedules give the product or stack of a rule with a time of its own: `.max` where one has no
    /// end, `.min` where all are paused; nil where there is no schedule.
    func givenUntil(_ fields: ReminderFields, besides: Identifier? = nil) -> Int? {
        guard let schedules, fields[.schedule] == .absent else { return nil }
        return schedules.compactMap { $0.key == besides ? nil : givenUntil(fields, by: $0.value) }.max()
    }

    /// The last day on which one schedule gives it; nil where that is about another product or stack.
    private func givenUntil(_ fields: ReminderFields, by schedule: ReminderSchedule?) -> Int? {
        guard let schedule, gives(schedule, fields) else { return nil }
        return schedule.isEnabled ? schedule.endsOn?.days ?? .max : .min
    }

    /// Whether the product or stack of such a rule is given until another day, with a schedule as it was before.
    func gives(_ fields: ReminderFields, otherwiseBy id: Identifier, than before: ReminderSchedule?) -> Bool {
        let others = givenUntil(fields, besides: id)
        let days = [before, schedules?[id]].map { one in
            [others, givenUntil(fields, by: one)].compactMap(\.self).max() ?? .max
        }
        return days[0] != days[1]
    }

    private func gives(_ schedule: ReminderSchedule, _ fields: ReminderFields) -> Bool {
        for field in [ReminderField.product, .stack] where fields[field] != .absent {
            if fields[field] == schedule.fields[field] { return true }
        }
        func has(_ stack: ReminderValue, _ product: ReminderValue) -> Bool {
            guard case .text(let stack) = stack, case .text(let product) = product else { return false }
            return stacks?[stack]?.contains(product) ?? false
        }
        return has(schedule.fields[.stack], fields[.product]) || has(fields[.stack], schedule.fields[.product])
    }

    /// Whether a rule may not be made of what it is about. A product that nobody knows is the app's own.
    func isRefused(_ fields: ReminderFields) -> Bool {
        if case .text(let stack) = fields[.stack] {
            // One that is empty may be filled.
            guard let stacks else { return stopped.contains(stack) }
            return stacks[stack].map { stopped.contains(stack) && !$0.isEmpty } ?? true
        }
        guard case .text(let product) = fields[.product] else { return false }
        return stopped.contains(product)
    }

    /// Whether the rule itself reminds on a day.
    func gives(_ day: LocalDate, by rule: ReminderRule) -> Bool {
        guard !isStopped(rule.fields), !silent.contains(rule.id), givenUntil(rule.fields) ?? .max >= day.days
        else { return false }
        return rule.repeats.fires(on: day) && zone(of: rule).has(day) && schedule(of: rule.fields)?.allows(day) ?? true
    }

    /// The day from which a rule's next times are looked for. A linked rule may begin far ahead.
    func firstDay(of rule: ReminderRule, at now: Int) -> LocalDate {
        let today = zone(of: rule).day(at: now)
        return max(today, schedule(of: rule.fields)?.startsOn?.adding(2) ?? today)
    }
}
