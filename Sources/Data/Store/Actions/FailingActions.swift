import Bytes
import Clock
import Reactor

/// Counts failures of actions that are the action's own fault, across submissions.
///
/// Not part of `Suspects`, which forgets a user when the database decides any of their actions: the user's second device
/// would reset the count of an action that always fails and blocks the first device.
struct FailingActions {
    private struct Failures {
        let count: Int
        let first: Instant
        let last: Instant
    }

    private let actionsMax: Int
    private var failures: [TextKey: Failures] = [:]
    /// When an action of any user was last applied.
    private var lastApplied: Instant?

    /// - Parameter actionsMax: actions remembered; beyond them failures are not counted.
    init(actionsMax: Int = StoreLimits.failingMax) {
        self.actionsMax = actionsMax
    }

    var count: Int { failures.count }

    /// Counts a failure of an action. Returns whether it has failed often enough, and for long enough, to be hopeless.
    ///
    /// - Parameter mayBeServer: the error blames the server. It counts only if other actions are applied meanwhile.
    mutating func failed(_ action: TextKey, mayBeServer: Bool = false, now: Instant) -> Bool {
        if failures[action] == nil, failures.count >= actionsMax { forget(before: now) }
        guard failures[action] != nil || failures.count < actionsMax else { return false }
        let known = failures[action].flatMap { isForgotten($0, now) ? nil : $0 }
        let failed = Failures(count: (known?.count ?? 0) + 1, first: known?.first ?? now, last: now)
        failures[action] = failed
        guard failed.count >= StoreLimits.failuresMax else { return false }
        // If nothing else succeeds either, all may have the same trouble, and somebody may be repairing it.
        let othersSucceed = lastApplied.map { $0 > failed.first } ?? false
        guard othersSucceed || !mayBeServer else { return false }
        let least =
            othersSucceed && !mayBeServer ? StoreLimits.failuresLeast : StoreLimits.failuresLeastOfAll
        return now.duration(since: failed.first) >= least
    }

    /// An action was applied, so failures of others at this time are their own.
    mutating func applied(now: Instant) { lastApplied = now }

    /// The action was decided.
    mutating func decided(_ action: TextKey) {
        guard !failures.isEmpty else { return }
        failures[action] = nil
    }

    private mutating func forget(before now: Instant) {
        failures = failures.filter { !isForgotten($0.value, now) }
    }

    private func isForgotten(_ failures: Failures, _ now: Instant) -> Bool {
        now.duration(since: failures.last) >= StoreLimits.failureLasts
    }
}
