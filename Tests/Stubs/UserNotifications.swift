import Foundation

// What the client libraries use of Apple's UserNotifications: declarations only, so that Tests/apple can check types on
// Linux.

public enum UNAuthorizationStatus: Sendable { case notDetermined, denied, authorized, provisional, ephemeral }

public struct UNAuthorizationOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public static let badge = UNAuthorizationOptions(rawValue: 1)
    public static let sound = UNAuthorizationOptions(rawValue: 2)
    public static let alert = UNAuthorizationOptions(rawValue: 4)
}

public final class UNNotificationSettings: Sendable {
    public var authorizationStatus: UNAuthorizationStatus { fatalError("a declaration") }
}

public final class UNNotificationSound: Sendable {
    public static var `default`: UNNotificationSound { fatalError("a declaration") }
}

open class UNNotificationContent {
    public init() {}
    open var userInfo: [AnyHashable: Any] { [:] }
}

public final class UNMutableNotificationContent: UNNotificationContent {
    public var title = ""
    public var body = ""
    public var sound: UNNotificationSound?
    private var info: [AnyHashable: Any] = [:]
    public override var userInfo: [AnyHashable: Any] {
        get { info }
        set { info = newValue }
    }
}

open class UNNotificationTrigger {}

public final class UNCalendarNotificationTrigger: UNNotificationTrigger {
    public init(dateMatching components: DateComponents, repeats: Bool) {}
}

public final class UNNotificationRequest {
    public init(identifier: String, content: UNNotificationContent, trigger: UNNotificationTrigger?) {}
    public var identifier: String { fatalError("a declaration") }
    public var content: UNNotificationContent { fatalError("a declaration") }
}

public final class UNUserNotificationCenter: @unchecked Sendable {
    public static func current() -> UNUserNotificationCenter { fatalError("a declaration") }
    public func notificationSettings() async -> UNNotificationSettings { fatalError("a declaration") }
    public func requestAuthorization(options: UNAuthorizationOptions) async throws -> Bool {
        fatalError("a declaration")
    }
    public func add(_ request: UNNotificationRequest) async throws {}
    public func pendingNotificationRequests() async -> [UNNotificationRequest] { [] }
    public func removePendingNotificationRequests(withIdentifiers identifiers: [String]) {}
}
