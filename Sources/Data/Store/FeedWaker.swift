import Clock
import Reactor

/// Wakes the feed after commits: at once, or while the pool is crowded no more often than `StoreLimits.crowdedTelling`. Each
/// read of the tail takes from PostgreSQL what the actions wait for, and one covers all that was committed before it.
///
/// Worst interleaving: the last commit of a crowd comes just after the feed was woken, and no tick follows it. The alarm
/// rings for it (`theLastCommitOfACrowdWakesTheFeed`).
final class FeedWaker {
    private let wake: () -> Void
    private var due: Alarm?
    private var isOwed = false
    private var last = Instant.min

    /// - Parameter wake: wakes the feed.
    init(_ loop: EventLoop, _ wake: @escaping () -> Void) throws(ReactorError) {
        self.wake = wake
        due = try Alarm(loop) { [weak self] in self?.tell(now: .read(), isCrowded: false) }
    }

    /// Something was committed.
    func want() { isOwed = true }

    /// Wakes the feed if that is owed and due, or sets the alarm.
    func tell(now: Instant, isCrowded: Bool) {
        guard isOwed else { return }
        let elapsed = now.duration(since: last)
        guard !isCrowded || elapsed >= StoreLimits.crowdedTelling else {
            due?.set(within: StoreLimits.crowdedTelling - elapsed)
            return
        }
        (isOwed, last) = (false, now)
        due?.unset()
        wake()
    }
}
