import Care
import Foundation
import Postgres
import TestDatabase
import TestSupport
import Testing

/// Compares the planner's model with the SQL functions on random histories: after each step both have equal doses.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10)))
struct PlanDifferentialTests {
    static let histories = Int(Environment.number("CARILLON_PLANS") ?? 40)

    @Test func databasePlansWhatTheModelSays() async throws {
        var random = SeededRandom()
        let seeds = (0..<Self.histories).map { _ in random.next() }
        let difference = try await onOwnThread { () -> String? in
            let desk = try PlanDesk()
            for seed in seeds {
                if let difference = try desk.difference(seed: seed) { return difference }
            }
            return nil
        }
        if let difference { Issue.record("CARILLON_SEED=\(random.seed), \(difference)") }
    }

    @Test func aSkippedDayIsNotThere() {
        // 2011-12-30 was no day of Apia.
        let apia = ZoneTransitions(
            "Pacific/Apia", offset: -36_000, transitions: [.init(at: 1_325_239_200, to: 50_400)])
        var plan = DosePlan()
        plan.write(PlannedSchedule("s", "p", minute: 480, zone: apia), at: 1_325_100_000)
        let days = plan.doses.keys.map(\.day).sorted()
        #expect(days.count == 13 && !days.contains(LocalDate(days: 15_338)))
        #expect(plan.doses.values.allSatisfy { apia.day(at: $0.second) == $0.name.day })
    }

    @Test func gapsAndOverlapsAreResolved() {
        // New York in 2026: 2026-03-08 07:00Z and 2026-11-01 06:00Z.
        let newYork = ZoneTransitions(
            "America/New_York", offset: -18_000,
            transitions: [.init(at: 1_772_953_200, to: -14_400), .init(at: 1_793_512_800, to: -18_000)])
        let (march, november) = (20_520 * 86_400, 20_758 * 86_400)
        #expect(newYork.second(of: march + 9_000) == 1_772_953_200 + 1_800, "02:30 is 03:30")
        #expect(newYork.second(of: march + 7_199) == 1_772_953_200 - 1)
        #expect(newYork.second(of: march + 10_800) == 1_772_953_200)
        #expect(newYork.second(of: november + 5_400) == 1_793_512_800 - 1_800, "the first 01:30")
        #expect(newYork.second(of: november + 7_200) == 1_793_512_800 + 3_600)
    }
}

/// A database and a model that live through one history.
private final class PlanDesk {
    private let connection: BlockingConnection
    private var random = SeededRandom(seed: 0)
    private var plan = DosePlan()
    private var follows: [String: Bool] = [:]
    private var items = ["p1"]
    private var archived: Set<String> = []
    private var home = "UTC"
    private var now = 0
    /// When the person acts: now, or some time ago, without a network.
    private var since = 0
    private static let products = ["p1", "p2", "p3"]
    private static let windows = [1, 60, 240, 1_440]
    private static let zones = [
        "UTC", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Asia/Tokyo", "Pacific/Honolulu",
        "Asia/Kathmandu",
    ]

    init() throws {
        connection = try Cluster.shared.get().database().owner()
        try connection.execute(
            """
            create or replace function sync.clock() returns timestamptz language sql volatile
            as $$ select to_timestamp(pg_catalog.current_setting('test.clock')::bigint) $$;
            insert into care.product (id, user_id, name)
            values ('p1', 'ann', 'One'), ('p2', 'ann', 'Two'), ('p3', null, 'Of the catalogue');
            """)
    }

    private static func zone(_ name: String) -> ZoneTransitions {
        var transitions: [ZoneTransitions.Transition] = []
        guard let zone = TimeZone(identifier: name) else { return ZoneTransitions(name, offset: 0) }
        let start = Date(timeIntervalSince1970: 1_735_689_600)
        var next = zone.nextDaylightSavingTimeTransition(after: start)
        while let at = next, at.timeIntervalSince1970 < 1_893_456_000 {
            let offset = zone.secondsFromGMT(for: at.addingTimeInterval(1))
            transitions.append(.init(at: Int(at.timeIntervalSince1970.rounded()), to: offset))
            next = zone.nextDaylightSavingTimeTransition(after: at)
        }
        return ZoneTransitions(name, offset: zone.secondsFromGMT(for: start), transitions: transitions)
    }

    private static let known = Dictionary(uniqueKeysWithValues: zones.map { ($0, zone($0)) })

    private func zone(_ name: String) -> ZoneTransitions { Self.known[name] ?? ZoneTransitions(name, offset: 0) }

    /// The first difference of a seed's history, which is rolled back.
    func difference(seed: UInt64) throws -> String? {
        random = SeededRandom(seed: seed)
        (plan, follows, items, archived, home) = (DosePlan(), [:], ["p1"], [], "UTC")
        // In 2026 or 2027.
        now = 1_767_225_600 + Int.random(in: 0..<60_000_000, using: &random)
        try connection.execute("begin")
        defer { try? connection.execute("rollback") }
        try setClock()
        try connection.execute(
            """
            insert into care.user_settings (user_id, zone) values ('ann', 'UTC');
            insert into care.stack (id, user_id, name) values ('st', 'ann', 'Morning');
            insert into care.stack_item (stack_id, product_id) values ('st', 'p1');
            """)
        var told = "history \(seed)"
        for _ in 0..<30 {
            told += try "\n    \(now): \(step())"
            let lines = try lines()
            if !lines.isEmpty { return "\(told)\n  \(lines.prefix(4).joined(separator: "\n  "))" }
        }
        return nil
    }

    private func setClock() throws {
        _ = try connection.query("select set_config('test.clock', $1, false)", [String(now)])
        try setSince(now)
    }

    private func setSince(_ second: Int) throws {
        since = second
        let acted = since < now ? "to_timestamp(\(since))::text" : "''"
        try connection.execute("select set_config('care.acted_at', \(acted), false)")
    }

    private func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &random)] }

    // MARK: Steps

    private func step() throws -> String {
        let ids = plan.schedules.keys.sorted()
        guard let id = ids.isEmpty ? nil : pick(ids), let schedule = plan.schedules[id] else { return try create() }
        switch Int.random(in: 0..<15, using: &random) {
        case 0: return try late { try create() }
        case 1...4: return try late { try edit(schedule) }
        case 5: return try late { try delete(id) }
        case 6: return try late { try restock() }
        case 7: return try travel()
        case 8...10: return try act()
        case 11: return try archive()
        default: return try wait()
        }
    }

    /// What a device may have told late.
    private func late(_ step: () throws -> String) throws -> String {
        try setSince(now - pick([0, 0, 0, 7_200, 90_000, 260_000, 2_000_000]))
        let told = try "\(step()), since \(since)"
        try setSince(now)
        return told
    }

    private func create() throws -> String {
        let id = "s\(Int.random(in: 0..<4, using: &random))"
        guard plan.schedules[id] == nil else { return try wait() }
        let follow = Bool.random(using: &random)
        var new = PlannedSchedule(
            id, pick(Self.products), minute: pick([10, 150, 480, 720, 1_430]),
            zone: zone(follow ? home : pick(Self.zones)))
        if Bool.random(using: &random) {
            new.startsOn = new.zone.day(at: now).adding(Int.random(in: -100...5, using: &random))
        }
        new.windowMinutes = pick(Self.windows)
        if Int.random(in: 0..<8, using: &random) == 0 { new.rule = .asNeeded }
        follows[id] = follow
        try write(new, "insert")
        return "a schedule \(id)"
    }

    private func edit(_ schedule: PlannedSchedule) throws -> String {
        var new = schedule
        let title: String
        switch Int.random(in: 0..<13, using: &random) {
        // As needed has no time.
        case 0...2 where new.rule == .asNeeded: (new.rule, title) = (.daily, "needed daily")
        case 0...2: (new.minute, title) = (pick([10, 150, 480, 720, 1_430]), "another time")
        case 3: (new.isEnabled, title) = (!new.isEnabled, "a pause or its end")
        case 4: (new.rule, title) = (pick([.daily, .weekdays, .on([2, 6]), .on([7]), .asNeeded]), "another rule")
        case 5:
            let today = new.zone.day(at: now)
            new.endsOn = new.endsOn == nil ? today.adding(Int.random(in: -2...12, using: &random)) : nil
            title = "an end"
        case 6: (new.products, new.isStack, title) = ([pick(Self.products)], false, "another product")
        case 7: (new.products, new.isStack, title) = (items, true, "a stack")
        case 8, 9:
            new.startsOn = new.zone.day(at: now).adding(Int.random(in: -12...5, using: &random))
            title = "another start"
        case 10, 11: (new.windowMinutes, title) = (pick(Self.windows), "another window")
        default:
            follows[new.id] = Bool.random(using: &random)
            (new.zone, title) = (zone(follows[new.id] == true ? home : pick(Self.zones)), "another zone")
        }
        try write(new, "update")
        return "\(title) of \(new.id)"
    }

    private func write(_ new: PlannedSchedule, _ verb: String) throws {
        let text = { (day: LocalDate?) -> String? in day.map { String($0.days) } }
        let (rule, days): (String, String?) =
            switch new.rule {
            case .daily: ("daily", nil)
            case .weekdays: ("weekdays", nil)
            case .on(let days): ("custom", "{\(days.sorted().map(String.init).joined(separator: ","))}")
            case .asNeeded: ("as_needed", nil)
            }
        let values = [
            new.id, new.isStack ? nil : new.products.first, new.isStack ? "st" : nil,
            new.rule == .asNeeded ? nil : String(new.minute * 60), rule, days,
            text(new.startsOn), text(new.endsOn), String(new.isEnabled), new.zone.name,
            follows[new.id] == true ? "follow" : "fixed", String(new.windowMinutes),
        ]
        let columns = """
            product_id, stack_id, time, repeat, repeat_on, starts_on, ends_on, enabled, timezone, tz_mode, \
            window_minutes
            """
        let row = """
            $2, $3, '00:00'::time + make_interval(secs => $4::int), $5, $6::smallint[], '1970-01-01'::date + $7::int, \
            '1970-01-01'::date + $8::int, $9::boolean, $10, $11, $12::int
            """
        let statement =
            verb == "insert"
            ? "insert into care.schedule (id, user_id, \(columns)) values ($1, 'ann', \(row))"
            : "update care.schedule set (\(columns)) = row(\(row)) where id = $1"
        _ = try connection.query(statement, values)
        plan.write(new, at: now, since: since)
    }

    private func delete(_ id: String) throws -> String {
        _ = try connection.query("delete from care.schedule where id = $1", [id])
        plan.delete(id, at: now, since: since)
        return "\(id) deleted"
    }

    private func restock() throws -> String {
        let product = pick(Self.products)
        if items.contains(product) {
            items.removeAll { $0 == product }
            _ = try connection.query("delete from care.stack_item where product_id = $1", [product])
        } else {
            items.append(product)
            _ = try connection.query("insert into care.stack_item (stack_id, product_id) values ('st', $1)", [product])
        }
        for schedule in plan.schedules.values where schedule.isStack {
            plan.restock(schedule.id, items, at: now, since: since)
        }
        return "the stack has \(items)"
    }

    /// Ann's own is planned for at once, one of the catalogue by a job.
    private func archive() throws -> String {
        let product = pick(Self.products)
        let isArchived = !archived.contains(product)
        if isArchived { archived.insert(product) } else { archived.remove(product) }
        _ = try connection.query(
            "update care.product set archived_at = case when $2::boolean then sync.clock() end where id = $1",
            [product, String(isArchived)])
        // Who has a product of the catalogue is known from a commit on: deferred triggers write it.
        try connection.execute("set constraints all immediate; set constraints all deferred")
        while try connection.query("select more from care.job_spread_products(1000, sync.clock())") == [["t"]] {}
        plan.archive(product, isArchived, at: now)
        return "\(product) \(isArchived ? "archived" : "back")"
    }

    private func travel() throws -> String {
        home = pick(Self.zones)
        _ = try connection.query("update care.user_settings set zone = $1 where user_id = 'ann'", [home])
        for var schedule in plan.schedules.values where follows[schedule.id] == true && schedule.zone.name != home {
            schedule.zone = zone(home)
            plan.write(schedule, at: now)
        }
        return "to \(home)"
    }

    private func act() throws -> String {
        let near = plan.doses.values.filter { abs($0.second - now) < 6 * 86_400 }
        guard !near.isEmpty else { return try wait() }
        let dose = near.sorted { "\($0.name)" < "\($1.name)" }[Int.random(in: 0..<near.count, using: &random)]
        // Of a cancelled one, a person says that it was taken.
        let status: DoseStatus =
            dose.status == .cancelled ? .taken : pick([.taken, .skipped, .missed, .cancelled, .scheduled])
        // A slot has one dose that somebody acted on: a second one is no case of the planner.
        let others = plan.doses.values.filter {
            $0.name != dose.name && $0.name.schedule == dose.name.schedule && $0.name.day == dose.name.day
                && $0.product == dose.product && $0.status != .cancelled && $0.status != .scheduled
        }
        guard others.isEmpty || status == .cancelled else { return try wait() }
        _ = try connection.query(
            """
            update care.dose_occurrence set status = $1 where id = care.occurrence_id($2,
                '1970-01-01'::date + $3::int + '00:00'::time + make_interval(mins => $4::int), $5)
            """,
            [status.rawValue, dose.name.schedule, String(dose.name.day.days), String(dose.name.minute), dose.name.item])
        plan.set(dose.name, status, at: now)
        return "\(status) \(dose.name)"
    }

    private func wait() throws -> String {
        now += pick([600, 3_600, 40_000, 86_400, 200_000, 1_800_000])
        try setClock()
        guard Int.random(in: 0..<4, using: &random) > 0 else { return "time passes" }
        while try connection.query("select more from care.job_plan_doses(1000, sync.clock())") == [["t"]] {}
        plan.catchUp(at: now)
        return "the job"
    }

    // MARK: Comparing

    /// What only one of them has.
    private func lines() throws -> [String] {
        let rows = try connection.query(
            """
            select concat_ws('|', schedule_id, local_date - '1970-01-01'::date, (extract(epoch from local_time) / 60)::int,
                             case when id = care.occurrence_id(schedule_id, local_date + local_time, product_id)
                                  then product_id
                                  when id = care.occurrence_id(schedule_id, local_date + local_time) then '-' end,
                             product_id, extract(epoch from scheduled_at)::bigint, tz,
                             (extract(epoch from window_end - scheduled_at) / 60)::int, status, cancelled_by_plan)
            from care.dose_occurrence where user_id = 'ann'
            """)
        let found = Set(rows.compactMap { $0.first.flatMap { $0 } })
        let expected = Set(plan.doses.values.map(Self.line))
        return
            (expected.subtracting(found).map { "expected \($0)" } + found.subtracting(expected).map { "found \($0)" })
            .sorted()
    }

    private static func line(_ dose: PlannedDose) -> String {
        [
            dose.name.schedule, String(dose.name.day.days), String(dose.name.minute), dose.name.item ?? "-",
            dose.product,
            String(dose.second), dose.zone, String(dose.windowMinutes), dose.status.rawValue,
            dose.isCancelledByPlan ? "t" : "f",
        ].joined(separator: "|")
    }
}
