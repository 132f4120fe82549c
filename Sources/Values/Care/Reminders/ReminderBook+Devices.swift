// A device's view: rules as the hub told them.

extension ReminderBook {
    /// A rule of the hub; `isSilent`: nothing of it comes.
    package mutating func adopt(_ rule: ReminderRule, isSilent: Bool = false) {
        rules[rule.id] = rule
        if isSilent { regimen.silent.insert(rule.id) }
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

    /// The second at which a day's reminder comes, by rule and exception, before any snooze.
    package func start(of day: ReminderDay) -> Int? {
        guard let rule = rules[day.rule] else { return nil }
        return days.start(of: day.day, by: rule, in: regimen.zone(of: rule))
    }

    /// The next times of a rule after a second, with the day that each is of.
    package func upcoming(
        _ rule: ReminderRule, after now: Int, _ wanted: Int, in span: ReminderSpan = ReminderSpan()
    ) -> [(day: LocalDate, start: Int)] {
        days.upcoming(rule, after: now, wanted, in: regimen, span)
    }
}

/// The days on which a rule may remind at all, where the book itself does not know them.
package struct ReminderSpan: Sendable {
    /// The first one; nil: there is none.
    package var first: LocalDate?
    /// The last one; nil: there is none.
    package var last: LocalDate?
    /// Days that are among them besides.
    package var others: Set<LocalDate> = []
    /// There are none: the rule is silent.
    package var isEmpty = false

    /// All days.
    package init(first: LocalDate? = nil, last: LocalDate? = nil) {
        (self.first, self.last) = (first, last)
    }

    /// No day.
    package static let none: ReminderSpan = {
        var span = ReminderSpan()
        span.isEmpty = true
        return span
    }()

    func has(_ day: LocalDate) -> Bool {
        guard !isEmpty else { return false }
        return others.contains(day) || (first.map { $0 <= day } ?? true && last.map { day <= $0 } ?? true)
    }
}
