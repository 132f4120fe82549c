import Logging
import Reactor
import Sync

/// The revocations in force, for whoever judges tokens. The feed's thread writes it before it tells the loops, so that a
/// token found good before is judged again by a loop that knows better. Any thread.
package final class RevocationList: Sendable {
    private struct State {
        var table: RevocationTable
        var isCurrent = true
    }

    private let state: Locked<State>
    private let logger: Logger

    /// - Parameter countMax: users remembered; beyond it the oldest are let go, which is logged.
    package init(logger: Logger, countMax: Int = RevocationTable.countMax) {
        state = Locked(State(table: RevocationTable(countMax: countMax)))
        self.logger = logger
    }

    /// How many users are remembered.
    package var count: Int { state.withLock { $0.table.count } }

    /// Whether all revocations are known. Where they are not, a token found good may be revoked; true unless told
    /// otherwise.
    package var isCurrent: Bool { state.withLock { $0.isCurrent } }

    /// Says whether all revocations are known.
    package func setCurrent(_ isCurrent: Bool) {
        state.withLock { $0.isCurrent = isCurrent }
    }

    /// Takes in what is later than what is known.
    package func insert(_ revocations: [Revocation]) {
        let dropped = state.withLock { $0.table.insert(revocations).dropped }
        guard dropped > 0 else { return }
        logger.warning(
            "more users are revoked than this hub remembers: the oldest revocations are forgotten",
            metadata: ["forgotten": "\(dropped)"])
    }

    /// Whether a token issued to the user at that second of 1970's count is revoked; nil: a token without `iat`.
    package func refuses(_ userID: String, issuedAt: Int64?) -> Bool {
        state.withLock { $0.table.refuses(userID, issuedAt: issuedAt) }
    }
}
