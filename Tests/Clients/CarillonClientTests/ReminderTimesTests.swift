import Care
import Foundation
import JSON
import Notifications
import Reminding
import Testing

@testable import CarillonClient

/// The next times of reminders are those of now, however long ago the hub has told the rule.
@Suite struct ReminderTimesTests {
    private static let channel = "user.u.reminders"

    /// As the hub tells it on 20 November 2025 at noon.
    private func rule(_ more: String = "{}") -> JSONTree {
        let told = (21...30).map { day in
            #"{"id": "o\#(day)", "ruleId": "r1", "start": "2025-11-\#(day)T05:57:00+01:00", "status": "scheduled"}"#
        }
        return JSONTree.parsed(
            #"""
            {"id": "r1", "clientId": null, "rev": 3, "productId": "p", "stackId": null, "appliesTo": "item",
             "time": "05:57", "timezone": "Europe/Berlin", "tzMode": "fixed", "repeat": "daily", "repeatOn": null,
             "delivery": "local", "enabled": true, "scheduleId": null, "createdAt": "2025-11-01T00:00:00+00:00",
             "upcoming": [\#(told.joined(separator: ", "))]}
            """#
        ).setting(JSONTree.parsed(more).members)
    }

    private func mirror(_ entities: [Entity]) -> Mirror {
        Mirror(
            entities: entities, positions: [Self.channel: StoredPosition(epoch: "e", offset: 1)],
            meta: [MirrorKey.device: "phone"])
    }

    private func entity(_ kind: EntityKind, _ value: JSONTree) -> Entity {
        Entity(kind, value["id"]?.string ?? "", offset: 1, value: value)
    }

    private func shown(_ mirror: Mirror, at time: String) throws -> CarillonReminders {
        let now = try #require(TimeText.instant(time)).second
        return try #require(ReminderOverlay.value(mirror, zone: "UTC", channel: Self.channel, now: now))
    }

    private func times(_ mirror: Mirror, at time: String) throws -> [String] {
        try shown(mirror, at: time).rules[0].upcoming.map { TimeText.text(Timestamp($0.start)) }
    }

    @Test(arguments: [
        ("2025-11-20T12:00:00Z", "2025-11-21T04:57:00+00:00"), ("2025-11-21T04:56:59Z", "2025-11-21T04:57:00+00:00"),
        ("2025-11-21T04:57:00Z", "2025-11-22T04:57:00+00:00"), ("2025-12-25T12:00:00Z", "2025-12-26T04:57:00+00:00"),
        // Summer time.
        ("2026-03-29T12:00:00Z", "2026-03-30T03:57:00+00:00"),
    ])
    func whatHasPassedIsNoNextTime(now: String, first: String) throws {
        let times = try times(mirror([entity(.reminder, rule())]), at: now)
        #expect(times.count == 10 && times.first == first)
    }

    /// A value that was computed is old as soon as the first of its times has passed.
    @Test func theListIsComputedAgainWhenATimePasses() throws {
        let mirror = mirror([entity(.reminder, rule())])
        var cache = ListCache()
        let due = try #require(TimeText.instant("2025-11-21T04:57:00Z")).second
        func first(_ now: Int) -> Int? {
            cache.reminders(mirror, zone: "UTC", channel: Self.channel, now: now)?.rules[0].upcoming.first
                .map { Timestamp($0.start).second }
        }
        #expect(first(due - 60) == due && cache.edge == due)
        #expect(first(due - 1) == due && first(due) == due + 86_400 && cache.edge == due + 86_400)
        // The clock was set back.
        #expect(first(due - 60) == due)
    }

    /// Sunday was cancelled and brought back; then another device has set another time. The hub does not tell the day again.
    @Test(arguments: [
        ("{}", "2025-11-23T19:00:00+00:00"), (#"{"movedTo": "2025-11-23T09:30"}"#, "2025-11-23T08:30:00+00:00"),
        (#"{"snoozedUntil": "2025-11-23T19:20:00+00:00", "status": "sent"}"#, "2025-11-23T19:20:00+00:00"),
    ])
    func aDayFollowsItsRule(more: String, comes: String) throws {
        let day = JSONTree.parsed(
            #"""
            {"id": "o23", "ruleId": "r1", "date": "2025-11-23", "originalLocal": "2025-11-23T08:30:00", "rev": 2,
             "start": "2025-11-23T08:30:00+01:00", "status": "scheduled", "movedTo": null, "snoozedUntil": null,
             "snoozeCount": 0}
            """#
        ).setting(JSONTree.parsed(more).members)
        let mirror = mirror([entity(.reminder, rule(#"{"time": "20:00"}"#)), entity(.reminderDay, day)])
        let value = try shown(mirror, at: "2025-11-22T20:00:00Z")
        let known = try #require(value.days.first)
        let start = try #require(known.start)
        #expect(max(start, known.snoozedUntil ?? start) == TimeText.instant(comes)?.date && !known.isPending)
        let next = try #require(value.rules[0].upcoming.first)
        #expect(next.start == TimeText.instant(comes)?.date && next.id == "o23" && next.date == "2025-11-23")
    }

    /// What another device has moved far is found: from weeks ago, or from weeks ahead.
    @Test(arguments: ["2025-10-01", "2026-05-05"]) func aMovedDayIsFound(date: String) throws {
        let day = JSONTree.parsed(
            #"""
            {"id": "m", "ruleId": "r1", "date": "\#(date)", "originalLocal": "\#(date)T05:57:00", "rev": 1,
             "status": "scheduled", "movedTo": "2025-11-23T18:00", "snoozedUntil": null, "snoozeCount": 0}
            """#)
        let mirror = mirror([entity(.reminder, rule()), entity(.reminderDay, day)])
        let next = try times(mirror, at: "2025-11-23T12:00:00Z")
        #expect(next.prefix(2) == ["2025-11-23T17:00:00+00:00", "2025-11-24T04:57:00+00:00"])
    }

    // MARK: Silence

    private static let schedule = #"{"id": "s", "productId": "p", "time": "05:57", "repeat": "daily", "enabled": true"#

    /// A schedule that is here says on which days its rules remind. Else the hub has said.
    @Test(arguments: [
        (#"{"upcoming": []}"#, nil, 0, nil), (#"{"scheduleId": "s", "upcoming": []}"#, nil, 0, nil),
        (#"{"scheduleId": "s"}"#, schedule + "}", 10, "2025-12-05"),
        (#"{"scheduleId": "s", "upcoming": []}"#, schedule + "}", 10, "2025-12-05"),
        (#"{"scheduleId": "s"}"#, schedule + #", "enabled": false}"#, 0, nil),
        (#"{"scheduleId": "s"}"#, schedule + #", "repeat": "as_needed"}"#, 0, nil),
        (#"{"scheduleId": "s"}"#, schedule + #", "endsOn": "2025-12-06"}"#, 2, "2025-12-05"),
        (#"{"scheduleId": "s"}"#, schedule + #", "endsOn": "2025-12-04"}"#, 0, nil),
        (#"{"scheduleId": "s"}"#, schedule + #", "startsOn": "2026-08-01"}"#, 10, "2026-08-01"),
        (#"{"scheduleId": "s"}"#, nil, 10, "2025-12-05"),
    ])
    func aSilentRuleHasNoNextTimes(rule more: String, schedule: String?, count: Int, first: String?) throws {
        var entities = [entity(.reminder, rule(more))]
        if let schedule {
            let value = JSONTree.parsed(#"{"id": "p", "schedules": [\#(schedule)]}"#)
            entities.append(entity(.medication, value))
        }
        let value = try shown(mirror(entities), at: "2025-12-04T12:00:00Z")
        #expect(value.rules[0].upcoming.count == count && value.rules[0].upcoming.first?.date == first)
        let plan = plan(value, at: "2025-12-04T12:00:00Z", zone: "Europe/Berlin")
        #expect(plan.isEmpty == (count == 0))
    }

    /// Without a network the person archives the medicine: its reminder is silent here at once.
    @Test(arguments: [
        ("archiveMedication", #"{"id": "p"}"#), ("updateMedication", #"{"id": "p", "archived": true}"#),
        ("updateSchedule", #"{"id": "s", "enabled": false}"#), ("deleteSchedule", #"{"id": "s"}"#),
    ])
    func whatThePersonStopsIsSilent(type: String, payload: String) throws {
        let medication = JSONTree.parsed(#"{"id": "p", "schedules": [\#(Self.schedule)}]}"#)
        var mirror = mirror([
            entity(.reminder, rule(#"{"scheduleId": "s"}"#)), entity(.medication, medication),
        ])
        #expect(try times(mirror, at: "2025-11-20T12:00:00Z").count == 10)
        mirror.append(
            QueuedAction(
                key: "k", type: type, payload: .parsed(payload), clientTime: "2025-11-20T12:00:00Z", zone: "UTC"))
        #expect(try times(mirror, at: "2025-11-20T12:00:00Z") == [])
    }

    /// The person takes the last medicine out of a stack, archives it, or fills the stack with another.
    @Test(
        arguments: [
            ("updateStack", #"{"id": "k", "items": []}"#, 0), ("archiveMedication", #"{"id": "p"}"#, 0),
            ("archiveMedication", #"{"id": "q"}"#, 10), ("deleteStack", #"{"id": "k"}"#, 0),
            ("updateStack", #"{"id": "k", "items": [{"productId": "q"}]}"#, 10),
            ("updateStack", #"{"id": "k", "name": "Evening"}"#, 10),
        ], [#""schedules": []"#, #""schedules": [{"id": "s", "stackId": "k", "time": "05:57", "repeat": "daily"}]"#])
    func anEmptyStackIsSilent(action: (type: String, payload: String, count: Int), schedules: String) throws {
        let link = schedules.contains("stackId") ? #""s""# : "null"
        let rule = rule(#"{"productId": null, "stackId": "k", "appliesTo": "stack", "scheduleId": \#(link)}"#)
        let stack = JSONTree.parsed(#"{"id": "k", "items": [{"productId": "p"}], \#(schedules)}"#)
        var mirror = mirror([
            entity(.reminder, rule), entity(.stack, stack), entity(.medication, .parsed(#"{"id": "p"}"#)),
            entity(.medication, .parsed(#"{"id": "q"}"#)),
        ])
        #expect(try times(mirror, at: "2025-11-20T12:00:00Z").count == 10)
        mirror.append(
            QueuedAction(
                key: "k", type: action.type, payload: .parsed(action.payload), clientTime: "2025-11-20T12:00:00Z",
                zone: "UTC"))
        #expect(try times(mirror, at: "2025-11-20T12:00:00Z").count == action.count)
    }

    // MARK: Planning

    private func plan(_ value: CarillonReminders, at time: String, zone: String) -> [NotificationRequest] {
        guard let now = TimeText.instant(time)?.date, let zone = TimeZone(identifier: zone) else { return [] }
        return ReminderPlanner.plan(
            value.rules.map { PlannedReminder($0, title: "t", body: "b") },
            exceptions: value.days.compactMap { PlannedException($0) }, now: now, zone: zone
        ).add
    }

    /// For days the device hears nothing. What it plans never runs dry, be the device in another zone or a day cancelled.
    @Test(arguments: ["Europe/Berlin", "America/New_York", "UTC"], [false, true])
    func aPlanNeverRunsDry(zone: String, isCancelled: Bool) throws {
        let day = #"{"id": "o30", "ruleId": "r1", "date": "2025-12-30", "status": "cancelled", "rev": 1}"#
        var entities = [entity(.reminder, rule())]
        if isCancelled { entities.append(entity(.reminderDay, .parsed(day))) }
        let repeats = zone == "Europe/Berlin" && !isCancelled
        for time in ["2025-11-20", "2025-11-25", "2025-11-30", "2025-12-01", "2025-12-20", "2025-12-29"] {
            let now = time + "T12:00:00Z"
            let plan = plan(try shown(mirror(entities), at: now), at: now, zone: zone)
            #expect(plan.count == (repeats ? 1 : 10), "\(time)")
        }
    }

    /// A snooze that the hub has not confirmed counts from when the person acted, and stays where it is.
    @Test func aSnoozeStaysWhereItIs() throws {
        var mirror = mirror([entity(.reminder, rule())])
        mirror.append(
            QueuedAction(
                key: "k", type: "snoozeReminder", payload: .parsed(#"{"occurrenceId": "o21", "minutes": 60}"#),
                clientTime: "2025-11-21T06:00:00+01:00", zone: "UTC"))
        for now in ["2025-11-21T05:00:30Z", "2025-11-21T05:40:00Z"] {
            #expect(try times(mirror, at: now).first == "2025-11-21T06:00:00+00:00")
        }
        #expect(try times(mirror, at: "2025-11-21T06:00:00Z").first == "2025-11-22T04:57:00+00:00")
    }
}
