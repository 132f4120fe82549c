import Bytes
import Clock

/// The users that one loop owns, where a state elsewhere, which all hubs share, says who is online (`UserCall`): the
/// connections of this hub, and which of its loops have watchers.
///
/// Answers and changes may be lost, doubled, and come in any order. Worst interleavings, all in `LinkedUserHistories`:
/// - A change overtakes the answer that was decided before it. It is kept, and its version says that it is newer.
/// - An answer is lost: the watch is told again after `ChannelWaits.patience`.
/// - Other messages are lost, or the state has lost its last ones: the link says that there was a gap, and all is told
///   again (`assertAll`). Versions may begin anew then: the answers count, for they are newer than what was known.
package struct LinkedUsers {
    private struct User {
        /// Of this hub.
        var connections = 0
        var watchers: LoopSet = []
        /// Of the last watch that the state was told; 0: none.
        var serial: UInt32 = 0
        /// Whether the answer to that has come.
        var isAnswered = false
        /// What loops were told; nil before the first answer.
        var isOnline: Bool?
        /// Of the newest change or answer since the last watch, and what a change said before the answer.
        var version: UInt64 = 0
        var early: Bool?
        /// Loops that wait for the first answer, with the serials of their own watches.
        var asking: [(loop: Int, serial: UInt32)] = []
    }

    private struct Wait {
        let user: UserKey
        let serial: UInt32
        let due: Instant
    }

    /// Users in one message, about.
    private static let partSize = 2_000

    private var users: [UserKey: User] = [:]
    private var waits = Fifo<Wait>()
    private var lastSerial: UInt32 = 0
    private let send: (UserCall) -> Void

    /// No users. `send` tells the state, in that order, if at all.
    package init(_ send: @escaping (UserCall) -> Void) { self.send = send }

    /// Users of whom this hub has connections or watchers.
    package var userCount: Int { users.count }
    /// When `tick` has something to do next.
    package var nextDue: Instant? { waits.first?.due }

    /// Handles what a loop tells.
    package mutating func received(
        _ requests: [UserRequest], from loop: Int, now: Instant, _ effects: inout ContiguousArray<UserShard.Effect>
    ) {
        var answers: [UserNews] = []
        for request in requests {
            let key = request.user
            var user = users[key] ?? User()
            switch request {
            case .arrived:
                user.connections += 1
                if user.connections == 1 { send(.arrived(key)) }
            case .departed(_, let mayReturn):
                guard user.connections > 0 else { continue }
                user.connections -= 1
                if user.connections == 0 { send(.departed(key, mayReturn: mayReturn)) }
            case .watch(_, let serial):
                user.watchers.insert(LoopSet(loop: loop))
                if let isOnline = user.isOnline {
                    answers.append(UserNews(user: key, isOnline: isOnline, serial: serial))
                } else {
                    user.asking.append((loop, serial))
                }
                if user.serial == 0 { watch(key, &user, now) }
            case .unwatch:
                user.watchers.remove(LoopSet(loop: loop))
                user.asking.removeAll { $0.loop == loop }
                guard user.watchers.isEmpty, user.serial != 0 else { break }
                send(.unwatch(key))
                (user.serial, user.isOnline) = (0, nil)
            }
            users[key] = user.connections == 0 && user.watchers.isEmpty ? nil : user
        }
        if !answers.isEmpty { effects.append(.answer(loop: loop, answers)) }
    }

    private mutating func watch(_ key: UserKey, _ user: inout User, _ now: Instant) {
        lastSerial = lastSerial == .max ? 1 : lastSerial + 1
        (user.serial, user.isAnswered, user.version, user.early) = (lastSerial, false, 0, nil)
        send(.watch(key, serial: lastSerial))
        waits.append(Wait(user: key, serial: lastSerial, due: now.advanced(by: ChannelWaits.patience)))
    }

    /// The state has told this.
    package mutating func told(_ told: SharedUserNews, _ effects: inout ContiguousArray<UserShard.Effect>) {
        let key = told.news.user
        guard var user = users[key], user.serial != 0 else { return }
        let isNewer = told.version > user.version
        user.version = max(user.version, told.version)
        if let serial = told.news.serial {
            guard serial == user.serial, !user.isAnswered else { return }
            user.isAnswered = true
            settle(isNewer ? told.news.isOnline : user.early ?? told.news.isOnline, key, &user, &effects)
        } else if isNewer, user.isAnswered {
            settle(told.news.isOnline, key, &user, &effects)
        } else if isNewer {
            user.early = told.news.isOnline
        }
        users[key] = user
    }

    private func settle(
        _ isOnline: Bool, _ key: UserKey, _ user: inout User, _ effects: inout ContiguousArray<UserShard.Effect>
    ) {
        defer { user.isOnline = isOnline }
        for (loop, serial) in user.asking {
            effects.append(.answer(loop: loop, [UserNews(user: key, isOnline: isOnline, serial: serial)]))
        }
        user.asking = []
        guard let known = user.isOnline, known != isOnline else { return }
        effects.append(.tell(loops: user.watchers, UserNews(user: key, isOnline: isOnline, serial: nil)))
    }

    /// Watches whose answers have not come are told again.
    package mutating func tick(now: Instant) {
        while let first = waits.first, first.due <= now {
            waits.popFirst()
            guard var user = users[first.user], user.serial == first.serial, !user.isAnswered else { continue }
            watch(first.user, &user, now)
            users[first.user] = user
        }
    }

    /// The way to the state was broken: what came may be less than what was told. All is told again. `apps`: by which parts
    /// are the same everywhere.
    package mutating func assertAll(_ apps: KnownApps, now: Instant) {
        let count = users.count / Self.partSize + 1
        let online = users.filter { $0.value.connections > 0 }.keys
        let parts = Dictionary(grouping: online) { UserPart(of: $0, count: count, apps) }
        for part in (0..<count).map({ UserPart($0, of: count) }) { send(.only(part, parts[part] ?? [])) }
        for (key, known) in users where known.serial != 0 {
            var user = known
            watch(key, &user, now)
            users[key] = user
        }
    }
}
