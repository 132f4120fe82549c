/// A reminder rule as the server has it.
package struct ReminderRule: Hashable, Sendable {
    /// Its id.
    package let id: Identifier
    /// What the device called it before it knew the id.
    package var clientID: Identifier?
    /// What people change.
    package var fields: ReminderFields
    /// Counts its changes.
    package var rev: Int64
    /// When it was made: seconds since 1970.
    package let createdAt: Int

    /// A rule as it is new.
    package init(
        id: Identifier, clientID: Identifier? = nil, fields: ReminderFields, rev: Int64 = 1, createdAt: Int = 0
    ) {
        self.id = id
        self.clientID = clientID
        self.fields = fields
        self.rev = rev
        self.createdAt = createdAt
    }

    /// Minutes after midnight.
    package var minute: Int {
        if case .number(let minute) = fields[.time] { minute } else { 0 }
    }

    /// Where its time is meant.
    package var zone: String {
        if case .text(let zone) = fields[.zone] { zone.text } else { "UTC" }
    }

    /// Whether it reminds at all.
    package var isEnabled: Bool { fields[.enabled] == .flag(true) }

    /// How it repeats.
    package var repeats: PlannedSchedule.Rule {
        switch (fields[.repeats], fields[.days]) {
        case (.text("weekdays"), _): .weekdays
        case (.text("custom"), .days(let days)): .on(Set(days))
        case (.text("custom"), _): .on([])
        default: .daily
        }
    }
}

/// One day of a rule. Exceptions are of days, so that they outlive a change of the rule's time.
package struct ReminderDay: Hashable, Sendable {
    /// The rule.
    package let rule: Identifier
    /// The local day.
    package let day: LocalDate

    /// A rule's day.
    package init(_ rule: Identifier, _ day: LocalDate) {
        self.rule = rule
        self.day = day
    }
}

/// How a day differs from its rule.
package struct ReminderException: Hashable, Sendable {
    /// The day's reminder does not come.
    package var isCancelled = false
    /// The local second at which it comes instead.
    package var movedTo: Int?
    /// The second, UTC, that it keeps since its rule's zone changed: wherever it was moved, and whatever the rule says.
    package var kept: Int?
    /// It comes again at that second, UTC.
    package var snoozedUntil: Int?
    /// How often it was snoozed.
    package var snoozes = 0
    /// Counts its changes.
    package var rev: Int64 = 0

    /// A day as its rule says.
    package init() {}
}

/// A rule that was deleted, for as long as devices may still act on it.
package struct ReminderTombstone: Hashable, Sendable {
    /// The rule at its end, with the revision of its deletion.
    package let rule: ReminderRule
    /// When: seconds since 1970.
    package let at: Int
}

extension ReminderRule {
    /// When a day's reminder comes by the rule and its exception, before any snooze.
    func start(on day: LocalDate, _ exception: ReminderException?, in zone: ZoneTransitions) -> Int {
        if let kept = exception?.kept { return kept }
        if let moved = exception?.movedTo { return zone.second(of: moved) }
        return zone.second(of: day.days * 86_400 + minute * 60)
    }
}
