import Bytes
import Clock
import Reactor

/// How often actions have failed for reasons of their own, from one submission to the next.
///
/// Not part of `Suspicion`, which ends when the database decides anything of the user's: another device of theirs would
/// wipe out the count of one whose first action fails for ever, and holds up all others of that device.
struct FailingActions {
    private struct Failures {
        let count: Int
        let first: Instant
        let last: Instant
    }

    private let actionsMax: Int
    private var failures: [TextKey: Failures] = [:]
    /// When an action was applied last, of any user.
    private var lastApplied: Instant?

    /// - Parameter actionsMax: actions that are remembered; beyond them failures are not counted.
    init(actionsMax: Int = StoreLimits.failingMax) {
        self.actionsMax = actionsMax
    }

    /// Actions that are remembered.
    var count: Int { failures.count }

    /// Counts a failure of an action, and tells whether it has failed often enough, and for long enough, to be hopeless.
    ///
    /// - Parameter mayBeServer: whether the failure speaks of the server. It is the action's own only where others are applied all
    ///   the while.
    mutating func failed(_ action: TextKey, mayBeServer: Bool = false, now: Instant) -> Bool {
        if failures[action] == nil, failures.count >= actionsMax { forget(before: now) }
        guard failures[action] != nil || failures.count < actionsMax else { return false }
        let known = failures[action].flatMap { isForgotten($0, now) ? nil : $0 }
        let failed = Failures(count: (known?.count ?? 0) + 1, first: known?.first ?? now, last: now)
        failures[action] = failed
        guard failed.count >= StoreLimits.failuresMax else { return false }
        // Where nothing else succeeds either, it may be everybody's trouble, and somebody may be mending it.
        let othersSucceed = lastApplied.map { $0 > failed.first } ?? false
        guard othersSucceed || !mayBeServer else { return false }
        let least =
            othersSucceed && !mayBeServer ? StoreLimits.failuresLeast : StoreLimits.failuresLeastOfAll
        return now.duration(since: failed.first) >= least
    }

    /// An action was applied: what fails beside it fails for reasons of its own.
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
