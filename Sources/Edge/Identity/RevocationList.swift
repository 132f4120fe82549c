import Logging
import Reactor
import Sync

/// The revocations in force, for checks of tokens. Any thread. The feed's thread writes here before it tells the loops: a
/// loop that knows a revocation judges again a token that was found good before.
package final class RevocationList: Sendable {
    private struct State {
        var table: RevocationTable
        var isCurrent = true
    }

    private let state: Locked<State>
    private let logger: Logger

    /// - Parameter countMax: users remembered. Beyond it the oldest are forgotten, which is logged.
    package init(logger: Logger, countMax: Int = RevocationTable.countMax) {
        state = Locked(State(table: RevocationTable(countMax: countMax)))
        self.logger = logger
    }

    /// Users remembered.
    package var count: Int { state.withLock { $0.table.count } }

    /// Whether all revocations are known. If not, a token found good may be revoked. True until set.
    package var isCurrent: Bool { state.withLock { $0.isCurrent } }

    /// Sets whether all revocations are known.
    package func setCurrent(_ isCurrent: Bool) {
        state.withLock { $0.isCurrent = isCurrent }
    }

    /// Adds what is later than what is known.
    package func insert(_ revocations: [Revocation]) {
        let dropped = state.withLock { $0.table.insert(revocations).dropped }
        guard dropped > 0 else { return }
        logger.warning(
            "more users are revoked than this hub remembers: the oldest revocations are forgotten",
            metadata: ["forgotten": "\(dropped)"])
    }

    /// Whether a token of the user is revoked. `issuedAt`: seconds since 1970; nil for a token without `iat`.
    package func refuses(_ userID: String, issuedAt: Int64?) -> Bool {
        state.withLock { $0.table.refuses(userID, issuedAt: issuedAt) }
    }
}
