import Bytes
import Clock
import Reactor

/// One user's actions: those that wait, and the one under way. Belongs to the queue.
final class UserLine {
    let user: TextKey
    var waiting = Fifo<Action>()
    /// Taken out and not done: nothing else of this user's is sent.
    var current: Action?
    /// The user is held, or was and is suspected since.
    var suspicion: Suspicion?

    init(_ user: TextKey) {
        self.user = user
    }

    var isUnused: Bool { waiting.isEmpty && current == nil && suspicion == nil }
}

/// What is remembered of a user whose action cost a connection time and came to nothing.
struct Suspicion {
    /// Such actions in a row.
    var count: Int
    /// Nothing of the user's is taken until then.
    var heldUntil: Instant
    var reason: HoldReason
}

/// Why a user is held.
enum HoldReason: Equatable {
    /// Another writer has their rows.
    case locked
    /// The database ran out of time, or failed in a way that decides nothing.
    case failed
}
