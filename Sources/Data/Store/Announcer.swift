import Clock
import Metrics
import Reactor

/// Decides when somebody is told of commits: soon, but not more often than an interval allows. One announcer wakes this
/// hub's feed, without an interval. Another one wakes the other hubs: each NOTIFY takes a lock that all notifying commits of
/// a server share (PostgreSQL's async.c, PreCommit_Notify).
///
/// While actions wait for PostgreSQL, the interval is at least `StoreLimits.crowdedTelling`: who is told reads, which takes
/// from PostgreSQL what the actions wait for. One announcement is in flight at a time; the next one covers what is committed
/// meanwhile.
///
/// Worst interleaving: the last commit of a crowd comes just after an announcement, and no tick follows it. The alarm rings
/// for it (`theLastCommitOfACrowdIsTold`).
final class Announcer {
    /// What became of an announcement.
    enum Outcome {
        case told
        /// `done` follows.
        case underWay
        /// Nobody can be told now: it is still wanted.
        case failed
    }

    private let interval: Duration
    private let batches: Histogram?
    private let send: () -> Outcome
    private var due: Alarm?
    private var isWanted = false
    private var commits = 0
    private var isUnderWay = false
    private var last = Instant.min

    /// - Parameters:
    ///   - batches: records the commits of each announcement.
    ///   - send: makes an announcement.
    init(
        _ loop: EventLoop, _ interval: Duration = .zero, _ batches: Histogram? = nil, _ send: @escaping () -> Outcome
    ) throws(ReactorError) {
        self.interval = interval
        self.batches = batches
        self.send = send
        due = try Alarm(loop) { [weak self] in self?.tell(now: .read(), atOnce: true) }
    }

    /// Whether nothing is to be announced or in flight.
    var isQuiet: Bool { !isWanted && !isUnderWay }

    /// Makes an announcement if it is wanted and due, or schedules it.
    ///
    /// - Parameters:
    ///   - count: transactions that were committed since the last call.
    ///   - isCrowded: whether actions wait for PostgreSQL.
    func tell(_ count: Int = 0, now: Instant, atOnce: Bool = false, isCrowded: Bool = false) {
        commits += count
        if count > 0 { isWanted = true }
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
        let outcome = send()
        if outcome != .underWay { done(outcome == .told) }
        guard outcome != .failed else { return }
        last = now
        batches?.record(UInt64(commits))
        commits = 0
    }

    /// The announcement in flight has ended. If it was lost, it is wanted again.
    func done(_ isSent: Bool) {
        isUnderWay = false
        if !isSent { isWanted = true }
    }
}
