import Glibc
import Synchronization

/// A moment in a request's life at which tests end things.
package enum Failpoint: String, Sendable, CaseIterable {
    /// It is about to be sent.
    case beforeSend = "before-send"
    /// It was sent.
    case afterSend = "after-send"
    /// It is committed, and the answer has come.
    case afterCommit = "after-commit"
    /// It is answered; neither the feed nor other hubs have been told.
    case afterReply = "after-reply"
}

#if DEBUG
/// What happens at failpoints. Debug builds only.
package struct Failpoints: Sendable {
    /// Called on the pool's thread, each time one is reached: true ends the connection concerned.
    package let reached: @Sendable (Failpoint) -> Bool

    package init(reached: @escaping @Sendable (Failpoint) -> Bool) {
        self.reached = reached
    }

    /// From `after-commit:3`: the process ends by SIGKILL the third time. `nil` where `text` is not of that form.
    package init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let place = Failpoint(rawValue: String(parts[0])), let time = Int(parts[1]), time > 0
        else { return nil }
        let count = Count()
        self.init { reached in
            if reached == place, count.value.add(1, ordering: .relaxed).newValue == time { kill(getpid(), SIGKILL) }
            return false
        }
    }

    private final class Count: Sendable {
        let value = Atomic(0)
    }
}
#endif
