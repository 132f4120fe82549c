import Bytes
import Clock

/// Users whose request cost a connection time and came to nothing: a lock timeout, a statement that ran out of time. Nothing of
/// theirs is taken for a time that doubles with each; until the database has answered one of theirs they are suspects, of all of
/// whom one request is under way at a time.
struct Suspects {
    private struct Suspicion {
        var count = 0
        var heldUntil: Instant
        var reason: HoldReason
    }

    private let usersMax: Int
    private var users: [TextKey: Suspicion] = [:]

    /// - Parameter usersMax: users remembered; beyond them such users are not held.
    init(usersMax: Int = PostgresLimits.suspectsMax) { self.usersMax = usersMax }

    var isEmpty: Bool { users.isEmpty }
    var count: Int { users.count }

    func contains(_ user: TextKey) -> Bool { !users.isEmpty && users[user] != nil }

    /// For how long from now on nothing of the user's is taken, and why; nil where they are not held.
    func hold(of user: TextKey, at now: Instant) -> (pause: Duration, reason: HoldReason)? {
        guard !users.isEmpty, let suspicion = users[user], now < suspicion.heldUntil else { return nil }
        return (suspicion.heldUntil.duration(since: now), suspicion.reason)
    }

    /// Holds a user, and returns for how long; nil where no more are remembered.
    ///
    /// - Parameter pause: how long, the first time; twice that the next time, and so on until the database answers.
    mutating func hold(_ user: TextKey, at now: Instant, pause: Duration, _ reason: HoldReason) -> Duration? {
        guard users[user] != nil || users.count < usersMax else { return nil }
        let count = users[user]?.count ?? 0
        let pause = min(pause * (1 << min(count, 10)), PostgresLimits.holdMax)
        users[user] = Suspicion(count: count + 1, heldUntil: now.advanced(by: pause), reason: reason)
        return pause
    }

    /// The database has answered one of the user's. False where they were no suspect.
    mutating func acquit(_ user: TextKey) -> Bool { !users.isEmpty && users.removeValue(forKey: user) != nil }

    /// Forgets those of whom nothing has come for a while.
    mutating func expire(at now: Instant, where isIdle: (TextKey) -> Bool) {
        guard !users.isEmpty else { return }
        users = users.filter { user, suspicion in
            suspicion.heldUntil.advanced(by: PostgresLimits.suspicionLasts) > now || !isIdle(user)
        }
    }
}
