// Single days of a rule: cancelled, moved and snoozed.

extension ReminderBook {
    /// Seconds after its start until which a reminder may be snoozed.
    package static let snoozeSeconds = 14_400
    /// How often it may be.
    package static let snoozesMax = 10
    /// Minutes of a snooze where neither the device nor the rule tells.
    package static let snoozeMinutes = 10

    mutating func set(
        _ named: ReminderDay, _ change: ReminderDayChange, _ base: Int64?, _ cause: Cause
    ) -> Outcome {
        guard let rule = rule(named.rule) else { return .rejected("invalid") }
        let day = ReminderDay(rule.id, named.day)
        guard exceptions[day] != nil || isGiven(day.day, by: rule) else { return .rejected("invalid") }
        let before = exceptions[day] ?? ReminderException()
        var after = before
        switch change {
        case .cancel: after.isCancelled = true
        case .bringBack: after.isCancelled = false
        // To where the rule has it is no move.
        case .move(let wall): after.movedTo = wall == day.day.days * 86_400 + rule.minute * 60 ? nil : wall
        }
        guard after != before else { return Outcome(status: .noop, rule: rule) }
        if let base, before.rev > base, isDecided(day, since: base, cause) {
            let conflict = ReminderConflict(
                code: "state", id: rule.id, day: day.day, server: rule, serverRev: before.rev, local: ReminderFields(),
                fields: [],
                merged: nil)
            let pending = Pending(action: .set(day, change, base: nil), rev: before.rev)
            return Outcome(status: .conflict, code: "state", conflict: conflict, pending: pending)
        }
        write(after, of: day, cause)
        return Outcome(status: .applied, rule: rule)
    }

    /// Whether anybody but the device itself decided something about a day after a revision.
    private func isDecided(_ day: ReminderDay, since rev: Int64, _ cause: Cause) -> Bool {
        decisions[day, default: [:]].contains { later, device in
            later > rev && (device == nil || device != cause.device)
        }
    }

    /// Whether the rule itself reminds on a day.
    private func isGiven(_ day: LocalDate, by rule: ReminderRule) -> Bool {
        rule.repeats.fires(on: day) && zone(of: rule).has(day) && schedule(of: rule.fields)?.allows(day) ?? true
    }

    mutating func snooze(_ named: ReminderDay, _ until: Int?, _ minutes: Int?, _ cause: Cause) -> Outcome {
        guard let rule = rule(named.rule) else { return .rejected("invalid") }
        let day = ReminderDay(rule.id, named.day)
        var exception = exceptions[day] ?? ReminderException()
        guard isGiven(day.day, by: rule), !exception.isCancelled, !doneDays.contains(day) else {
            return Outcome(status: .noop, rule: rule)
        }
        let start = rule.start(on: day.day, exception, in: zone(of: rule))
        var length = minutes ?? Self.snoozeMinutes
        if minutes == nil, case .number(let own) = rule.fields[.snoozeMinutes] { length = own }
        // A device may hold what no hub would accept.
        length = min(max(length, 0), Self.snoozeSeconds / 60)
        let wanted = min(until ?? cause.now + length * 60, start + Self.snoozeSeconds)
        guard wanted > max(start, exception.snoozedUntil ?? start, cause.now), exception.snoozes < Self.snoozesMax
        else {
            return Outcome(status: .noop, rule: rule)
        }
        exception.snoozedUntil = wanted
        exception.snoozes += 1
        write(exception, of: day, cause)
        return Outcome(status: .applied, rule: rule)
    }

    private mutating func write(_ exception: ReminderException, of day: ReminderDay, _ cause: Cause) {
        var exception = exception
        exception.rev += 1
        exceptions[day] = exception
        decisions[day, default: [:]][exception.rev] = .some(cause.device)
        tell(.occurrence(day, exception), cause)
    }

    /// The next times of a rule after a second, with the day that each is of.
    package func upcoming(_ rule: ReminderRule, after now: Int, _ wanted: Int) -> [(day: LocalDate, start: Int)] {
        guard rule.isEnabled else { return [] }
        let zone = zone(of: rule)
        // A linked rule may begin far ahead.
        let first = max(zone.day(at: now), schedule(of: rule.fields)?.startsOn?.adding(2) ?? zone.day(at: now))
        var found: [(day: LocalDate, start: Int)] = []
        // Two days back: a reminder of yesterday may have been moved or snoozed. A rule fires every week.
        for number in -2..<(wanted + exceptions.count + 1) * 7 + 9 {
            let day = first.adding(number)
            let exception = exceptions[ReminderDay(rule.id, day)]
            guard isGiven(day, by: rule), exception?.isCancelled != true else { continue }
            let start = rule.start(on: day, exception, in: zone)
            let shown = max(start, exception?.snoozedUntil ?? start)
            if shown > now { found.append((day, shown)) }
        }
        return Array(found.sorted { ($0.start, $0.day) < ($1.start, $1.day) }.prefix(wanted))
    }
}
