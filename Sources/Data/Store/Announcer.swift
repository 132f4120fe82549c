import Clock
import Metrics
import Reactor

/// Decides when to wake the other hubs: soon after a commit, but not more often than the interval allows. Each NOTIFY takes
/// a lock that all notifying commits of a server share (PostgreSQL's async.c, PreCommit_Notify).
///
/// One announcement is in flight at a time; the next one covers what is committed meanwhile.
final class Announcer {
    private let interval: Duration
    private let batches: Histogram
    private let send: () -> Bool
    private var due: Alarm?
    private var isWanted = false
    private var commits = 0
    private var isUnderWay = false
    private var last = Instant(nanoseconds: 0)

    /// - Parameters:
    ///   - batches: records the commits of each announcement.
    ///   - send: sends an announcement; returns false if it cannot now.
    init(
        _ loop: EventLoop, _ interval: Duration, _ batches: Histogram, _ send: @escaping () -> Bool
    ) throws(ReactorError) {
        self.interval = interval
        self.batches = batches
        self.send = send
        due = try Alarm(loop) { [weak self] in self?.tell(now: .read(), atOnce: true) }
    }

    /// Whether nothing is to be announced or in flight.
    var isQuiet: Bool { !isWanted && !isUnderWay }

    /// `count` transactions were committed.
    func want(_ count: Int) {
        isWanted = true
        commits += count
    }

    /// Sends an announcement if it is wanted and due, or schedules it.
    ///
    /// - Parameter isCrowded: whether actions wait for PostgreSQL: it is asked for less then.
    func tell(now: Instant, atOnce: Bool, isCrowded: Bool = false) {
        guard isWanted, !isUnderWay else { return }
        let elapsed = now.duration(since: last)
        let interval = isCrowded ? max(interval, StoreLimits.crowdedTelling) : interval
        guard atOnce || elapsed >= interval else {
            due?.set(after: interval - elapsed)
            return
        }
        due?.unset()
        isWanted = false
        isUnderWay = true
        guard send() else { return done(false) }
        last = now
        batches.record(UInt64(commits))
        commits = 0
    }

    /// The announcement in flight has ended. If it was lost, it is wanted again.
    func done(_ isSent: Bool) {
        isUnderWay = false
        if !isSent { isWanted = true }
    }
}
