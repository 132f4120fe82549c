import Foundation

/// When a notification comes.
public enum NotificationSchedule: Sendable, Equatable, Codable {
    /// At the next time that these components name, or at each of them.
    case calendar(DateComponents, repeats: Bool)
    /// At several times, such as twice a day.
    case calendars([DateComponents], repeats: Bool)
}

extension NotificationSchedule {
    /// The times, and whether they come again.
    var parts: (components: [DateComponents], repeats: Bool) {
        switch self {
        case .calendar(let components, let repeats): ([components], repeats)
        case .calendars(let components, let repeats): (components, repeats)
        }
    }
}
