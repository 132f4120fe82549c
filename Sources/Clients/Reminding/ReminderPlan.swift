import Foundation

/// A rule of reminders, as the planner needs it. `CarillonReminder` has the same members.
public struct PlannedReminder: Sendable, Equatable {
    /// On which days it reminds.
    public enum Repeat: Sendable, Equatable {
        case daily, weekdays
        /// 1 is Monday.
        case on([Int])
    }

    /// A time at which it comes, as the hub has told it.
    public struct Occurrence: Sendable, Equatable {
        /// Its id: the notification's too, so that a push of it takes its place on the screen.
        public let id: String
        /// The local day of the rule that it is of, such as `2025-11-14`.
        public let date: String
        /// When it comes, moves and snoozes included.
        public let start: Date

        /// An occurrence.
        public init(id: String, date: String, start: Date) {
            self.id = id
            self.date = date
            self.start = start
        }
    }

    /// Its id.
    public let id: String
    /// The first line of its notifications.
    public let title: String
    /// The text below it.
    public let body: String
    /// The time of day, such as `08:30`.
    public let time: String
    /// Where that is meant.
    public let timeZone: String
    /// On which days it reminds.
    public let repeats: Repeat
    /// False: it is switched off.
    public let isEnabled: Bool
    /// False: pushes of the hub remind, and nothing else.
    public let isLocal: Bool
    /// Its next times, in order, ten where it has no end.
    public let upcoming: [Occurrence]
    /// It is known to have no next time: its medicine is archived, say.
    let isSilent: Bool

    /// A rule.
    ///
    /// - Parameter upcoming: its next times, none where it is silent; nil: nobody knows them.
    public init(
        id: String, title: String, body: String, time: String, timeZone: String, repeats: Repeat = .daily,
        isEnabled: Bool = true, isLocal: Bool = true, upcoming: [Occurrence]? = nil
    ) {
        self.id = id
        self.title = title
        self.body = body
        self.time = time
        self.timeZone = timeZone
        self.repeats = repeats
        self.isEnabled = isEnabled
        self.isLocal = isLocal
        self.upcoming = upcoming ?? []
        isSilent = upcoming?.isEmpty ?? false
    }
}

extension PlannedReminder {
    /// Whether all of its next times are known.
    var isEnding: Bool { !upcoming.isEmpty && upcoming.count < 10 }
}

/// A day on which a rule reminds otherwise than it says.
public struct PlannedException: Sendable, Equatable {
    /// The id of the occurrence.
    public let id: String
    /// Its rule.
    public let ruleID: String
    /// The local day, such as `2025-11-14`.
    public let date: String
    /// When it comes; nil: it does not come, since it was cancelled or all its doses are taken.
    public let start: Date?

    /// An exception.
    public init(id: String, ruleID: String, date: String, start: Date?) {
        self.id = id
        self.ruleID = ruleID
        self.date = date
        self.start = start
    }
}
