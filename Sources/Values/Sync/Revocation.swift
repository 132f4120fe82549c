import Bytes
import Clock

/// A user's access, ended for whatever was issued before a moment: `sync.revoke` in SQL.
package struct Revocation: Sendable, Equatable {
    /// The user's id, compared byte for byte by all who look it up.
    package let userID: String
    /// Microseconds since 1970, PostgreSQL's own precision.
    package let before: Int64

    /// What was issued to `userID` before `before` is good no more.
    package init(userID: String, before: Int64) {
        self.userID = userID
        self.before = before
    }
}

/// The revocations in force, the latest of each user. Bounded: beyond `countMax` the oldest are let go, in lots, so
/// that the search for them is paid by many.
package struct RevocationTable: Sendable {
    /// The moments by user, in microseconds since 1970.
    private var moments: [TextKey: Int64] = [:]
    /// Users that one table holds.
    package let countMax: Int

    /// Users that a hub holds. A hundred bytes each, and more than are revoked in the time that entries are kept.
    package static let countMax = 100_000

    package init(countMax: Int = Self.countMax) {
        self.countMax = countMax
    }

    /// How many users have an entry.
    package var count: Int { moments.count }

    /// Takes in what is later than what is known of that user; says which that was, and how many had to be let go.
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

    /// Whether what was issued to the user at that second is revoked; nil, what does not say when it was issued.
    ///
    /// Tokens know whole seconds: one issued within the second of the revocation counts as older.
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
        // Many may share one moment, where an operator has given it.
        var ties = surplus - (inOrder.firstIndex(of: last) ?? 0)
        moments = moments.filter { _, moment in
            guard moment == last else { return moment > last }
            ties -= 1
            return ties < 0
        }
        return surplus
    }
}
