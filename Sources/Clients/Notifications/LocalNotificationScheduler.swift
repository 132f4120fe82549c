#if canImport(UserNotifications)
import Foundation
import UserNotifications

/// The scheduler of Apple's systems. A thin file: what it decides is tested with `VirtualNotificationScheduler`.
public struct LocalNotificationScheduler: NotificationScheduling {
    private static let name = "NotificationRequest.id"

    /// The app's own notification center.
    public init() {}

    private var center: UNUserNotificationCenter { .current() }

    /// Asks the person once, for alerts, sounds and badges.
    public func requestAuthorizationIfNeeded() async throws {
        switch await center.notificationSettings().authorizationStatus {
        case .notDetermined:
            guard try await center.requestAuthorization(options: [.alert, .sound, .badge]) else {
                throw NotificationError.denied
            }
        case .denied: throw NotificationError.denied
        default: break
        }
    }

    /// Schedules a notification in place of one with the same id: a request of the system for each of its times.
    public func schedule(_ request: NotificationRequest) async throws {
        let (times, repeats) = request.schedule.parts
        guard !times.isEmpty else { throw NotificationError.noTime }
        await cancel(ids: [request.id])
        for (index, time) in times.enumerated() {
            let content = UNMutableNotificationContent()
            content.title = request.title
            content.body = request.body
            content.sound = .default
            content.userInfo = [Self.name: request.id]
            let trigger = UNCalendarNotificationTrigger(dateMatching: time, repeats: repeats)
            // The first one has the id itself: a push with the same id takes its place on the screen.
            let identifier = index == 0 ? request.id : "\(request.id)#\(index)"
            try await center.add(
                UNNotificationRequest(identifier: identifier, content: content, trigger: trigger))
        }
    }

    /// Takes back what has not come yet.
    public func cancel(ids: [String]) async {
        let wanted = Set(ids)
        let pending = await center.pendingNotificationRequests().filter { request in
            wanted.contains(request.content.userInfo[Self.name] as? String ?? request.identifier)
        }
        center.removePendingNotificationRequests(withIdentifiers: pending.map(\.identifier))
    }
}
#endif
