import Foundation

// What the Swift client uses of Apple's UIKit: declarations only, so that Tests/apple can check types on Linux.

public enum UIApplication {
    public static let didEnterBackgroundNotification = NSNotification.Name("away")
    public static let willEnterForegroundNotification = NSNotification.Name("back")
}

// What Foundation has on Apple's systems alone.
extension ProcessInfo {
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) {
        fatalError("a declaration")
    }
}
