import Clock
import Feed
import Reactor

/// Whether the feed has caught up with the database for the first time. Any thread.
///
/// Normally that is when it listens and is live. Where something swallows notifications it never is, so polling counts too
/// once it has lasted a while. It does not last when the listening connection is merely a little later than the reading one.
final class HubReadiness: Sendable {
    private enum State {
        case waiting
        case pollingSince(Instant)
        case done
    }

    private let state: Locked<State>
    static let pollingLasts = Duration.seconds(10)

    /// - Parameter isDone: true where there is no feed to wait for.
    init(isDone: Bool) {
        state = Locked(isDone ? .done : .waiting)
    }

    func changed(to status: FeedStatus, at now: Instant = .read()) {
        state.withLock { state in
            if case .done = state { return }
            switch status {
            case .away, .catchingUp: state = .waiting
            case .live: state = .done
            case .polling: state = .pollingSince(now)
            }
        }
    }

    func hasCaughtUp(at now: Instant = .read()) -> Bool {
        state.withLock { state in
            switch state {
            case .waiting: return false
            case .done: return true
            case .pollingSince(let start):
                guard now.duration(since: start) >= Self.pollingLasts else { return false }
                state = .done
                return true
            }
        }
    }
}
