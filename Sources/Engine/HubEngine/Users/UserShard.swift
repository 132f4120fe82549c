import Bytes
import Clock

/// What a loop tells the shards of users, in the order in which it happened there.
package enum UserRequest: Sendable {
    /// One more of the loop's connections is signed in as the user.
    case arrived(UserKey)
    /// One of them has ended. `mayReturn`: it broke, and the client may be back in a moment; otherwise it left by request.
    case departed(UserKey, mayReturn: Bool = true)
    /// The loop has a watcher of the user. Answered with that serial; until `unwatch` the loop does not ask again.
    case watch(UserKey, serial: UInt32)
    /// The loop has no watcher of the user left.
    case unwatch(UserKey)

    /// The user it is about.
    package var user: UserKey {
        switch self {
        case .arrived(let user), .departed(let user, _), .watch(let user, _), .unwatch(let user): user
        }
    }
}

/// Whether a user is online.
package struct UserNews: Sendable {
    /// The user.
    package let user: UserKey
    /// Whether a connection is signed in as the user.
    package let isOnline: Bool
    /// For an answer, the serial of its `watch`; nil for a change.
    package let serial: UInt32?

    /// `serial` is nil for a change, and that of the `watch` for an answer.
    package init(user: UserKey, isOnline: Bool, serial: UInt32?) {
        self.user = user
        self.isOnline = isOnline
        self.serial = serial
    }
}

/// The shard of users that one loop owns: how many connections are signed in as each, over all loops, and which loops have
/// watchers of them (Pusher's "Watchlist events"). Only of apps with `AppFeatures.watchlists`.
///
/// A user is online from the first connection until the last has been gone for `ShardLimits.leaveGrace`: one that comes back
/// in that time was never away. One that leaves by request is offline at once, but not twice within that time: otherwise a
/// client could have watchers told as often as it likes. Answers and changes leave for a loop by one mailbox, in the order
/// in which the shard decides them. A loop ignores changes until its answer, so no client gets a state after a newer one.
///
/// It holds only what connections brought: users who are signed in, or were within that time, and users who are watched (a
/// connection names at most `AppLimits.watchlistMax`).
///
/// Worst interleavings, each with its test in `UserShardTests`:
/// - A loop's last watcher goes and another comes while the first answer is in flight. That answer is older than changes
///   that the loop was not told. So watches are numbered (`WatchlistTests.anAnswerToAnEarlierWatchIsIgnored`).
/// - A user arrives in the watch's own message, after it. The whole message is read first (`theAnswerKnowsAllOfItsMessage`).
/// - The last connection ends, another comes and ends within the grace. The first end's timer no longer counts
///   (`aReturnIsNotUndoneByTheOldDeadline`).
/// - A user who left by request is back while its timer runs. It no longer counts (`aDepartureByRequestIsOfflineAtOnce`).
package struct UserShard {
    /// What the shard wants done, in order.
    package enum Effect {
        /// Tell the loop what it asked for.
        case answer(loop: Int, [UserNews])
        /// Tell each loop of the set of the change.
        case tell(loops: LoopSet, UserNews)
    }

    struct User: TableEntry {
        // 40 bytes: a hub has one for each user. So `connections` and `isGone` share a field: a user who is gone has no
        // connection.
        let key: UserKey
        private var presence: Int32 = 0
        /// The leave whose timer runs; 0: none.
        var leave: UInt32 = 0
        /// Until then even a leave by request gets a grace: the user had left at once a moment before it came.
        var settledAt = Instant.min
        var watchers: LoopSet = []

        init(key: UserKey) { self.key = key }

        /// Setting it ends `isGone`.
        var connections: Int32 {
            get { max(presence, 0) }
            set { presence = newValue }
        }
        /// Whether the user is offline while the timer runs. Setting it removes all connections.
        var isGone: Bool {
            get { presence < 0 }
            set { presence = newValue ? -1 : 0 }
        }
        var isOnline: Bool { connections > 0 || (leave != 0 && !isGone) }
    }

    private struct Leave {
        let user: UserKey
        let number: UInt32
        let dueAt: Instant
    }

    private let limits: ShardLimits
    private var users = KeyedTable<User>()
    /// By the app's index.
    private var leaves: SharedOrder<Int, Leave>
    private var lastLeave: UInt32 = 0

    /// No users. `limits` are the shard's own.
    package init(limits: ShardLimits = ShardLimits()) {
        self.limits = limits
        leaves = SharedOrder(bound: limits.departuresMax)
    }

    /// Users who are online, watched, or left a moment ago.
    package var userCount: Int { users.count }
    /// What the order of leaves takes, in entries.
    package var leaveEntries: Int { leaves.slotCount }
    /// When `tick` has something to do next.
    package var nextDue: Instant? { leaves.first?.dueAt }

    /// Handles what a loop tells.
    package mutating func received(
        _ requests: [UserRequest], from loop: Int, now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        var asked: [(user: UserKey, serial: UInt32)] = []
        for request in requests {
            switch request {
            case .arrived(let user): arrived(user, now, &effects)
            case .departed(let user, let mayReturn): departed(user, mayReturn: mayReturn, now, &effects)
            case .watch(let user, let serial):
                users[index(of: user)].watchers.insert(LoopSet(loop: loop))
                asked.append((user, serial))
            case .unwatch(let user):
                guard let index = users.index(of: user) else { continue }
                users[index].watchers.remove(LoopSet(loop: loop))
                forgetIfNobody(index)
            }
        }
        guard !asked.isEmpty else { return }
        effects.append(
            .answer(
                loop: loop,
                asked.map { UserNews(user: $0.user, isOnline: users[$0.user]?.isOnline == true, serial: $0.serial) }))
    }

    /// Users who have not come back go offline. Limited for each turn: thousands may have left at one moment.
    package mutating func tick(now: Instant, _ effects: inout ContiguousArray<Effect>) {
        var rest = limits.dueAtOnceMax
        while rest > 0, let first = leaves.popFirst(if: { $0.dueAt <= now }) {
            end(first, &effects)
            rest -= 1
        }
    }

    private mutating func end(_ leave: Leave, _ effects: inout ContiguousArray<Effect>) {
        guard let index = users.index(of: leave.user), users[index].leave == leave.number else { return }
        leaves.leave(of: leave.user.app)
        users[index].leave = 0
        guard !users[index].isGone else {
            users[index].isGone = false
            return forgetIfNobody(index)
        }
        wentOffline(index, &effects)
    }

    private mutating func arrived(_ user: UserKey, _ now: Instant, _ effects: inout ContiguousArray<Effect>) {
        let index = index(of: user)
        let watchers = users[index].isOnline ? [] : users[index].watchers
        if users[index].isGone { users[index].settledAt = now.advanced(by: limits.leaveGrace) }
        users[index].connections += 1
        if users[index].leave != 0 {
            users[index].leave = 0
            leaves.leave(of: user.app)
        }
        if !watchers.isEmpty {
            effects.append(.tell(loops: watchers, UserNews(user: user, isOnline: true, serial: nil)))
        }
    }

    private mutating func departed(
        _ user: UserKey, mayReturn: Bool, _ now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let index = users.index(of: user), users[index].connections > 0 else { return }
        users[index].connections -= 1
        guard users[index].connections == 0 else { return }
        guard limits.leaveGrace > .zero else { return wentOffline(index, &effects) }
        lastLeave = lastLeave == .max ? 1 : lastLeave + 1
        users[index].leave = lastLeave
        users[index].isGone = !mayReturn && now >= users[index].settledAt
        if users[index].isGone { tellOffline(users[index], &effects) }
        let leave = Leave(user: user, number: lastLeave, dueAt: now.advanced(by: limits.leaveGrace))
        leaves.append(leave, of: user.app)
        while let excess = leaves.popExcess() { end(excess, &effects) }
        leaves.sweep(of: user.app) { [users] in users[$0.user]?.leave == $0.number }
    }

    private mutating func wentOffline(_ index: Int, _ effects: inout ContiguousArray<Effect>) {
        tellOffline(users[index], &effects)
        forgetIfNobody(index)
    }

    private func tellOffline(_ user: User, _ effects: inout ContiguousArray<Effect>) {
        guard !user.watchers.isEmpty else { return }
        effects.append(.tell(loops: user.watchers, UserNews(user: user.key, isOnline: false, serial: nil)))
    }

    private mutating func index(of user: UserKey) -> Int {
        users.index(of: user) ?? users.insert(User(key: user))
    }

    private mutating func forgetIfNobody(_ index: Int) {
        let user = users[index]
        if user.connections == 0, user.leave == 0, user.watchers.isEmpty { users.remove(user.key) }
    }
}
