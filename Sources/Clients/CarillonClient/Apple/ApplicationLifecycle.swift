#if canImport(UIKit) && !os(watchOS)
import Foundation
import UIKit

/// Suspends a client when the system suspends the app, and starts it when the app is back. Keep it as long as the client.
///
/// The system ends an app that is suspended while it holds a lock of a shared file. So it is asked for time until the
/// client has released its locks.
public final class ApplicationLifecycle: Sendable {
    private let steps: AsyncStream<Step>.Continuation
    private let observers: [Observer]

    private enum Step: Sendable {
        case back
        case away(DispatchSemaphore)
    }

    /// Follows the app from now on.
    ///
    /// - Parameter isExtension: true in an app extension, which hears of its host.
    @MainActor public init(_ client: CarillonClient, isExtension: Bool = false) {
        // One after the other: an app that is back at once must not be suspended after it was started.
        let (stream, steps) = AsyncStream<Step>.makeStream()
        self.steps = steps
        Task {
            for await step in stream {
                switch step {
                case .back:
                    // What fails, `problem` tells.
                    try? await client.start()
                    await client.wake()
                case .away(let done):
                    await client.suspend()
                    done.signal()
                }
            }
        }
        let host = ("NSExtensionHostDidEnterBackground", "NSExtensionHostWillEnterForeground")
        let away = isExtension ? Notification.Name(host.0) : UIApplication.didEnterBackgroundNotification
        let back = isExtension ? Notification.Name(host.1) : UIApplication.willEnterForegroundNotification
        let center = NotificationCenter.default
        observers = [
            Observer(center.addObserver(forName: back, object: nil, queue: nil) { _ in steps.yield(.back) }),
            Observer(
                center.addObserver(forName: away, object: nil, queue: nil) { _ in
                    let done = DispatchSemaphore(value: 0)
                    ProcessInfo.processInfo.performExpiringActivity(withReason: "carillon.suspend") { isExpired in
                        if isExpired { done.signal() } else { done.wait() }
                    }
                    steps.yield(.away(done))
                }),
        ]
    }

    deinit { steps.finish() }
}

/// Observes a notification of the system until it is released.
private final class Observer: NSObject, @unchecked Sendable {
    private let token: any NSObjectProtocol

    init(_ token: any NSObjectProtocol) {
        self.token = token
    }

    deinit { NotificationCenter.default.removeObserver(token) }
}
#endif
