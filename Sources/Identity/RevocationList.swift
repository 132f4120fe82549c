import Logging
import Reactor
import Sync

/// The revocations in force, for whoever judges tokens. The feed's thread writes it before it tells the loops, so that a
/// token found good before is judged again by a loop that knows better. Any thread.
package final class RevocationList: Sendable {
    private let table: Locked<RevocationTable>
    private let logger: Logger

    /// - Parameter countMax: users remembered; beyond it the oldest are let go, which is logged.
    package init(logger: Logger, countMax: Int = RevocationTable.countMax) {
        table = Locked(RevocationTable(countMax: countMax))
        self.logger = logger
    }

    /// How many users are remembered.
    package var count: Int { table.withLock { $0.count } }

    /// Takes in what is later than what is known.
    package func insert(_ revocations: [Revocation]) {
        let dropped = table.withLock { $0.insert(revocations).dropped }
        guard dropped > 0 else { return }
        logger.warning(
            "more users are revoked than this hub remembers: the oldest revocations are forgotten",
            metadata: ["forgotten": "\(dropped)"])
    }

    /// Whether a token issued to the user at that second of 1970's count is revoked; nil: a token without `iat`.
    package func refuses(_ userID: String, issuedAt: Int64?) -> Bool {
        table.withLock { $0.refuses(userID, issuedAt: issuedAt) }
    }
}
