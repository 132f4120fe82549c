import Clock

/// Work that is due at some time, such as missed doses, by the name that `sync.job` knows it by.
package enum Job: String, CaseIterable, Sendable {
    /// Plans the doses of schedules, two weeks ahead.
    case planDoses = "plan_doses"
    /// Marks doses as missed when their window and the grace after it have ended.
    case missDoses = "miss_doses"
    /// Fires what is due of the reminders that push, and writes what became of pushes.
    case fireReminders = "fire_reminders"
    /// Carries a changed product of the catalogue to the doses that have it.
    case spreadProducts = "spread_products"
    /// Deletes old events.
    case retainEvents = "retain_events"
    /// Deletes old keys and answers of actions, old revocations, and old pushes.
    case retainActions = "retain_actions"
    /// Deletes old feedback of clients.
    case retainFeedback = "retain_feedback"

    /// Its name in SQL, in metrics and on the command line.
    package var name: String { rawValue }

    /// Whether `sync.job_lag` knows how late it is.
    var hasLag: Bool { [.planDoses, .missDoses, .fireReminders].contains(self) }

    /// Whether its changes are events, of which hubs are to be told.
    package var writesEvents: Bool { !isRetention }

    /// Whether it only deletes what is old.
    var isRetention: Bool { [.retainEvents, .retainActions, .retainFeedback].contains(self) }
}
