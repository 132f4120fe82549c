import Glibc
import Synchronization

/// A moment in a request's life at which a test ends a connection or the process.
package enum Failpoint: String, Sendable, CaseIterable {
    /// The request is about to be sent.
    case beforeSend = "before-send"
    /// The request was sent.
    case afterSend = "after-send"
    /// The request is committed, and its answer has arrived.
    case afterCommit = "after-commit"
    /// The request was told its answer; neither the feed nor other hubs know of it.
    case afterReply = "after-reply"
}

#if DEBUG
/// What happens at failpoints. Debug builds only.
package struct Failpoints: Sendable {
    /// Called on the pool's thread each time a failpoint is reached. True ends the connection.
    package let reached: @Sendable (Failpoint) -> Bool

    /// Calls `reached` at each failpoint.
    package init(reached: @escaping @Sendable (Failpoint) -> Bool) {
        self.reached = reached
    }

    /// Parses `after-commit:3`: SIGKILL ends the process the third time. Nil if `text` does not have that form.
    package init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let failpoint = Failpoint(rawValue: String(parts[0])), let time = Int(parts[1]),
            time > 0
        else { return nil }
        let count = Count()
        self.init { reached in
            if reached == failpoint, count.value.add(1, ordering: .relaxed).newValue == time { kill(getpid(), SIGKILL) }
            return false
        }
    }

    private final class Count: Sendable {
        let value = Atomic(0)
    }
}
#endif
