import Care
import Foundation
import Notifications

/// What has to become of the pending notifications.
public struct ReminderPlan: Sendable, Equatable {
    /// The ids of those that are wanted no more.
    public let cancel: [String]
    /// Those that are new, or other than the pending ones with their ids.
    public let add: [NotificationRequest]
}

/// Plans local notifications of reminders: pure values in, pure values out.
///
/// A system keeps few pending notifications: iOS 64 of an app. So each rule gets its next time first, then each its second,
/// until the limit is reached; what does not fit comes with the next plan. A rule gets one repeating notification for each
/// of its weekdays only where nothing forbids it: it has no end, none of its days is an exception, and its zone is the
/// device's. It names that zone: the system moves it with the clocks, and not with the device. All others are one
/// notification for each occurrence, with the occurrence's id.
public enum ReminderPlanner {
    /// The limit that is used where the app gives none: more is left to other notifications of the app.
    public static let usualLimit = 30

    /// Plans.
    ///
    /// - Parameters:
    ///   - rules: all rules.
    ///   - exceptions: the days that differ from their rules.
    ///   - now: what is due until then is not planned.
    ///   - zone: the device's zone.
    ///   - limit: the most pending notifications.
    ///   - pending: those of earlier plans, by id.
    public static func plan(
        _ rules: [PlannedReminder], exceptions: [PlannedException] = [], now: Date, zone: TimeZone,
        limit: Int = usualLimit, pending: [String: NotificationRequest] = [:]
    ) -> ReminderPlan {
        let wanted = requests(rules, exceptions, now: now, zone: zone, limit: limit)
        let ids = Set(wanted.map(\.id))
        return ReminderPlan(
            cancel: pending.keys.filter { !ids.contains($0) }.sorted(),
            add: wanted.filter { pending[$0.id] != $0 })
    }

    private static func requests(
        _ rules: [PlannedReminder], _ exceptions: [PlannedException], now: Date, zone: TimeZone, limit: Int
    ) -> [NotificationRequest] {
        let byRule = Dictionary(grouping: exceptions, by: \.ruleID)
        var queues: [[(start: Date, request: NotificationRequest)]] = []
        var room = limit
        for rule in rules.sorted(by: { $0.id < $1.id }) where rule.isEnabled && rule.isLocal && !rule.isSilent {
            let own = byRule[rule.id] ?? []
            if let repeating = repeating(rule, own, now: now, zone: zone) {
                queues.append(repeating)
            } else {
                queues.append(single(rule, own, now: now))
            }
        }
        // The soonest of each rule first, then the second of each.
        var chosen: [(start: Date, request: NotificationRequest)] = []
        var round = 0
        while room > 0, queues.contains(where: { $0.count > round }) {
            let next = queues.compactMap { $0.count > round ? $0[round] : nil }.sorted { left, right in
                (left.start, left.request.id) < (right.start, right.request.id)
            }
            chosen += next.prefix(room)
            room = limit - chosen.count
            round += 1
        }
        return chosen.map(\.request)
    }

    // MARK: One for each occurrence

    private static func single(
        _ rule: PlannedReminder, _ exceptions: [PlannedException], now: Date
    ) -> [(start: Date, request: NotificationRequest)] {
        // What was moved or snoozed is among the next times too, on the day to which it was moved.
        let (dates, ids) = (Set(exceptions.map(\.date)), Set(exceptions.map(\.id)))
        var times = rule.upcoming.filter { !ids.contains($0.id) && !dates.contains($0.date) }
            .map { (id: $0.id, start: $0.start) }
        // Of a rule that ends, none but those that are among its next times.
        let known = rule.isEnding ? Set(rule.upcoming.map(\.id)) : nil
        times += exceptions.filter { gives($0.date, rule) && known?.contains($0.id) ?? true }
            .compactMap { one in one.start.map { (one.id, $0) } }
        return times.filter { $0.start > now }.sorted { ($0.start, $0.id) < ($1.start, $1.id) }.map { time in
            var calendar = Calendar(identifier: .gregorian)
            // An instant: whatever zone the device is in when it comes.
            let zone = TimeZone(secondsFromGMT: 0) ?? .current
            calendar.timeZone = zone
            var components = calendar.dateComponents([.year, .month, .day, .hour, .minute, .second], from: time.start)
            components.timeZone = zone
            let request = NotificationRequest(
                id: time.id, title: rule.title, body: rule.body, schedule: .calendar(components, repeats: false))
            return (time.start, request)
        }
    }

    // MARK: Repeating

    /// Nil where something forbids it.
    private static func repeating(
        _ rule: PlannedReminder, _ exceptions: [PlannedException], now: Date, zone: TimeZone
    ) -> [(start: Date, request: NotificationRequest)]? {
        // An exception of a day that is over is none any more.
        let today = day(now, in: zone)
        let isFree = exceptions.allSatisfy { one in
            let date = TimeText.day(one.date)
            return (date.map { $0 < today } ?? false) && (one.start.map { $0 <= now } ?? true)
        }
        guard isFree, !rule.isEnding, rule.timeZone == zone.identifier, let minute = minute(rule.time),
            !isMovedByClocks(minute, after: now, until: rule.upcoming.last?.start, in: zone)
        else { return nil }
        let days = weekdays(rule.repeats)
        guard days != [] else { return [] }
        let requests = (days ?? [0]).map { weekday in
            var components = DateComponents()
            components.hour = minute / 60
            components.minute = minute % 60
            // The system would take a repeating time along to the device's next zone, before the hub hears of that: today's
            // would come twice, or not at all.
            components.timeZone = zone
            // Foundation counts from Sunday, 1.
            if weekday > 0 { components.weekday = weekday % 7 + 1 }
            let id = weekday > 0 ? "\(rule.id)/\(weekday)" : rule.id
            let request = NotificationRequest(
                id: id, title: rule.title, body: rule.body, schedule: .calendar(components, repeats: true))
            return (start: next(minute, weekday, after: now, in: zone), request: request)
        }.sorted { $0.start < $1.start }
        // A rule whose schedule begins later would come too early.
        if let first = rule.upcoming.first?.start, let soonest = requests.first?.start, first > soonest { return nil }
        return requests
    }

    /// Whether clocks go over that time of day within a fortnight, or as far as the hub has told: it and the systems do not
    /// agree on when it is then.
    private static func isMovedByClocks(_ minute: Int, after now: Date, until last: Date?, in zone: TimeZone) -> Bool {
        let end = max(now.addingTimeInterval(14 * 86_400), last?.addingTimeInterval(86_400) ?? now)
        guard let change = zone.nextDaylightSavingTimeTransition(after: now.addingTimeInterval(-86_400)), change < end
        else { return false }
        let (before, after) = (
            zone.secondsFromGMT(for: change.addingTimeInterval(-1)), zone.secondsFromGMT(for: change)
        )
        let walls = [before, after].map { (Int(change.timeIntervalSince1970) + $0) % 86_400 / 60 }.sorted()
        return walls[0] <= minute && minute <= walls[1]
    }

    /// Whether a rule reminds on the weekday of a date.
    private static func gives(_ date: String, _ rule: PlannedReminder) -> Bool {
        guard let day = TimeText.day(date), let days = weekdays(rule.repeats) else { return true }
        // 1 January 1970 was a Thursday.
        return days.contains(((day.days + 3) % 7 + 7) % 7 + 1)
    }

    /// Nil: every day.
    private static func weekdays(_ repeats: PlannedReminder.Repeat) -> [Int]? {
        switch repeats {
        case .daily: nil
        case .weekdays: [1, 2, 3, 4, 5]
        case .on(let days): Set(days).count == 7 ? nil : Set(days).filter { (1...7).contains($0) }.sorted()
        }
    }

    private static func minute(_ time: String) -> Int? {
        let parts = time.split(separator: ":").compactMap { Int($0) }
        guard parts.count >= 2, (0..<24).contains(parts[0]), (0..<60).contains(parts[1]) else { return nil }
        return parts[0] * 60 + parts[1]
    }

    private static func day(_ date: Date, in zone: TimeZone) -> LocalDate {
        Timestamp(microseconds: Int64(date.timeIntervalSince1970) * 1_000_000)
            .date(utcOffset: zone.secondsFromGMT(for: date))
    }

    private static func next(_ minute: Int, _ weekday: Int, after now: Date, in zone: TimeZone) -> Date {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        var components = DateComponents(hour: minute / 60, minute: minute % 60)
        if weekday > 0 { components.weekday = weekday % 7 + 1 }
        return calendar.nextDate(after: now, matching: components, matchingPolicy: .nextTime) ?? .distantFuture
    }
}
