import Clock
import Reactor

/// Whether the hub is alive and ready, as load balancers and supervisors ask. Any thread.
///
/// Alive: every loop that serves clients turns. The database has no part in it, or its outage would restart all hubs at once,
/// and their devices would come back in a herd; nor have the threads that speak with the database, for resolving its name
/// may hold them up.
/// Ready: listening and, with a database, past LISTEN and the first catch-up; not while the hub ends. A later outage of the
/// database does not take it back: devices stay connected and are told.
///
/// Valid transitions: starting → serving → draining; starting → draining.
package final class Health: Sendable {
    private enum Phase {
        case starting, serving, draining
    }

    private struct State: Sendable {
        var phase = Phase.starting
        var loops: [LoopHandle] = []
        var hasCaughtUp: @Sendable () -> Bool = { true }
    }

    private let state = Locked(State())
    private let stuckAfter: Duration

    /// - Parameter stuckAfter: how long a loop may be without a tick.
    package init(stuckAfter: Duration = .seconds(2)) {
        self.stuckAfter = stuckAfter
    }

    /// Clients may connect.
    ///
    /// - Parameters:
    ///   - loops: those that serve clients.
    ///   - hasCaughtUp: whether the first catch-up with the database is done; once true it stays so.
    package func serves(on loops: [LoopHandle], hasCaughtUp: @escaping @Sendable () -> Bool) {
        state.withLock { state in
            state.loops = loops
            state.hasCaughtUp = hasCaughtUp
            if state.phase == .starting { state.phase = .serving }
        }
    }

    /// The hub ends: it is ready no more, and alive until it is gone.
    package func drains() {
        state.withLock { $0.phase = .draining }
    }

    /// What keeps the hub from being alive; nil for one that is.
    func ailment(at now: Instant = .read()) -> StaticString? {
        let loops = state.withLock { $0.loops }
        return loops.contains { $0.sinceTick(at: now) > stuckAfter } ? "a loop is stuck\n" : nil
    }

    /// What keeps the hub from being ready; nil for one that is.
    package func obstacle() -> StaticString? {
        let state = state.withLock { $0 }
        switch state.phase {
        case .starting: return "starting\n"
        case .draining: return "draining\n"
        case .serving: return state.hasCaughtUp() ? nil : "waiting for the database\n"
        }
    }
}
