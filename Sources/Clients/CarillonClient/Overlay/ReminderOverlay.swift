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
            book.adopt(rule, isSilent: value["silent"]?.flag == true)
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
        if value["kept"]?.flag == true {
            exception.kept = value["start"]?.string.flatMap(TimeText.instant)?.second
        } else {
            exception.movedTo = value["movedTo"]?.string.flatMap { TimeText.instant($0 + "Z")?.second }
        }
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

    /// A clock that is so many seconds behind is lost: 90 days.
    private static let lostBehind = 7_776_000

    /// Performs all rows that count.
    mutating func fold() {
        for row in mirror.counting(.reminders) {
            if let seen = row.more.seen, let id = seen["id"]?.string, let rev = seen["rev"]?.integer {
                book.remember(ReminderFields(seen["fields"] ?? .object([])), rev: rev, of: Identifier(id))
            }
            guard let action = action(of: row) else { continue }
            let key = Identifier(row.key)
            // A snooze counts from when the person acted.
            let told = TimeText.instant(row.clientTime)?.second ?? now
            let acted = told <= now - Self.lostBehind ? now : min(told, now)
            _ = book.apply(
                ReminderEnvelope(key, device: "this", action), at: acted,
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

    /// Times are always those of now, however long ago the hub has told the rule.
    private func shown(since before: ReminderBook) -> CarillonReminders {
        let conflicted = mirror.conflicted
        let changed = Set(book.exceptions.filter { before.exceptions[$0.key] != $0.value }.keys)
        let medicines = MedicationOverlay.medicines(mirror)
        let rules = book.rules.values.map { rule -> (made: Timestamp, id: Identifier, CarillonReminder) in
            let value = mirror.value(.reminder, rule.id.text)
            let isPending = before.rules[rule.id] != rule || changed.contains { $0.rule == rule.id }
            let upcoming = upcoming(rule, in: span(of: rule, value, medicines), changed)
            let tree = (value ?? .object([.init("rev", .integer(0))])).setting(
                rule.fields.members + [
                    .init("id", .string(rule.id.text)), .init("clientId", .text(rule.clientID?.text)),
                    .init("upcoming", .array(upcoming)),
                ])
            let hasConflict = conflicted.contains("reminder:\(rule.id.text)")
            let made = value?["createdAt"]?.string.flatMap(TimeText.instant) ?? Self.instant(rule.createdAt)
            return (made, rule.id, CarillonReminder(tree, isPending: isPending, hasConflict: hasConflict))
        }
        let days = book.exceptions.map { day, exception -> (place: String, id: Identifier, CarillonReminderDay) in
            let isPending = changed.contains(day) || before.rules[day.rule] != book.rules[day.rule]
            let tree = shown(day, exception, isChanged: changed.contains(day))
            let place = tree["originalLocal"]?.string ?? tree["date"]?.string ?? ""
            return (place, Identifier(tree["id"]?.string ?? ""), CarillonReminderDay(tree, isPending: isPending))
        }
        return CarillonReminders(
            rules: rules.sorted { ($1.made, $0.id) < ($0.made, $1.id) }.map(\.2),
            days: days.sorted { ($0.place, $0.id) < ($1.place, $1.id) }.map(\.2))
    }

    /// A day that differs from its rule. Its time follows from the rule of now.
    private func shown(_ day: ReminderDay, _ exception: ReminderException, isChanged: Bool) -> JSONTree {
        let value = told[day]
        let date = TimeText.text(day.day)
        var members: [JSONTree.Member] = [
            .init("id", value?["id"] ?? .text(book.rules[day.rule].map { Self.id(of: $0, on: day.day) })),
            .init("ruleId", .string(day.rule.text)), .init("date", .string(date)),
            .init("start", .text(book.start(of: day).map { TimeText.text(Self.instant($0)) })),
        ]
        if value?["originalLocal"] == nil, let minute = book.rules[day.rule]?.minute {
            let time = [minute / 60, minute % 60].map { ($0 < 10 ? "0" : "") + String($0) }.joined(separator: ":")
            members.append(.init("originalLocal", .string("\(date)T\(time):00")))
        }
        if isChanged {
            let kept = exception.kept.map { $0 + Zones.offset(book.rules[day.rule]?.zone ?? "UTC", second: $0) }
            let moved = kept ?? exception.movedTo
            members += [
                .init("status", .string(exception.isCancelled ? "cancelled" : "scheduled")),
                .init("movedTo", .text(moved.map { String(Self.wall($0).prefix(16)) })),
                .init("kept", .bool(kept != nil)),
                .init("snoozedUntil", .text(exception.snoozedUntil.map { TimeText.text(Self.instant($0)) })),
                .init("snoozeCount", .integer(Int64(exception.snoozes))),
            ]
        }
        return (value ?? .object([])).setting(members)
    }

    private func upcoming(_ rule: ReminderRule, in span: ReminderSpan, _ changed: Set<ReminderDay>) -> [JSONTree] {
        book.upcoming(rule, after: now, Self.upcomingMax, in: span).map { next in
            let day = ReminderDay(rule.id, next.day)
            let offset = Zones.offset(rule.zone, second: next.start)
            let status = changed.contains(day) ? nil : told[day]?["status"]?.string
            return .object([
                .init("id", told[day]?["id"] ?? .string(Self.id(of: rule, on: next.day))),
                .init("ruleId", .string(rule.id.text)), .init("date", .string(TimeText.text(next.day))),
                .init("start", .string(TimeText.local(Self.instant(next.start), utcOffset: offset))),
                .init("status", .string(status ?? "scheduled")),
            ])
        }
    }

    /// How many next times of a rule the hub tells.
    private static let upcomingMax = 10

    /// The days on which a rule may remind at all. A schedule that is here says so itself. Of what else silences a rule (an
    /// archived product, say) the book knows nothing: the hub has told no next time of it then.
    private func span(
        of rule: ReminderRule, _ value: JSONTree?,
        _ medicines: (before: MedicationOverlay.Medicines, after: MedicationOverlay.Medicines)
    ) -> ReminderSpan {
        let (before, after) = medicines
        func text(_ field: ReminderField) -> String? {
            guard case .text(let text) = rule.fields[field] else { return nil }
            return text.text
        }
        if let target = text(.stack) ?? text(.product), before.ids.contains(target), !after.ids.contains(target) {
            return .none
        }
        if let id = text(.schedule) {
            if let schedule = after.schedules[id] {
                let isGiving = schedule["enabled"]?.flag ?? true && schedule["repeat"]?.string != "as_needed"
                guard isGiving else { return .none }
                return ReminderSpan(
                    first: schedule["startsOn"]?.string.flatMap(TimeText.day),
                    last: schedule["endsOn"]?.string.flatMap(TimeText.day))
            }
            if before.schedules[id] != nil { return .none }
        }
        let isSame = [ReminderField.product, .stack, .schedule].allSatisfy { value?[$0.name]?.string == text($0) }
        guard let times = value?["upcoming"]?.elements, value?["enabled"]?.flag == true, isSame else {
            return ReminderSpan()
        }
        guard !times.isEmpty else { return .none }
        guard text(.schedule) != nil else { return ReminderSpan() }
        // Its schedule is not here: where it begins and ends, its next times tell.
        let days = times.compactMap { $0["start"]?.string.flatMap { TimeText.day(String($0.prefix(10))) } }
        var span = ReminderSpan(first: days.min(), last: times.count < Self.upcomingMax ? days.max() : nil)
        span.others = Set(book.exceptions.keys.filter { $0.rule == rule.id }.map(\.day))
        return span
    }

    /// As the hub will name it.
    private static func id(of rule: ReminderRule, on day: LocalDate) -> String {
        OccurrenceID.text(rule: rule.id.text, day: day, minute: rule.minute)
    }

    private static func instant(_ second: Int) -> Timestamp { Timestamp(microseconds: Int64(second) * 1_000_000) }

    private static func wall(_ second: Int) -> String { TimeText.local(instant(second), utcOffset: 0) }
}
