import Care
import Foundation
import JSON
import Notifications
import Postgres
import Reminding
import TestDatabase
import TestSupport
import Testing

@testable import CarillonClient

/// What a device plans is what `care.next_occurrences` says, after any history of reminders, and with what the person did
/// since without a network, in all zones.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) struct PlanningTests {
    private static let histories = Int(Environment.number("CARILLON_PLANNINGS") ?? 12)

    @Test func aDevicePlansWhatTheHubHasNext() async throws {
        var random = SeededRandom()
        let desk = try PlanningDesk()
        for _ in 0..<Self.histories {
            let seed = random.next()
            let difference = try await desk.difference(seed: seed)
            #expect(difference == nil, "CARILLON_SEED=\(random.seed)")
        }
        #expect(
            desk.compared > Self.histories * 4 && desk.repeating > 0, "\(desk.compared), \(desk.repeating) repeating")
    }

    @Test func idsAreThoseOfTheHub() throws {
        let connection = try Cluster.shared.get().database().owner()
        for rule in ["r1", "é", "8A9E3B52-6A43-5d0c-9f4e-1c7f5be0ca21", UUID().uuidString.lowercased()] {
            let told = try connection.query("SELECT care.occurrence_id($1, '2026-03-08 02:05')", [rule])
            let day = try #require(TimeText.day("2026-03-08"))
            #expect(told.first?.first == OccurrenceID.text(rule: rule, day: day, minute: 125))
        }
    }
}

/// A hub's functions, and a device that has their snapshot.
private final class PlanningDesk {
    private(set) var compared = 0
    private(set) var repeating = 0
    private let connection: BlockingConnection
    private var random = SeededRandom(seed: 0)
    private var now = 0
    private var made = 0
    private var zone = "UTC"

    private static let zones = [
        "UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia",
    ]
    private static let channel = "c"

    init() throws {
        connection = try Cluster.shared.get().database().owner()
        try connection.execute(
            """
            create or replace function sync.clock() returns timestamptz language sql volatile
            as $$ select to_timestamp(pg_catalog.current_setting('test.clock')::bigint) $$;
            """)
    }

    private func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &random)] }
    private func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    func difference(seed: UInt64) async throws -> String? {
        random = SeededRandom(seed: seed)
        // Before the clocks go forward in New York, in Berlin, back on Lord Howe, or back in New York.
        now =
            pick([1_772_800_000, 1_774_500_000, 1_775_200_000, 1_793_300_000])
            + Int.random(in: 0..<400_000, using: &random)
        (made, zone) = (0, "UTC")
        try connection.execute("begin")
        defer { try? connection.execute("rollback") }
        try advance(0)
        try connection.execute("insert into care.user_settings (user_id, zone) values ('ann', 'UTC')")
        for _ in 0..<20 {
            try advance(pick([60, 600, 7_200, 40_000]))
            if chance(8) { try move() }
            for _ in 0..<pick([1, 2]) { try send(action(try device([]))) }
            if chance(40), let found = try await compare() { return "seed \(seed), \(found)" }
        }
        return nil
    }

    private func advance(_ seconds: Int) throws {
        now += seconds
        _ = try connection.query("select set_config('test.clock', $1, false)", [String(now)])
    }

    private func move() throws {
        zone = pick(Self.zones)
        _ = try connection.query("update care.user_settings set zone = $1 where user_id = 'ann'", [zone])
    }

    private func settle() throws {
        try connection.execute("set constraints sync.flush immediate; set constraints sync.flush deferred")
    }

    /// What a device has that was just told all, and has acted since.
    private func device(_ rows: [QueuedAction]) throws -> Mirror {
        try settle()
        let told = try connection.query("select body from sync.reminders('ann')", [])
        let body = try JSONTree(told.first?.first.flatMap { $0 } ?? "{}")
        var mirror = Mirror(positions: [Self.channel: StoredPosition(epoch: "e", offset: 1)])
        mirror.put(
            ClientSnapshot(part: .list(.reminders), body: body, position: StoredPosition(epoch: "e", offset: 1)))
        for row in rows { mirror.append(row) }
        return mirror
    }

    private func shown(_ mirror: Mirror) -> CarillonReminders {
        ReminderOverlay.value(mirror, zone: zone, channel: Self.channel, now: now)
            ?? CarillonReminders(rules: [], days: [])
    }

    // MARK: Acting

    private func action(_ mirror: Mirror) throws -> QueuedAction {
        let rules = shown(mirror).rules
        guard let rule = rules.isEmpty || chance(20) && rules.count < 4 ? nil : pick(rules) else {
            return try create(mirror)
        }
        let id = JSONTree.Member("id", .string(rule.id))
        switch Int.random(in: 0..<10, using: &random) {
        case 0: return try row("deleteReminder", [id], mirror)
        case 1, 2, 3:
            guard let next = rule.upcoming.prefix(3).last else { fallthrough }
            let change: JSONTree.Member = pick([
                .init("enabled", .bool(false)), .init("enabled", .bool(true)), .init("movedTo", .null),
                .init("movedTo", .string("\(next.date)T\(pick(["09:15", "23:50", "02:30"]))")),
            ])
            return try row("setReminderOccurrence", [id, .init("date", .string(next.date)), change], mirror)
        case 4, 5:
            guard let next = rule.upcoming.first, let occurrence = next.id else { fallthrough }
            let minutes = JSONTree.Member("minutes", .integer(Int64(pick([5, 60, 200]))))
            return try row("snoozeReminder", [.init("occurrenceId", .string(occurrence)), minutes], mirror)
        case 6: return try row("updateReminder", [id, .init("enabled", .bool(chance(60)))], mirror)
        case 7: return try row("updateReminder", [id, .init("timezone", .string(pick(Self.zones)))], mirror)
        case 8: return try row("updateReminder", [id] + repeats(), mirror)
        default: return try row("updateReminder", [id, time()], mirror)
        }
    }

    private func time() -> JSONTree.Member {
        .init("time", .string(pick(["08:00", "22:10", "01:30", "02:30", "00:00"])))
    }

    private func repeats() -> [JSONTree.Member] {
        switch pick([0, 1, 2]) {
        case 0: [.init("repeat", .string("daily")), .init("repeatOn", .null)]
        case 1: [.init("repeat", .string("weekdays")), .init("repeatOn", .null)]
        default:
            [
                .init("repeat", .string("custom")),
                .init("repeatOn", .array(pick([[1, 3], [6, 7], [7]]).map { .integer($0) })),
            ]
        }
    }

    private func create(_ mirror: Mirror) throws -> QueuedAction {
        made += 1
        let mode = JSONTree.Member("tzMode", .string(pick(["follow", "fixed"])))
        let zone = chance(60) ? [JSONTree.Member("timezone", .string(pick(Self.zones)))] : []
        let product = JSONTree.Member("productId", .string("p\(made)"))
        return try row("createReminder", [product, time(), mode] + zone + repeats(), mirror)
    }

    /// As the person's device makes it.
    private func row(_ type: String, _ members: [JSONTree.Member], _ mirror: Mirror) throws -> QueuedAction {
        var overlay = DoseOverlay()
        let builder = RowBuilder(mirror: mirror, zone: zone, now: Timestamp(microseconds: Int64(now) * 1_000_000))
        return try builder.row(type, .object(members), overlay: &overlay) {
            made += 1
            return "key-\(made)"
        }.row
    }

    private func send(_ row: QueuedAction) throws {
        _ = try connection.query(
            "select status from sync.apply('ann', $1, 'phone', null, $2, $3, $4, $5, null)",
            [
                row.key, row.type, row.payload.canonicalText, row.base?.canonicalText,
                JSONTree.string(row.clientTime).canonicalText,
            ])
    }

    // MARK: Comparing

    /// The device acts without a network, and plans; then the hub hears of it.
    private func compare() async throws -> String? {
        var rows: [QueuedAction] = []
        for _ in 0..<pick([0, 0, 1, 2]) { rows.append(try action(try device(rows))) }
        let mirror = try device(rows)
        // For days it hears nothing.
        if chance(60) { try advance(pick([3_600, 86_400, 5 * 86_400, 11 * 86_400, 40 * 86_400])) }
        let reminders = shown(mirror)
        let own = pick([zone] + Self.zones)
        guard let phone = TimeZone(identifier: own) else { return "no zone \(own)" }
        let begin = Date(timeIntervalSince1970: Double(now))
        let scheduler = VirtualNotificationScheduler(now: begin, zone: phone)
        let service = MedicationReminderService(scheduler, limit: 10_000, zone: { phone }, now: { begin })
        try await service.update(
            reminders.rules.map { PlannedReminder($0, title: $0.id, body: "") },
            exceptions: reminders.days.compactMap { PlannedException($0) })
        repeating += await scheduler.pending.values.filter { request in
            if case .calendar(_, repeats: true) = request.schedule { true } else { false }
        }.count
        for row in rows { try send(row) }
        try settle()
        let wanted = try connection.query(
            """
            select r.id, string_agg(extract(epoch from n)::bigint::text, ' ' order by n)
            from care.reminder_rule as r, lateral care.next_occurrences(r, sync.clock(), 8) as n
            where r.user_id = 'ann' group by r.id order by r.id
            """, [])
        let last = wanted.compactMap { $0[1]?.split(separator: " ").last.flatMap { Double($0) } }.max() ?? Double(now)
        await scheduler.advance(to: Date(timeIntervalSince1970: last))
        let came = Dictionary(grouping: await scheduler.delivered, by: \.request.title)
        compared += wanted.count
        for cells in wanted {
            let (rule, times) = (cells[0] ?? "", cells[1] ?? "")
            let count = times.split(separator: " ").count
            // Two that come at one moment are one on the screen.
            let seconds = Set((came[rule] ?? []).map { Int($0.date.timeIntervalSince1970) }).sorted().prefix(count)
            let found = seconds.map(String.init).joined(separator: " ")
            guard found != times else { continue }
            let shown = reminders.rules.first { $0.id == rule }.map { "\($0)" } ?? "not shown"
            return """
                at \(now) in \(own), user in \(zone), after \(rows.map { "\($0.type) \($0.payload.canonicalText)" }):
                hub:  \(times)
                here: \(found)
                \(shown)
                \(reminders.days.filter { $0.ruleID == rule })
                """
        }
        return nil
    }
}
