import Foundation
import Notifications
import Testing

@testable import Reminding

@Suite struct ReminderPlannerTests {
    private let berlin: TimeZone
    private let now: Date

    init() throws {
        berlin = try #require(TimeZone(identifier: "Europe/Berlin"))
        now = try Date("2025-11-20T12:00:00Z", strategy: .iso8601)
    }

    private func rule(
        _ id: String, _ time: String = "08:00", zone: String = "Europe/Berlin",
        repeats: PlannedReminder.Repeat = .daily, days: Int = 10, isEnabled: Bool = true, isLocal: Bool = true
    ) -> PlannedReminder {
        let hour = Double(time.prefix(2)) ?? 0
        let upcoming = (1...max(1, days)).map { day in
            // 08:00 in Berlin is 07:00 in UTC in winter.
            PlannedReminder.Occurrence(
                id: "\(id)-\(day)", date: "2025-11-\(20 + day)",
                start: now.addingTimeInterval(Double(day) * 86_400 + (hour - 13) * 3600))
        }
        return PlannedReminder(
            id: id, title: "Time", body: "for it", time: time, timeZone: zone, repeats: repeats, isEnabled: isEnabled,
            isLocal: isLocal, upcoming: upcoming)
    }

    private func ids(_ plan: ReminderPlan) -> [String] { plan.add.map(\.id) }

    @Test func rulesWithoutExceptionsRepeat() {
        #expect(ids(ReminderPlanner.plan([rule("a")], now: now, zone: berlin)) == ["a"])
        let weekly = ReminderPlanner.plan([rule("a", repeats: .on([1, 7]))], now: now, zone: berlin)
        // 20 November is a Thursday: Sunday comes first.
        #expect(ids(weekly) == ["a/7", "a/1"])
        guard case .calendar(let components, repeats: true) = weekly.add[0].schedule else {
            Issue.record("it does not repeat")
            return
        }
        #expect(components.weekday == 1 && components.hour == 8 && components.minute == 0)
        let everyDay = rule("a", repeats: .on([1, 2, 3, 4, 5, 6, 7]))
        #expect(ids(ReminderPlanner.plan([everyDay], now: now, zone: berlin)) == ["a"])
        #expect(ids(ReminderPlanner.plan([rule("a", repeats: .on([]))], now: now, zone: berlin)) == [])
    }

    @Test func anExceptionForbidsRepeating() {
        let moved = PlannedException(
            id: "a-2", ruleID: "a", date: "2025-11-22", start: now.addingTimeInterval(2 * 86_400 + 600))
        let cancelled = PlannedException(id: "a-3", ruleID: "a", date: "2025-11-23", start: nil)
        let plan = ReminderPlanner.plan([rule("a", days: 4)], exceptions: [moved, cancelled], now: now, zone: berlin)
        #expect(ids(plan) == ["a-1", "a-2", "a-4"])
        // One of a day that is over forbids nothing.
        let over = PlannedException(id: "a-0", ruleID: "a", date: "2025-11-19", start: nil)
        #expect(ids(ReminderPlanner.plan([rule("a")], exceptions: [over], now: now, zone: berlin)) == ["a"])
    }

    @Test func anotherZoneForbidsRepeating() {
        let plan = ReminderPlanner.plan([rule("a", zone: "America/New_York", days: 3)], now: now, zone: berlin)
        #expect(ids(plan) == ["a-1", "a-2", "a-3"])
        guard case .calendar(let components, repeats: false) = plan.add[0].schedule else {
            Issue.record("it repeats")
            return
        }
        #expect(components.timeZone?.secondsFromGMT() == 0 && components.hour == 7 && components.day == 21)
    }

    /// One that is silent, ends soon, or begins later would ring for a medicine that nobody takes.
    @Test func onlyARuleWithoutAnEndRepeats() {
        func planned(_ days: [Int]?) -> [String] {
            let times = days?.map { day in
                let start = now.addingTimeInterval(Double(day) * 86_400 - 5 * 3600)
                return PlannedReminder.Occurrence(id: "a-\(day)", date: "day \(day)", start: start)
            }
            let rule = PlannedReminder(
                id: "a", title: "Time", body: "", time: "08:00", timeZone: "Europe/Berlin", upcoming: times)
            return ids(ReminderPlanner.plan([rule], now: now, zone: berlin))
        }
        #expect(planned(nil) == ["a"] && planned(Array(1...10)) == ["a"])
        #expect(planned([]) == [] && planned([1, 2]) == ["a-1", "a-2"])
        #expect(planned(Array(40...49)) == (40...49).map { "a-\($0)" })
        let cancelled = PlannedException(
            id: "x", ruleID: "a", date: "2025-11-25", start: now.addingTimeInterval(86_400))
        let silent = PlannedReminder(
            id: "a", title: "Time", body: "", time: "08:00", timeZone: "UTC", upcoming: [])
        #expect(ids(ReminderPlanner.plan([silent], exceptions: [cancelled], now: now, zone: berlin)) == [])
    }

    @Test func theLimitIsSharedByRules() {
        let rules = ["a", "b", "c"].map { rule($0, zone: "UTC", days: 10) }
        let plan = ReminderPlanner.plan(rules, now: now, zone: berlin, limit: 7)
        #expect(ids(plan) == ["a-1", "b-1", "c-1", "a-2", "b-2", "c-2", "a-3"])
        #expect(ids(ReminderPlanner.plan(rules, now: now, zone: berlin, limit: 2)) == ["a-1", "b-1"])
        #expect(ReminderPlanner.plan(rules, now: now, zone: berlin, limit: 0).add.isEmpty)
        #expect(ReminderPlanner.plan(rules, now: now, zone: berlin).add.count == 30)
    }

    @Test func onlyDifferencesAreTold() {
        let first = ReminderPlanner.plan([rule("a"), rule("b")], now: now, zone: berlin)
        var pending = Dictionary(uniqueKeysWithValues: first.add.map { ($0.id, $0) })
        let same = ReminderPlanner.plan([rule("a"), rule("b")], now: now, zone: berlin, pending: pending)
        #expect(same.add.isEmpty && same.cancel.isEmpty)
        let other = ReminderPlanner.plan([rule("a", "09:00")], now: now, zone: berlin, pending: pending)
        #expect(ids(other) == ["a"] && other.cancel == ["b"])
        pending = [:]
        let silent = [rule("a", isEnabled: false), rule("b", isLocal: false)]
        #expect(ReminderPlanner.plan(silent, now: now, zone: berlin, pending: pending).add.isEmpty)
    }

    /// A fortnight on a phone: what comes, comes at the times of the rules, across a change of clocks.
    @Test func whatIsPlannedComes() async throws {
        let begin = try Date("2025-03-28T12:00:00Z", strategy: .iso8601)
        let scheduler = VirtualNotificationScheduler(now: begin, zone: berlin)
        let service = MedicationReminderService(scheduler, zone: { [berlin] in berlin }, now: { begin })
        try await service.requestAuthorizationIfNeeded()
        let daily = PlannedReminder(id: "a", title: "t", body: "b", time: "08:00", timeZone: "Europe/Berlin")
        try await service.update([daily], exceptions: [])
        await scheduler.advance(to: begin.addingTimeInterval(3 * 86_400))
        let hours = await scheduler.delivered.map { $0.date.formatted(.iso8601) }
        #expect(hours == ["2025-03-29T07:00:00Z", "2025-03-30T06:00:00Z", "2025-03-31T06:00:00Z"])
        await service.cancelAll()
        #expect(await scheduler.pending.isEmpty)
    }

    /// The person travels, and the hub has not heard of it: what repeats comes where the rule is, each day once.
    @Test func whatRepeatsStaysWhereTheRuleIs() async throws {
        for away in ["Asia/Tokyo", "America/Los_Angeles"] {
            let scheduler = VirtualNotificationScheduler(now: now, zone: try #require(TimeZone(identifier: away)))
            let service = MedicationReminderService(scheduler, zone: { [berlin] in berlin }, now: { [now] in now })
            try await service.update([rule("a"), rule("b", repeats: .on([5]))], exceptions: [])
            await scheduler.advance(to: now.addingTimeInterval(2 * 86_400))
            let came = await scheduler.delivered.map { "\($0.request.id) \($0.date.formatted(.iso8601))" }
            #expect(came == ["a 2025-11-21T07:00:00Z", "b/5 2025-11-21T07:00:00Z", "a 2025-11-22T07:00:00Z"])
        }
    }

    /// The system has ended the app, and a rule is deleted elsewhere: the next run knows what the last one has scheduled.
    @Test func theNextRunTakesBackWhatIsNotWanted() async throws {
        let scheduler = VirtualNotificationScheduler(now: now, zone: berlin)
        func service(_ kept: Data) throws -> MedicationReminderService {
            let pending = try JSONDecoder().decode([String: NotificationRequest].self, from: kept)
            return MedicationReminderService(
                scheduler, pending: pending, zone: { [berlin] in berlin }, now: { [now] in now })
        }
        let first = try service(Data("{}".utf8))
        let rules = [rule("a"), rule("b", zone: "America/New_York", days: 3)]
        try await first.update(rules, exceptions: [])
        let (kept, count) = (await first.scheduled, await scheduler.pending.count)
        #expect(count == kept.count && count > 3)
        let second = try service(JSONEncoder().encode(kept))
        #expect(await second.scheduled == kept)
        try await second.update([rules[0]], exceptions: [])
        #expect(await scheduler.pending.keys.allSatisfy { $0.hasPrefix("a") })
        #expect(await !scheduler.pending.isEmpty)
    }
}
