/// Single days of rules: cancelled, moved and snoozed.
struct ReminderDays: Sendable {
    /// Seconds after its start until which a reminder may be snoozed.
    static let snoozeSeconds = 14_400
    /// How often it may be.
    static let snoozesMax = 10
    /// Minutes of a snooze where neither the device nor the rule tells.
    static let snoozeMinutes = 10

    /// The days that differ from their rule.
    private(set) var exceptions: [ReminderDay: ReminderException] = [:]
    /// Which device made each revision of a day.
    private var decisions: [ReminderDay: [Int64: Identifier?]] = [:]

    // MARK: Changes

    mutating func set(
        _ day: ReminderDay, of rule: ReminderRule, _ change: ReminderDayChange, _ base: Int64?, _ cause: ReminderCause,
        in regimen: Regimen
    ) -> ReminderOutcome {
        guard exceptions[day] != nil || regimen.gives(day.day, by: rule) else { return .rejected("invalid") }
        let before = exceptions[day] ?? ReminderException()
        var after = before
        switch change {
        case .cancel: after.isCancelled = true
        case .bringBack: after.isCancelled = false
        case .move(let wall): after.move(to: wall, on: day.day, by: rule, in: regimen.zone(of: rule))
        }
        guard after != before else { return ReminderOutcome(status: .noop, rule: rule) }
        if case .move(let wall) = change, wall != nil || !after.isCancelled {
            // What has passed never comes, also where the day is brought back later.
            let starts = [before, after].map { rule.start(on: day.day, $0, in: regimen.zone(of: rule)) }
            guard starts[1] > cause.now || wall == nil && starts[0] <= cause.now else { return .rejected("invalid") }
        }
        if let base, before.rev > base, isDecided(day, since: base, cause) {
            let conflict = ReminderConflict(
                code: "state", id: rule.id, day: day.day, server: rule, serverRev: before.rev, local: ReminderFields(),
                fields: [],
                merged: nil)
            let pending = PendingReminder(action: .set(day, change, base: nil), rev: before.rev)
            return ReminderOutcome(status: .conflict, code: "state", conflict: conflict, pending: pending)
        }
        write(after, of: day, cause)
        return ReminderOutcome(status: .applied, rule: rule)
    }

    mutating func snooze(
        _ day: ReminderDay, of rule: ReminderRule, _ until: Int?, _ minutes: Int?, _ cause: ReminderCause,
        in regimen: Regimen
    ) -> ReminderOutcome {
        var exception = exceptions[day] ?? ReminderException()
        guard regimen.gives(day.day, by: rule), !exception.isCancelled else {
            return ReminderOutcome(status: .noop, rule: rule)
        }
        let start = rule.start(on: day.day, exception, in: regimen.zone(of: rule))
        var length = minutes ?? Self.snoozeMinutes
        if minutes == nil, case .number(let own) = rule.fields[.snoozeMinutes] { length = own }
        // A device may hold what no hub would accept.
        length = min(max(length, 0), Self.snoozeSeconds / 60)
        let wanted = min(until ?? cause.now + length * 60, start + Self.snoozeSeconds)
        guard wanted > max(start, exception.snoozedUntil ?? start, cause.now) else {
            return ReminderOutcome(status: .noop, rule: rule)
        }
        guard exception.snoozes < Self.snoozesMax else { return .rejected("too_many") }
        exception.snoozedUntil = wanted
        exception.snoozes += 1
        write(exception, of: day, cause)
        return ReminderOutcome(status: .applied, rule: rule)
    }

    private mutating func write(_ exception: ReminderException, of day: ReminderDay, _ cause: ReminderCause) {
        write(exception, of: day)
        decisions[day, default: [:]][exception.rev + 1] = .some(cause.device)
    }

    /// Nobody decided that.
    mutating func write(_ exception: ReminderException, of day: ReminderDay) {
        var exception = exception
        exception.rev += 1
        exceptions[day] = exception
    }

    /// A day as the hub told it.
    mutating func adopt(_ exception: ReminderException, of day: ReminderDay) { exceptions[day] = exception }

    /// The rule was deleted.
    mutating func remove(_ rule: Identifier) {
        exceptions = exceptions.filter { $0.key.rule != rule }
        decisions = decisions.filter { $0.key.rule != rule }
    }

    /// Whether anybody but the device itself decided something about a day after a revision.
    private func isDecided(_ day: ReminderDay, since rev: Int64, _ cause: ReminderCause) -> Bool {
        decisions[day, default: [:]].contains { later, device in
            later > rev && (device == nil || device != cause.device)
        }
    }

    // MARK: Times

    /// The second at which a day's reminder comes, by rule and exception, before any snooze.
    func start(of day: LocalDate, by rule: ReminderRule, in zone: ZoneTransitions) -> Int {
        rule.start(on: day, exceptions[ReminderDay(rule.id, day)], in: zone)
    }

    /// The second at which a day's reminder comes, by rule, exception and snooze.
    private func shownStart(of day: LocalDate, by rule: ReminderRule, in zone: ZoneTransitions) -> Int {
        let start = start(of: day, by: rule, in: zone)
        return max(start, exceptions[ReminderDay(rule.id, day)]?.snoozedUntil ?? start)
    }

    /// The next times of a rule after a second, with the day that each is of.
    func upcoming(
        _ rule: ReminderRule, after now: Int, _ wanted: Int, in regimen: Regimen, _ span: ReminderSpan
    ) -> [(day: LocalDate, start: Int)] {
        guard rule.isEnabled else { return [] }
        let zone = regimen.zone(of: rule)
        let first = max(regimen.firstDay(of: rule, at: now), span.first?.adding(2) ?? LocalDate(days: .min))
        let own = exceptions.keys.filter { $0.rule == rule.id }.map(\.day)
        var found: [(day: LocalDate, start: Int)] = []
        func look(_ day: LocalDate) {
            let isCancelled = exceptions[ReminderDay(rule.id, day)]?.isCancelled == true
            guard !isCancelled, span.has(day), regimen.gives(day, by: rule) else { return }
            let shown = shownStart(of: day, by: rule, in: zone)
            if shown > now { found.append((day, shown)) }
        }
        // Two days back: a reminder of yesterday may have been moved or snoozed. A rule fires every week.
        var day = first.adding(-2)
        let end = first.adding((wanted + own.count + 1) * 7 + 9)
        while day < end, found.count < wanted + own.count + 4 {
            look(day)
            day = day.adding(1)
        }
        // One of any other day may have been moved or snoozed to now.
        for other in own where other < first.adding(-2) || other >= day { look(other) }
        return Array(found.sorted { ($0.start, $0.day) < ($1.start, $1.day) }.prefix(wanted))
    }
}
