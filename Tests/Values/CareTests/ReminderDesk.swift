import Care
import JSON
import Postgres
import TestDatabase
import TestSupport

/// A database and a model of reminders that live through one history.
final class ReminderDesk {
    let connection: BlockingConnection
    var random = SeededRandom(seed: 0)
    var book = ReminderBook(home: ReminderWeek.zones[0], zones: ReminderWeek.zones, schedules: [:], presetTimes: [:])
    private(set) var now = 0
    private var made = 0
    private var top: Int64 = 0
    /// Conflicts that may be decided, and whether each is about a rule.
    private var conflicts: [(key: Identifier, isOfRule: Bool)] = []
    private var sent: [Sent] = []
    /// What was made last under a temporary name.
    private var queued: ReminderFields?
    /// Products that were archived, and those that came back.
    var archived: [String: Bool] = [:]
    /// Steps by what became of them.
    private(set) var counts: [String: Int] = [:]

    /// An action, and how it was written the first time.
    private struct Sent {
        let envelope: ReminderEnvelope
        let type: String
        let payload: String
        let base: Int64?
    }

    init() throws {
        connection = try Cluster.shared.get().database().owner()
        try connection.execute(
            """
            create or replace function sync.clock() returns timestamptz language sql volatile
            as $$ select to_timestamp(pg_catalog.current_setting('test.clock')::bigint) $$;
            """)
    }

    /// The first difference of a seed's history, which is rolled back.
    func difference(seed: UInt64) throws -> String? {
        random = SeededRandom(seed: seed)
        book = ReminderBook(home: ReminderWeek.zones[0], zones: ReminderWeek.zones, schedules: [:], presetTimes: [:])
        book.stacks = ["s1": ["p2"]]
        (made, top, conflicts, sent, queued, archived) = (0, 0, [], [], nil, [:])
        // March 2026: New York's clocks go forward on the 8th.
        now = 1_772_323_200 + Int.random(in: 0..<900_000, using: &random)
        try connection.execute("begin")
        defer { try? connection.execute("rollback") }
        try setClock()
        try connection.execute(
            """
            insert into care.user_settings (user_id, zone) values ('ann', 'UTC');
            insert into care.product (id, user_id, name) values ('p1', 'ann', 'One'), ('p2', 'ann', 'Two');
            insert into care.stack (id, user_id, name) values ('s1', 'ann', 'Morning');
            insert into care.stack_item (stack_id, product_id) values ('s1', 'p2');
            """)
        var told = "history \(seed) (synthetic data)"
        for number in 1...30 {
            let (step, lines) = try step()
            told += "\n    \(now): \(step)"
            // Times ahead are costly to compute, and change seldom.
            let withTimes = number % 6 == 0
            // Of one transaction the model does not know the order: days come by their ids.
            let found = try lines.found + events().sorted() + rows(withTimes)
            let expected = lines.expected + bookEvents().sorted() + bookRows(withTimes)
            if expected != found {
                return """
                    \(told)
                      expected: \(expected.filter { !found.contains($0) }.joined(separator: "\n                "))
                      found:    \(found.filter { !expected.contains($0) }.joined(separator: "\n                "))
                    """
            }
            top = book.top
        }
        return nil
    }

    private func setClock() throws {
        _ = try connection.query("select set_config('test.clock', $1, false)", [String(now)])
    }

    func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &random)] }
    func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    // MARK: Steps

    private func step() throws -> (String, (expected: [String], found: [String])) {
        now += pick([0, 60, 600, 7_200, 40_000])
        try setClock()
        if chance(4) {
            let zone = pick(ReminderWeek.zones)
            _ = try connection.query("update care.user_settings set zone = $1 where user_id = 'ann'", [zone.name])
            try connection.execute("set constraints sync.flush immediate; set constraints sync.flush deferred")
            book.travel(to: zone, at: now)
            try forgetDoses()
            return ("to \(zone.name)", ([], []))
        }
        if chance(9) {
            let story = try changeSchedules()
            try forgetDoses()
            return (story, ([], []))
        }
        if chance(4), !sent.isEmpty { return try play(pick(sent)) }
        made += 1
        let device: Identifier? = chance(90) ? pick(["phone", "tablet", "watch"]) : nil
        let envelope = ReminderEnvelope(Identifier("k\(made)"), device: device, try action())
        let (type, payload, base) = try wire(envelope.action)
        return try play(Sent(envelope: envelope, type: type, payload: payload.canonicalText, base: base))
    }

    /// The model knows no doses, with which reminders stay.
    private func forgetDoses() throws { try connection.execute("delete from care.dose_occurrence") }

    private func action() throws -> ReminderAction {
        let known = (Array(book.rules.keys) + Array(book.tombstones.keys) + Array(book.aliases.keys)).sorted()
        guard !known.isEmpty, !(book.rules.count < 3 && chance(35)) else { return create() }
        let name = chance(97) ? pick(known) : "nothing"
        let rule = book.rule(name)
        let base = chance(25) ? nil : rule.map { max(0, $0.rev - Int64(pick([0, 0, 1, 1, 2, 3]))) } ?? 1
        let today = now / 86_400
        switch Int.random(in: 0..<20, using: &random) {
        case 0: return create()
        case 1, 2: return .delete(name, base: base)
        case 3, 4:
            guard let rule else { fallthrough }
            let day = ReminderDay(rule.id, LocalDate(days: today + pick([-1, 0, 0, 1, 3])))
            return .snooze(
                day, until: chance(30) ? now + pick([600, 20_000, 90_000]) : nil, minutes: pick([nil, 5, 60]))
        case 5, 6, 7:
            let day = LocalDate(days: today + pick([0, 1, 2]))
            let change = pick([
                ReminderDayChange.cancel, .bringBack, .move(day.days * 86_400 + pick([480, 500, 1_500]) * 60),
                .move(nil),
            ])
            let rev = rule.flatMap { book.exceptions[ReminderDay($0.id, day)]?.rev } ?? 0
            let seen = chance(40) ? nil : max(0, rev - Int64(pick([0, 1, 1, 2])))
            return .set(ReminderDay(name, day), change, base: seen)
        case 8...11:
            guard !conflicts.isEmpty else { fallthrough }
            var merged: ReminderFields?
            let choice = pick(ConflictChoice.allCases)
            let conflict = pick(conflicts)
            if choice == .merge, conflict.isOfRule, chance(40) { merged = changes() }
            return .resolve(conflict.key, choice, merged: merged, base: chance(70) ? nil : base)
        default: return .update(name, changes(), base: base)
        }
    }

    private func create() -> ReminderAction {
        var fields = ReminderFields([
            .product: .text(pick(["p1", "p2"])), .time: .number(480), .repeats: .text("daily"),
        ])
        if chance(20) { (fields[.product], fields[.stack]) = (.absent, .text("s1")) }
        if chance(30) { fields = fields.setting(changes(), [.time, .repeats, .days]) }
        if fields[.time] == .absent { fields[.time] = .number(480) }
        if fields[.repeats] == .absent { (fields[.repeats], fields[.days]) = (.text("daily"), .absent) }
        if chance(25) { fields = linking(fields) }
        if chance(15) {
            (fields[.preset], fields[.time]) = (.text(pick(Self.presets)), chance(80) ? .absent : .number(500))
        }
        if chance(50) { fields[.zoneMode] = .text(pick(["follow", "fixed"])) }
        if chance(20) { fields[.zone] = .text(pick(ReminderWeek.zones).name) }
        let number = Int.random(in: 0..<6, using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
            // As the app posts what its queue made.
            return .create(id: nil, clientID: nil, chance(70) ? queued ?? fields : fields)
        case 1, 2:
            queued = fields
            return .create(id: Identifier("tmp-\(number)"), clientID: nil, fields)
        case 3: return .create(id: Identifier("rule-\(number)"), clientID: nil, fields)
        default: return .create(id: nil, clientID: Identifier("client-\(number)"), fields)
        }
    }

    private func changes() -> ReminderFields {
        var fields = ReminderFields()
        for _ in 0..<pick([1, 1, 2, 3]) {
            switch Int.random(in: 0..<10, using: &random) {
            case 8: fields[.schedule] = pick([.absent, .text("plan1"), .text("plan2"), .text("plan3")])
            case 0, 1: fields[.time] = .number(pick([480, 490, 500]))
            case 2: fields[.label] = pick([.absent, .text("a"), .text("b")])
            case 3: fields[.enabled] = .flag(chance(50))
            case 4: fields[.snoozeMinutes] = pick([.absent, .number(5), .number(15)])
            case 5:
                let days = pick([[1, 2, 3], [2, 4], []])
                fields[.repeats] = .text(days.isEmpty ? pick(["daily", "weekdays", "custom"]) : "custom")
                fields[.days] = days.isEmpty ? .absent : .days(days)
            // An id of the app's own, and a stack that is none of the user's.
            case 6:
                let isStack = chance(50)
                fields[isStack ? .stack : .product] = .text(pick(isStack ? ["s1", "p1"] : ["p1", "own"]))
            case 9: fields[.zone] = .text(pick(ReminderWeek.zones).name)
            default: fields[.zoneMode] = .text(pick(["follow", "fixed"]))
            }
        }
        if fields[.product] != .absent, fields[.stack] != .absent { fields[.stack] = .absent }
        return fields
    }

    // MARK: Both sides

    private func play(_ action: Sent) throws -> (String, (expected: [String], found: [String])) {
        let (envelope, type, base) = (action.envelope, action.type, action.base)
        let row = try connection.query(
            """
            select status, answer, coalesce(answer::jsonb #>> '{result,id}', '') from sync.apply('ann', $1, $2, null, $3, $4, $5, null, null)
            """,
            [
                envelope.key.text, envelope.device?.text, type, action.payload,
                base.map { JSONTree.object([.init("rev", .integer($0))]).canonicalText },
            ])
        let cells = row.first ?? []
        let found = try JSONTree(cells.count > 1 ? cells[1] ?? "" : "")
        let newID = cells.count > 2 ? cells[2] ?? "" : ""
        let answer = book.apply(envelope, at: now, newID: Identifier(newID))
        if answer.status != .rejected, !answer.isReplayed { sent.append(action) }
        if answer.status == .conflict, !answer.isReplayed {
            conflicts.append((answer.key, answer.conflict?.day == nil))
        }
        counts[answer.status.rawValue, default: 0] += 1
        return (
            "\(envelope.device?.text ?? "-") \(type) \(action.payload) of \(base.map(String.init) ?? "-")",
            ([answer.line(of: type)], [Self.line(found, of: type)])
        )
    }

    private func wire(_ action: ReminderAction) throws -> (type: String, payload: JSONTree, base: Int64?) {
        func text(_ name: String, _ value: Identifier?) -> [JSONTree.Member] {
            value.map { [.init(name, .string($0.text))] } ?? []
        }
        switch action {
        case .create(let id, let clientID, let fields):
            return ("createReminder", .object(text("id", id) + text("clientId", clientID) + fields.members), nil)
        case .update(let id, let fields, let base):
            return ("updateReminder", .object(text("id", id) + fields.members), base)
        case .delete(let id, let base): return ("deleteReminder", .object(text("id", id)), base)
        case .snooze(let day, let until, let minutes):
            let id = try connection.query(
                """
                select coalesce((select id from care.reminder_occurrence where rule_id = r.id and day = d),
                                care.occurrence_id(r.id, d + r.time))
                from care.reminder_rule as r, lateral (select '1970-01-01'::date + $2::int as d) as t where r.id = $1
                """, [day.rule.text, String(day.day.days)])
            var members = text("occurrenceId", Identifier(id.first?.first.flatMap { $0 } ?? "?"))
            if let until {
                members.append(
                    .init("until", .string(TimeText.text(Timestamp(microseconds: Int64(until) * 1_000_000)))))
            }
            if let minutes { members.append(.init("minutes", .integer(Int64(minutes)))) }
            return ("snoozeReminder", .object(members), nil)
        case .set(let day, let change, let base):
            let told: JSONTree.Member =
                switch change {
                case .cancel: .init("enabled", .bool(false))
                case .bringBack: .init("enabled", .bool(true))
                case .move(let wall): .init("movedTo", .text(wall.map { String(Self.wall($0).prefix(16)) }))
                }
            let date = JSONTree.Member("date", .string(TimeText.text(day.day)))
            return ("setReminderOccurrence", .object(text("id", day.rule) + [date, told]), base)
        case .resolve(let of, let choice, let merged, let base):
            var members = text("of", of) + [.init("choice", .string(choice.rawValue))]
            if let merged { members.append(.init("merged", .object(merged.members))) }
            return ("resolve", .object(members), base)
        }
    }

    static func wall(_ second: Int) -> String {
        TimeText.text(Timestamp(microseconds: Int64(second) * 1_000_000))
    }

    // MARK: Lines

    private static func line(_ answer: JSONTree, of type: String) -> String {
        let conflict = answer["conflict"]
        var offset: JSONTree?
        if case .object(let channels) = answer["positions"] {
            offset = channels.first { $0.name.hasSuffix(".reminders") }?.value["offset"]
        }
        let hasRule = type == "createReminder" || type == "updateReminder"
        return [
            answer["status"], answer["code"], answer["replayed"], offset, conflict?["entity"]?["type"],
            conflict?["fields"].flatMap { conflict?["entity"]?["type"]?.string == "reminder" ? $0 : nil },
            conflict?["server"]?["rev"], hasRule ? answer["result"]?["id"] : nil,
            hasRule ? answer["result"]?["rev"] : nil,
        ].map { ($0 ?? .null).canonicalText }.joined(separator: " ")
    }

    private func events() throws -> [String] {
        try connection.query(
            """
            select case when name = 'reminder.occurrence_updated' then concat_ws(' ', name, d ->> 'ruleId', d ->> 'rev')
                        else concat_ws(' ', name, d #>> '{_sync,k}', d - '{_sync,nextOccurrences,upcoming,silent,userId,createdAt,updatedAt}'::text[]) end
            from sync.event, lateral (select data::jsonb as d) as t
            where user_id = 'ann' and topic = 'reminders' and o > $1::bigint order by o
            """, [String(top)]
        ).map { $0.first.flatMap { $0 } ?? "" }
    }

    private func bookEvents() -> [String] { book.events[Int(top)...].map(\.line) }

    private func rows(_ withTimes: Bool) throws -> [String] {
        try connection.query(
            """
            select line from (
                select concat_ws(' ', 'rule', id, rev, care.rule_fields(r)) as line
                from care.reminder_rule as r where user_id = 'ann'
                union all
                select concat_ws(' ', 'day', rule_id, day, status, to_char(moved_local, 'YYYY-MM-DD"T"HH24:MI'),
                                 case when kept then 'kept ' || extract(epoch from moved_to)::bigint end,
                                 extract(epoch from snoozed_until)::bigint, snooze_count, rev)
                from care.reminder_occurrence where user_id = 'ann'
                union all
                select concat_ws(' ', 'gone', id, rev) from care.reminder_tombstone where user_id = 'ann'
                union all
                select concat_ws(' ', 'name', alias, rule_id) from care.reminder_alias where user_id = 'ann'
                union all
                select concat_ws(' ', 'next', r.id, extract(epoch from u.start)::bigint)
                from care.reminder_rule as r, lateral care.upcoming(r, sync.clock(), 5) as u
                where r.user_id = 'ann' and $1::boolean
            ) as lines
            """, [String(withTimes)]
        ).map { $0.first.flatMap { $0 } ?? "" }.sorted()
    }

    private func bookRows(_ withTimes: Bool) -> [String] {
        var lines = book.rules.values.map {
            "rule \($0.id.text) \($0.rev) \(JSONTree.object($0.fields.all).canonicalText)"
        }
        for (day, exception) in book.exceptions {
            let moved = exception.movedTo.map { String(Self.wall($0).prefix(16)) }
            let parts: [String?] = [
                "day", day.rule.text, TimeText.text(day.day), exception.isCancelled ? "cancelled" : "scheduled", moved,
                exception.kept.map { "kept \($0)" },
                exception.snoozedUntil.map { String($0) }, String(exception.snoozes), String(exception.rev),
            ]
            lines.append(parts.compactMap { $0 }.joined(separator: " "))
        }
        lines += book.tombstones.values.map { "gone \($0.rule.id.text) \($0.rule.rev)" }
        lines += book.aliases.map { "name \($0.key.text) \($0.value.text)" }
        for rule in book.rules.values where withTimes {
            lines += book.upcoming(rule, after: now, 5).map { "next \(rule.id.text) \($0.start)" }
        }
        return lines.sorted()
    }
}
