/// Schedules local notifications.
public protocol NotificationScheduling: Sendable {
    /// Asks the person once. Throws `NotificationError.denied` if the answer is no, now or before.
    func requestAuthorizationIfNeeded() async throws
    /// Schedules a notification in place of one with the same id.
    func schedule(_ request: NotificationRequest) async throws
    /// Takes back what has not come yet. Unknown ids are ignored.
    func cancel(ids: [String]) async
}

/// Why a notification cannot be scheduled.
public enum NotificationError: Error, Equatable {
    /// The person does not want notifications.
    case denied
    /// The schedule names no time at all.
    case noTime
}
