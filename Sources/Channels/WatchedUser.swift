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
    var watchers = SubscriberList()

    init(_ key: UserKey, serial: UInt32) {
        self.key = key
        self.serial = serial
    }
}

/// One session's place among those who watch a user.
struct Watching {
    let user: WatchedUser
    /// In `user.watchers`.
    var index: UInt32
}
