import Care
import JSON
import Postgres
import TestDatabase

// What rules are linked to, and what presets stand for. It is written by plain SQL, as an app's backend may.
extension ReminderDesk {
    static let presets = ["AM_WITH_FOOD", "WITH_BREAKFAST", "LUNCH", "BEDTIME", "CUSTOM"]

    private static let targets: [(schedule: Identifier, field: ReminderField, id: String)] = [
        ("plan1", .product, "p1"), ("plan2", .product, "p2"), ("plan3", .stack, "s1"),
    ]

    /// A new rule's fields with a link: with the schedule's target, with none, or with another one's.
    func linking(_ fields: ReminderFields) -> ReminderFields {
        var fields = fields
        let target = pick(Self.targets)
        fields[.schedule] = .text(target.schedule)
        if chance(90) { (fields[.product], fields[.stack]) = (.absent, .absent) }
        if chance(40) { fields[target.field] = .text(target.id) }
        if fields[.stack] != .absent { fields[.product] = .absent }
        if chance(50) { fields[.time] = .absent }
        return fields
    }

    /// A schedule is made, changed or deleted, a product archived or not, or presets mean other times.
    func changeSchedules() throws -> String {
        let story: String
        switch pick([0, 0, 0, 0, 0, 0, 1, 2, 3]) {
        case 1:
            let id = pick(Self.targets).schedule
            _ = try connection.query("delete from care.schedule where id = $1", [id.text])
            book.write(nil, id, at: now)
            story = "\(id.text) is deleted"
        case 2:
            let (id, product) = pick([(Identifier("plan1"), "p1"), ("plan2", "p2")])
            let isArchived = chance(50)
            _ = try connection.query(
                "update care.product set archived_at = case when $2::boolean then sync.clock() end where id = $1",
                [product, String(isArchived)])
            archived[product] = isArchived
            // All that the stack has is p2.
            let stopped = archived.filter(\.value).flatMap { $0.key == "p2" ? ["p2", "s1"] : [$0.key] }
            book.stop(Set(stopped.map { Identifier($0) }), at: now)
            if var schedule = book.schedules?[id] {
                schedule.isArchived = isArchived
                book.write(schedule, id, at: now)
            }
            story = "\(product) is \(isArchived ? "" : "not ")archived"
        case 3:
            let (preset, minute) = (pick(Self.presets), pick([nil, 420, 1_290]))
            book.presetTimes?[preset] = minute
            let times = (book.presetTimes ?? [:]).mapValues { String(Self.wall($0 * 60).dropFirst(11).prefix(5)) }
            let json = JSONTree.object(times.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) })
            _ = try connection.query(
                "update care.user_settings set preset_times = $1 where user_id = 'ann'", [json.canonicalText])
            story = "presets: \(json.canonicalText)"
        default:
            story = try writeSchedule()
        }
        try connection.execute("set constraints sync.flush immediate; set constraints sync.flush deferred")
        return story
    }

    private func writeSchedule() throws -> String {
        let target = pick(Self.targets)
        var schedule = book.schedules?[target.schedule] ?? Self.usual(target.field, target.id)
        schedule.isArchived = target.field == .product && archived[target.id] ?? false
        for _ in 0..<pick([0, 1, 1, 2]) { change(&schedule) }
        if schedule.fields[.repeats] == .text("as_needed") {
            schedule.fields[.time] = .absent
        } else if schedule.fields[.time] == .absent {
            schedule.fields[.time] = .number(470)
        }
        book.write(schedule, target.schedule, at: now)
        let fields = schedule.fields
        func text(_ field: ReminderField) -> String? {
            switch fields[field] {
            case .text(let text): text.text
            case .number(let minute): String(Self.wall(minute * 60).dropFirst(11).prefix(5))
            case .days(let days): "{\(days.map(String.init).joined(separator: ","))}"
            default: nil
            }
        }
        let values = [
            target.schedule.text, text(.product), text(.stack), text(.time), text(.repeats), text(.days), text(.zone),
            text(.zoneMode), schedule.startsOn.map { TimeText.text($0) }, schedule.endsOn.map { TimeText.text($0) },
            String(schedule.isEnabled),
        ]
        _ = try connection.query(
            """
            insert into care.schedule as s (id, user_id, product_id, stack_id, time, repeat, repeat_on, timezone, tz_mode, starts_on,
                                            ends_on, enabled)
            values ($1, 'ann', $2, $3, $4::time, $5, $6::smallint[], $7, $8, $9::date, $10::date, $11::boolean)
            on conflict (id) do update
            set time = excluded.time, repeat = excluded.repeat, repeat_on = excluded.repeat_on, timezone = excluded.timezone,
                tz_mode = excluded.tz_mode, starts_on = excluded.starts_on, ends_on = excluded.ends_on, enabled = excluded.enabled
            """, values)
        return "schedule \(values.map { $0 ?? "-" }.joined(separator: " "))"
    }

    private static func usual(_ field: ReminderField, _ id: String) -> ReminderSchedule {
        ReminderSchedule(
            ReminderFields([
                field: .text(id), .time: .number(470), .repeats: .text("daily"), .zone: .text("UTC"),
                .zoneMode: .text("follow"),
            ]))
    }

    private func change(_ schedule: inout ReminderSchedule) {
        let today = now / 86_400
        switch Int.random(in: 0..<7, using: &random) {
        case 0: schedule.fields[.time] = .number(pick([460, 480, 150]))
        case 1:
            let days = pick([[2, 4], [1, 3, 5, 7], []])
            schedule.fields[.repeats] = .text(days.isEmpty ? pick(["daily", "weekdays", "as_needed"]) : "custom")
            schedule.fields[.days] = days.isEmpty ? .absent : .days(days)
        case 2:
            schedule.fields[.zoneMode] = .text(pick(["follow", "fixed"]))
            schedule.fields[.zone] = .text(pick(ReminderWeek.zones).name)
        case 3: schedule.isEnabled.toggle()
        case 4: schedule.startsOn = pick([nil, today - 5, today + 2, today + 60]).map { LocalDate(days: $0) }
        case 5: schedule.endsOn = pick([nil, today - 2, today + 1, today + 20]).map { LocalDate(days: $0) }
        default: schedule.isEnabled = true
        }
        if let first = schedule.startsOn, let last = schedule.endsOn, last < first { schedule.endsOn = nil }
    }
}
