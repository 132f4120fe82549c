import Foundation
import Notifications

/// What an app's domain asks of reminders (seed 002, ADR-004): it knows medications, and nothing of notifications.
public protocol MedicationReminding: Sendable {
    /// Asks the person, if nobody has asked yet.
    func requestAuthorizationIfNeeded() async throws
    /// Makes the pending notifications those of these rules.
    func update(_ rules: [PlannedReminder], exceptions: [PlannedException]) async throws
    /// Takes back all notifications of reminders.
    func cancelAll() async
}

/// Adapts reminders of medications to a scheduler of notifications. One for each app: it remembers what it has scheduled.
public actor MedicationReminderService: MedicationReminding {
    private let scheduler: any NotificationScheduling
    private let zone: @Sendable () -> TimeZone
    private let now: @Sendable () -> Date
    private let limit: Int
    private var pending: [String: NotificationRequest]

    /// A service.
    ///
    /// - Parameters:
    ///   - scheduler: `LocalNotificationScheduler` on Apple's systems.
    ///   - limit: the most pending notifications.
    ///   - pending: what an earlier run of the app has scheduled, by id; unknown ones are never cancelled.
    public init(
        _ scheduler: any NotificationScheduling, limit: Int = ReminderPlanner.usualLimit,
        pending: [String: NotificationRequest] = [:], zone: @escaping @Sendable () -> TimeZone = { .current },
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.scheduler = scheduler
        self.limit = limit
        self.pending = pending
        self.zone = zone
        self.now = now
    }

    /// What is scheduled, by id: keep it for the next run of the app.
    public var scheduled: [String: NotificationRequest] { pending }

    /// Asks the person, if nobody has asked yet.
    public func requestAuthorizationIfNeeded() async throws {
        try await scheduler.requestAuthorizationIfNeeded()
    }

    /// Makes the pending notifications those of these rules. Call it whenever `reminders()` has a new value, and when the
    /// app comes to the foreground.
    public func update(_ rules: [PlannedReminder], exceptions: [PlannedException]) async throws {
        let plan = ReminderPlanner.plan(
            rules, exceptions: exceptions, now: now(), zone: zone(), limit: limit, pending: pending)
        await scheduler.cancel(ids: plan.cancel)
        for id in plan.cancel { pending[id] = nil }
        for request in plan.add {
            try await scheduler.schedule(request)
            pending[request.id] = request
        }
    }

    /// Takes back all notifications of reminders.
    public func cancelAll() async {
        await scheduler.cancel(ids: pending.keys.sorted())
        pending = [:]
    }
}
