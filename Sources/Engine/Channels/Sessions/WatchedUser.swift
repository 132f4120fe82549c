/// A user whom sessions of this loop watch.
///
/// Invariant: it is in the hub's table exactly while somebody watches.
final class WatchedUser {
    let key: UserKey
    /// The question put to the user's home.
    let serial: UInt32
    /// Nil until the home has answered: changes that come before were decided before, and are in the answer.
    var isOnline: Bool?
    /// In no order; told of every change, and of the answer where they came before it.
    private(set) var watchers: ContiguousArray<Watcher> = []

    init(_ key: UserKey, serial: UInt32) {
        self.key = key
        self.serial = serial
    }

    func append(_ watcher: Watcher) { watchers.append(watcher) }

    /// Takes out the one at `index`, whose place the last one takes: nil where there is no such place, or it was the last.
    func removeWatcher(at index: Int) -> Watcher? {
        guard index < watchers.count, let last = watchers.popLast(), index < watchers.count else { return nil }
        watchers[index] = last
        return last
    }
}

/// One who watches a user.
struct Watcher {
    let session: SessionID
    /// In the session's `SessionDetail.watching`.
    let place: UInt32
}

/// One session's place among those who watch a user.
struct Watching {
    let user: WatchedUser
    /// In `user.watchers`.
    var index: UInt32
}
