/// A user whom sessions of this loop watch.
///
/// Invariant: it is in the hub's table exactly while somebody watches.
final class WatchedUser {
    let key: UserKey
    /// The serial of the request to the user's shard.
    let serial: UInt32
    /// Nil until the shard has answered. Changes that come before were decided before, and are in the answer.
    var isOnline: Bool?
    /// Unordered. Told of every change, and of the answer if they came before it.
    private(set) var watchers: ContiguousArray<Watcher> = []

    init(_ key: UserKey, serial: UInt32) {
        self.key = key
        self.serial = serial
    }

    func append(_ watcher: Watcher) { watchers.append(watcher) }

    /// Removes the watcher at `index`; the last one moves there. Returns the moved one; nil where none moved.
    func removeWatcher(at index: Int) -> Watcher? {
        guard index < watchers.count, let last = watchers.popLast(), index < watchers.count else { return nil }
        watchers[index] = last
        return last
    }
}

/// A session that watches a user.
struct Watcher {
    let session: SessionID
    /// The index in the session's `SessionDetail.watching`.
    let index: UInt32
}

/// A session's entry among a user's watchers.
struct Watching {
    let user: WatchedUser
    var index: UInt32
}
