import Foundation

/// Holds up token verification until it is opened: a thread of the pool blocks here.
///
/// `@unchecked Sendable`: all state is accessed under the condition's lock.
package final class Toll: @unchecked Sendable {
    private let condition = NSCondition()
    private var isOpen = true
    private var waiting = 0

    package init() {}

    package func close() { condition.withLock { isOpen = false } }

    package func open() {
        condition.withLock {
            isOpen = true
            condition.broadcast()
        }
    }

    package func pass() {
        condition.withLock {
            waiting += 1
            condition.broadcast()
            while !isOpen { condition.wait() }
            waiting -= 1
        }
    }

    /// Waits until a verification is held up.
    package func awaitSomebody() {
        condition.withLock { while waiting == 0 { condition.wait() } }
    }
}
