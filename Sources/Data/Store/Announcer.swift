import Clock
import Metrics
import Reactor

/// Decides when the other hubs are woken: soon after a commit, and not more often than the interval allows, for each
/// NOTIFY takes a lock that all of a server's notifying commits share (PostgreSQL's async.c, PreCommit_Notify).
///
/// One is under way at a time; what is committed meanwhile is told by the next.
final class Announcer {
    private let interval: Duration
    private let batches: Histogram
    private let send: () -> Bool
    private var due: Alarm?
    private var isWanted = false
    /// Commits since the last one was sent.
    private var commits = 0
    private var isUnderWay = false
    private var last = Instant(nanoseconds: 0)

    /// - Parameters:
    ///   - batches: counts the commits of each that is sent.
    ///   - send: sends one, or says that this cannot be now.
    init(
        _ loop: EventLoop, _ interval: Duration, _ batches: Histogram, _ send: @escaping () -> Bool
    ) throws(ReactorError) {
        self.interval = interval
        self.batches = batches
        self.send = send
        due = try Alarm(loop) { [weak self] in self?.tell(now: .read(), atOnce: true) }
    }

    /// Whether there is nothing to tell and nothing under way.
    var isQuiet: Bool { !isWanted && !isUnderWay }

    /// So many transactions were committed.
    func want(_ count: Int) {
        isWanted = true
        commits += count
    }

    /// Sends one where that is wanted and due, or sees to it that it will be.
    func tell(now: Instant, atOnce: Bool) {
        guard isWanted, !isUnderWay else { return }
        let elapsed = now.duration(since: last)
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

    /// The one under way came to its end; lost, it is wanted again.
    func done(_ isSent: Bool) {
        isUnderWay = false
        if !isSent { isWanted = true }
    }
}
