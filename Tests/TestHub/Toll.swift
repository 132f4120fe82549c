import Foundation

/// Holds the verification of tokens up until it is told to let them pass: a thread of the pool waits here.
///
/// `@unchecked Sendable`: all is touched under the condition's lock alone.
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

    /// Waits for one that is held up.
    package func awaitSomebody() {
        condition.withLock { while waiting == 0 { condition.wait() } }
    }
}
