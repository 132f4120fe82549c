import Foundation
import Logging

/// Blocking code of a test on its own thread, since the cooperative pool has few.
final class Thread: @unchecked Sendable {
    private let ended = DispatchSemaphore(value: 0)

    init(_ body: @escaping @Sendable () -> Void) {
        let ended = self.ended
        let thread = Foundation.Thread {
            body()
            ended.signal()
        }
        thread.start()
    }

    /// Waits for its end. Called once.
    func join() {
        ended.wait()
    }
}

extension Logger {
    /// Discards its log.
    static var quiet: Logger { Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() } }
}
