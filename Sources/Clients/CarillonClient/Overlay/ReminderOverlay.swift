import Care
import JSON

/// Reminders with all actions that the hub has not confirmed, by the rules of the hub.
struct ReminderOverlay {
    static let types: Set<String> = [
        "createReminder", "updateReminder", "deleteReminder", "snoozeReminder", "setReminderOccurrence",
    ]

    private let mirror: Mirror
    private let now: Int
    private(set) var book: ReminderBook
    /// Days of rules by the ids of their occurrences, as far as the hub has told them.
    private var days: [String: ReminderDay] = [:]
    private var told: [ReminderDay: JSONTree] = [:]

    init(_ mirror: Mirror, zone: String, now: Int) {
        self.mirror = mirror
        self.now = now
        let rules = mirror.all(.reminder).values.compactMap(\.value)
        var zones = Set(rules.compactMap { $0["timezone"]?.string })
        for row in mirror.counting(.reminders) {
            if let named = row.payload["timezone"]?.string { zones.insert(named) }
        }
        book = ReminderBook(
            home: Zones.transitions(zone, around: now), zones: zones.map { Zones.transitions($0, around: now) })
        for value in rules {
            let rule = Self.rule(value)
            book.adopt(rule)
            for one in value["upcoming"]?.elements ?? [] {
                guard let id = one["id"]?.string, let start = one["start"]?.string,
                    let day = TimeText.day(String(start.prefix(10)))
                else { continue }
                days[id] = ReminderDay(rule.id, day)
            }
        }
        for value in mirror.all(.reminderDay).values.compactMap(\.value) {
            guard let rule = value["ruleId"]?.string, let day = value["date"]?.string.flatMap(TimeText.day),
                book.rules[Identifier(rule)] != nil
            else { continue }
            let named = ReminderDay(Identifier(rule), day)
            told[named] = value
            if let id = value["id"]?.string { days[id] = named }
            book.adopt(Self.exception(value), of: named)
        }
    }

    private static func rule(_ value: JSONTree) -> ReminderRule {
        ReminderRule(
            id: Identifier(value["id"]?.string ?? ""), clientID: value["clientId"]?.string.map { Identifier($0) },
            fields: ReminderFields(value), rev: value["rev"]?.integer ?? 0,
            createdAt: value["createdAt"]?.string.flatMap(TimeText.instant)?.second ?? 0)
    }

    private static func exception(_ value: JSONTree) -> ReminderException {
        var exception = ReminderException()
        exception.isCancelled = value["status"]?.string == "cancelled"
        exception.rev = value["rev"]?.integer ?? 0
        exception.snoozes = Int(value["snoozeCount"]?.integer ?? 0)
        exception.movedTo = value["movedTo"]?.string.flatMap { TimeText.instant($0 + "Z")?.second }
        exception.snoozedUntil = value["snoozedUntil"]?.string.flatMap(TimeText.instant)?.second
        return exception
    }

    // MARK: Actions

    /// The rule that an action is about, as far as it is known.
    func rule(of payload: JSONTree) -> (name: String, rule: ReminderRule?) {
        if let day = payload["occurrenceId"]?.string.flatMap(named) {
            return (day.rule.text, book.rules[day.rule])
        }
        let name = payload["id"]?.string ?? payload["occurrenceId"]?.string ?? ""
        return (name, book.rule(Identifier(name)))
    }

    /// The revision of a day that the device has; 0: it is as its rule says. Nil where the hub has told no such rule.
    func revision(ofOccurrence payload: JSONTree) -> Int64? {
        guard let day = day(of: payload), book.rules[day.rule] != nil else { return nil }
        return book.exceptions[day]?.rev ?? 0
    }

    /// The day of an occurrence: as the hub has told it, or of an id that this device has made.
    private func named(_ occurrence: String) -> ReminderDay? {
        if let told = days[occurrence] { return told }
        let today = LocalDate(days: now / 86_400)
        for rule in book.rules.values {
            for day in (-3...41).map({ today.adding($0) }) where Self.id(of: rule, on: day) == occurrence {
                return ReminderDay(rule.id, day)
            }
        }
        return nil
    }

    /// Performs all rows that count.
    mutating func fold() {
        for row in mirror.counting(.reminders) {
            if let seen = row.more.seen, let id = seen["id"]?.string, let rev = seen["rev"]?.integer {
                book.remember(ReminderFields(seen["fields"] ?? .object([])), rev: rev, of: Identifier(id))
            }
            guard let action = action(of: row) else { continue }
            let key = Identifier(row.key)
            _ = book.apply(
                ReminderEnvelope(key, device: "this", action), at: now,
                newID: row.payload["id"]?.string.map { Identifier($0) } ?? key)
        }
    }

    /// Nil where a row names an occurrence that is not known, or the whole rule for one: the hub decides what of it counts.
    private func action(of row: QueuedAction) -> ReminderAction? {
        let payload = row.payload
        if row.type == "updateReminder", payload["applyTo"]?.string == "occurrence" { return nil }
        // A revision that the person saw and the device has not is known to the hub alone: until it answers, all is shown.
        let base = row.more.seen?["rev"]?.integer ?? row.base?["rev"]?.integer
        let id = payload["id"]?.string.map { Identifier($0) }
        switch row.type {
        case "createReminder":
            let name = payload["clientId"]?.string.map { Identifier($0) }
            return .create(id: id, clientID: name, ReminderFields(payload))
        case "updateReminder": return id.map { .update($0, ReminderFields(payload), base: base) }
        case "deleteReminder": return id.map { .delete($0, base: base) }
        case "snoozeReminder":
            var until = payload["until"]?.string.flatMap(TimeText.instant)?.second
            if let milliseconds = payload["until"]?.integer { until = Int(milliseconds / 1000) }
            let minutes = payload["minutes"]?.integer.map { Int($0) }
            return day(of: payload).map { .snooze($0, until: until, minutes: minutes) }
        default:
            var change = ReminderDayChange.bringBack
            if payload["enabled"]?.flag == false { change = .cancel }
            if payload.has("movedTo") {
                change = .move(payload["movedTo"]?.string.flatMap { TimeText.instant($0 + "Z")?.second })
            }
            return day(of: payload).map { .set($0, change, base: base) }
        }
    }

    private func day(of payload: JSONTree) -> ReminderDay? {
        if let known = payload["occurrenceId"]?.string.flatMap(named) { return known }
        guard let name = payload["id"]?.string.map({ Identifier($0) }),
            let date = payload["date"]?.string.flatMap(TimeText.day)
        else { return nil }
        return ReminderDay(book.rule(name)?.id ?? name, date)
    }

    // MARK: What is shown

    /// Nil: no snapshot is here yet.
    static func value(_ mirror: Mirror, zone: String, channel: String, now: Int) -> CarillonReminders? {
        guard mirror.positions[channel] != nil else { return nil }
        let start = ReminderOverlay(mirror, zone: zone, now: now)
        var folded = start
        folded.fold()
        return folded.shown(since: start.book)
    }

    private func shown(since before: ReminderBook) -> CarillonReminders {
        let conflicted = mirror.conflicted
        let changed = book.exceptions.filter { before.exceptions[$0.key] != $0.value }
        let rules = book.rules.values.map { rule -> (made: Int, CarillonReminder) in
            let value = mirror.value(.reminder, rule.id.text)
            let isPending = before.rules[rule.id] != rule || changed.contains { $0.key.rule == rule.id }
            let tree = isPending ? pending(rule, value) : value ?? pending(rule, nil)
            let hasConflict = conflicted.contains("reminder:\(rule.id.text)")
            return (rule.createdAt, CarillonReminder(tree, isPending: isPending, hasConflict: hasConflict))
        }
        let days = book.exceptions.map { day, exception -> CarillonReminderDay in
            let value = told[day]
            // Its time follows from its rule too.
            guard changed[day] != nil || before.rules[day.rule] != book.rules[day.rule] else {
                return CarillonReminderDay(value ?? .object([]), isPending: false)
            }
            let moved = exception.movedTo.map { String(Self.wall($0).prefix(16)) }
            let snoozed = exception.snoozedUntil.map { TimeText.text(Self.instant($0)) }
            let made = book.rules[day.rule].map { Self.id(of: $0, on: day.day) }
            let members: [JSONTree.Member] = [
                .init("id", value?["id"] ?? .text(made)), .init("ruleId", .string(day.rule.text)),
                .init("date", .string(TimeText.text(day.day))),
                .init("start", .text(book.shownStart(of: day).map { TimeText.text(Self.instant($0)) })),
                .init("status", .string(exception.isCancelled ? "cancelled" : "scheduled")),
                .init("movedTo", .text(moved)), .init("snoozedUntil", .text(snoozed)),
                .init("snoozeCount", .integer(Int64(exception.snoozes))),
            ]
            return CarillonReminderDay((value ?? .object([])).setting(members), isPending: true)
        }
        return CarillonReminders(
            rules: rules.sorted { ($1.made, $0.1.id) < ($0.made, $1.1.id) }.map(\.1),
            days: days.sorted { ($0.date, $0.ruleID) < ($1.date, $1.ruleID) })
    }

    /// A rule with what was folded over it, and its next times.
    private func pending(_ rule: ReminderRule, _ value: JSONTree?) -> JSONTree {
        let ids = Dictionary(days.filter { $0.value.rule == rule.id }.map { ($0.value.day, $0.key) }) { first, _ in
            first
        }
        let upcoming = book.upcoming(rule, after: now, 10).map { next -> JSONTree in
            let offset = Zones.offset(rule.zone, second: next.start)
            return .object([
                .init("id", .string(ids[next.day] ?? Self.id(of: rule, on: next.day))),
                .init("ruleId", .string(rule.id.text)),
                .init("date", .string(TimeText.text(next.day))),
                .init("start", .string(TimeText.local(Self.instant(next.start), utcOffset: offset))),
                .init("status", .string("scheduled")),
            ])
        }
        return (value ?? .object([.init("rev", .integer(0))])).setting(
            rule.fields.members + [
                .init("id", .string(rule.id.text)), .init("clientId", .text(rule.clientID?.text)),
                .init("upcoming", .array(upcoming)),
            ])
    }

    /// As the hub will name it.
    private static func id(of rule: ReminderRule, on day: LocalDate) -> String {
        OccurrenceID.text(rule: rule.id.text, day: day, minute: rule.minute)
    }

    private static func instant(_ second: Int) -> Timestamp { Timestamp(microseconds: Int64(second) * 1_000_000) }

    private static func wall(_ second: Int) -> String { TimeText.local(instant(second), utcOffset: 0) }
}
