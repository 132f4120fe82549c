import Bytes
import Clock

/// Users whose request cost connection time without a result: a lock timeout, or a statement that ran out of time. Their
/// requests are refused for a time that doubles with each such failure. They stay suspects until the database answers one
/// of their requests. One request of all suspects is in flight at a time.
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

    /// For how much longer the user's requests are refused, and why; nil if the user is not held.
    func hold(of user: TextKey, at now: Instant) -> (pause: Duration, reason: HoldReason)? {
        guard !users.isEmpty, let suspicion = users[user], now < suspicion.heldUntil else { return nil }
        return (suspicion.heldUntil.duration(since: now), suspicion.reason)
    }

    /// Holds a user, and returns for how long; nil if no more users can be remembered.
    ///
    /// - Parameter pause: the first hold; each further one is twice as long, until the database answers.
    mutating func hold(_ user: TextKey, at now: Instant, pause: Duration, _ reason: HoldReason) -> Duration? {
        guard users[user] != nil || users.count < usersMax else { return nil }
        let count = users[user]?.count ?? 0
        let pause = min(pause * (1 << min(count, 10)), PostgresLimits.holdMax)
        users[user] = Suspicion(count: count + 1, heldUntil: now.advanced(by: pause), reason: reason)
        return pause
    }

    /// The database has answered one of the user's requests. Returns false if the user was no suspect.
    mutating func acquit(_ user: TextKey) -> Bool { !users.isEmpty && users.removeValue(forKey: user) != nil }

    /// Forgets users whose suspicion is old and for whom `isIdle` is true.
    mutating func expire(at now: Instant, where isIdle: (TextKey) -> Bool) {
        guard !users.isEmpty else { return }
        users = users.filter { user, suspicion in
            suspicion.heldUntil.advanced(by: PostgresLimits.suspicionLasts) > now || !isIdle(user)
        }
    }
}
