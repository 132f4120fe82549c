import Care
import Foundation
import JSON

/// A rule of reminders.
public struct CarillonReminder: Sendable, Equatable, Identifiable {
    /// On which days it reminds.
    public enum Repeat: Sendable, Equatable {
        case daily, weekdays
        /// 1 is Monday.
        case on([Int])
    }

    /// A time at which it comes.
    public struct Occurrence: Sendable, Equatable {
        /// Its id, by which it can be snoozed; nil where only the device knows of it yet.
        public let id: String?
        /// The local day of the rule that it is of, such as `2025-11-14`.
        public let date: String
        /// When.
        public let start: Date
    }

    /// Its id, for actions.
    public let id: String
    /// What the device called it before it knew the id.
    public let clientID: String?
    /// The product that it is about.
    public let productID: String?
    /// The stack that it is about.
    public let stackID: String?
    /// What the person calls it.
    public let label: String?
    /// The time of day, such as `08:30`.
    public let time: String
    /// Where that is meant.
    public let timeZone: String
    /// Whether it moves with the user's zone.
    public let followsUser: Bool
    /// On which days it reminds.
    public let repeats: Repeat
    /// Minutes of a snooze; nil: ten.
    public let snoozeMinutes: Int?
    /// `local`, `push` or `both`.
    public let delivery: String
    /// False: it is switched off.
    public let isEnabled: Bool
    /// Counts its changes.
    public let rev: Int64
    /// The next times, at most ten.
    public let upcoming: [Occurrence]
    /// An action of this device on it is not confirmed yet.
    public let isPending: Bool
    /// A conflict about it waits for the person.
    public let hasConflict: Bool

    init(_ tree: JSONTree, isPending: Bool, hasConflict: Bool) {
        id = tree["id"]?.string ?? ""
        clientID = tree["clientId"]?.string
        productID = tree["productId"]?.string
        stackID = tree["stackId"]?.string
        label = tree["label"]?.string
        time = tree["time"]?.string ?? "00:00"
        timeZone = tree["timezone"]?.string ?? "UTC"
        followsUser = tree["tzMode"]?.string == "follow"
        switch tree["repeat"]?.string {
        case "weekdays": repeats = .weekdays
        case "custom": repeats = .on(tree["repeatOn"]?.elements.compactMap { $0.integer.map { Int($0) } } ?? [])
        default: repeats = .daily
        }
        snoozeMinutes = tree["snoozeMinutes"]?.integer.map { Int($0) }
        delivery = tree["delivery"]?.string ?? "local"
        isEnabled = tree["enabled"]?.flag ?? true
        rev = tree["rev"]?.integer ?? 0
        upcoming = (tree["upcoming"]?.elements ?? []).compactMap { one in
            one.date("start").map { start in
                let date = one["date"]?.string ?? String((one["start"]?.string ?? "").prefix(10))
                return Occurrence(id: one["id"]?.string, date: date, start: start)
            }
        }
        self.isPending = isPending
        self.hasConflict = hasConflict
    }
}

/// A day on which a rule reminds otherwise than it says.
public struct CarillonReminderDay: Sendable, Equatable {
    /// The id of the occurrence; nil where only the device knows of it yet.
    public let id: String?
    /// Its rule.
    public let ruleID: String
    /// The local day, such as `2025-11-14`.
    public let date: String
    /// When it comes.
    public let start: Date?
    /// The local time to which it was moved, such as `2025-11-14T09:30`.
    public let movedTo: String?
    /// `scheduled`, `sent`, `missed` or `cancelled`.
    public let status: String
    /// It comes again then.
    public let snoozedUntil: Date?
    /// How often it was snoozed.
    public let snoozeCount: Int
    /// An action of this device on it is not confirmed yet.
    public let isPending: Bool

    init(_ tree: JSONTree, isPending: Bool) {
        id = tree["id"]?.string
        ruleID = tree["ruleId"]?.string ?? ""
        date = tree["date"]?.string ?? ""
        start = tree.date("start")
        movedTo = tree["movedTo"]?.string
        status = tree["status"]?.string ?? "scheduled"
        snoozedUntil = tree.date("snoozedUntil")
        snoozeCount = Int(tree["snoozeCount"]?.integer ?? 0)
        self.isPending = isPending
    }
}

/// All reminders of the user.
public struct CarillonReminders: Sendable, Equatable {
    /// The rules, newest first.
    public let rules: [CarillonReminder]
    /// The days that differ from them.
    public let days: [CarillonReminderDay]
}
