import Bytes
import Clock

/// Ends a user's access by anything issued before a moment: `sync.revoke` in SQL.
package struct Revocation: Sendable, Equatable {
    /// The user's id, always compared byte for byte.
    package let userID: String
    /// Microseconds since 1970, PostgreSQL's own precision.
    package let before: Int64

    /// Anything issued to `userID` before `before` is no longer valid.
    package init(userID: String, before: Int64) {
        self.userID = userID
        self.before = before
    }
}

/// The revocations in force, the latest of each user. Beyond `countMax` the oldest are evicted in batches.
package struct RevocationTable: Sendable {
    private var moments: [TextKey: Int64] = [:]
    /// The most users that this table holds.
    package let countMax: Int

    /// The most users that a hub holds, at about 100 bytes each: more than are revoked while entries are kept.
    package static let countMax = 100_000

    /// A table without entries, for at most `countMax` users.
    package init(countMax: Int = Self.countMax) {
        self.countMax = countMax
    }

    /// Users with an entry.
    package var count: Int { moments.count }

    /// Stores each revocation that is later than the user's stored one. Returns those, and the number of evicted users.
    package mutating func insert(_ revocations: [Revocation]) -> (news: [Revocation], dropped: Int) {
        var news: [Revocation] = []
        for revocation in revocations {
            let user = TextKey(revocation.userID)
            if let known = moments[user], known >= revocation.before { continue }
            moments[user] = revocation.before
            news.append(revocation)
        }
        return (news, trim())
    }

    /// Whether something issued to the user at that second is revoked. An unknown time (nil) counts as old.
    ///
    /// Tokens have whole seconds: one issued within the second of the revocation counts as older.
    package func refuses(_ userID: String, issuedAt: Int64?) -> Bool {
        guard let before = moments[TextKey(userID)] else { return false }
        guard let issuedAt else { return true }
        return UnixTime(seconds: issuedAt).microseconds < before
    }

    private mutating func trim() -> Int {
        guard moments.count > countMax else { return 0 }
        let surplus = moments.count - countMax + countMax / 16
        let inOrder = moments.values.sorted()
        let last = inOrder[surplus - 1]
        // Many may have the same moment, when an operator has set it.
        var ties = surplus - (inOrder.firstIndex(of: last) ?? 0)
        moments = moments.filter { _, moment in
            guard moment == last else { return moment > last }
            ties -= 1
            return ties < 0
        }
        return surplus
    }
}
