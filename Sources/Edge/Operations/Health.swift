import Clock
import Reactor

/// Whether the hub is alive and ready, for load balancers and supervisors. Any thread.
///
/// Alive: every loop that serves clients ticks. The database does not count: its outage would restart all hubs at once, and
/// their devices would come back in a herd. Nor do the threads that speak with the database: resolving its name may hold
/// them up. Ready: listening and, with a database, past LISTEN and the first catch-up; with Redis, once it was reached and
/// takes publishes; no longer when the hub ends. A later outage of either changes nothing: devices stay connected and are
/// told.
///
/// Valid transitions: starting → serving ⇄ draining; starting → draining.
package final class Health: Sendable {
    private enum Phase {
        case starting, serving, draining
    }

    private struct State: Sendable {
        var phase = Phase.starting
        var loops: [LoopHandle] = []
        var awaited: @Sendable () -> StaticString? = { nil }
        var warning: @Sendable () -> StaticString? = { nil }
    }

    private let state = Locked(State())
    private let stuckAfter: Duration

    /// - Parameter stuckAfter: how long a loop may go without a tick.
    package init(stuckAfter: Duration = .seconds(2)) {
        self.stuckAfter = stuckAfter
    }

    /// Clients may connect.
    ///
    /// - Parameters:
    ///   - loops: those that serve clients.
    ///   - awaited: a line that says what the hub waits for; nil once it waits for nothing, and from then on.
    ///   - warning: a line that a ready hub shows instead of `ok`; nil for none.
    package func serves(
        on loops: [LoopHandle], awaited: @escaping @Sendable () -> StaticString?,
        warning: @escaping @Sendable () -> StaticString? = { nil }
    ) {
        state.withLock { state in
            state.loops = loops
            state.awaited = awaited
            state.warning = warning
            if state.phase == .starting { state.phase = .serving }
        }
    }

    /// The drain was taken back: it is ready again.
    package func servesAgain() {
        state.withLock { if $0.phase == .draining { $0.phase = .serving } }
    }

    /// The hub ends, or gives its clients away: it is no longer ready, and alive until it is gone.
    package func drains() {
        state.withLock { $0.phase = .draining }
    }

    /// Why the hub is not alive; nil if it is.
    func ailment(at now: Instant = .read()) -> StaticString? {
        let loops = state.withLock { $0.loops }
        return loops.contains { $0.sinceTick(at: now) > stuckAfter } ? "a loop is stuck\n" : nil
    }

    /// Why the hub is not ready; nil if it is.
    package func obstacle() -> StaticString? {
        let state = state.withLock { $0 }
        switch state.phase {
        case .starting: return "starting\n"
        case .draining: return "draining\n"
        case .serving: return state.awaited()
        }
    }

    /// What a ready hub says.
    func readiness() -> StaticString {
        let warning = state.withLock { $0.warning }
        return warning() ?? "ok\n"
    }
}
