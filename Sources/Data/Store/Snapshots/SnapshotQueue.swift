import Bytes
import Clock
import Reactor

/// The questions for snapshots that wait for a connection: a queue for each user, users served in turn.
///
/// Invariants:
/// - At most one question of a user is under way, so whoever's are slow has one connection at a time.
/// - A user stands in the ring exactly where something of theirs waits and nothing of theirs is under way.
/// - A question that was lost with its connection is the next of its user's, and before all others'.
struct SnapshotQueue {
    /// One user's questions.
    private final class Line {
        var waiting = Fifo<SnapshotRead>()
        /// Taken out and not done.
        var current: SnapshotRead?
    }

    private let countMax: Int
    private let perUserMax: Int
    private var lines: [TextKey: Line] = [:]
    private var ring = Fifo<Line>()
    /// Questions waiting, of all users.
    private(set) var count = 0

    /// - Parameters:
    ///   - countMax: questions of all users that may wait.
    ///   - perUserMax: questions of one user that may wait.
    init(countMax: Int = StoreLimits.snapshotsMax, perUserMax: Int = StoreLimits.snapshotsPerUserMax) {
        self.countMax = countMax
        self.perUserMax = perUserMax
    }

    /// Users with something waiting or under way.
    var userCount: Int { lines.count }

    /// Takes a question. False where too many wait, of all users or of this one.
    mutating func append(_ read: SnapshotRead) -> Bool {
        let line = lines[read.user] ?? Line()
        guard count < countMax, line.waiting.count < perUserMax else { return false }
        lines[read.user] = line
        line.waiting.append(read)
        count += 1
        if line.waiting.count == 1, line.current == nil { ring.append(line) }
        return true
    }

    /// The next question to send: under way from now on.
    mutating func next() -> SnapshotRead? {
        guard let line = ring.popFirst(), let read = line.waiting.popFirst() else { return nil }
        count -= 1
        line.current = read
        return read
    }

    /// A question under way must be sent again, before anything else.
    mutating func again(_ read: SnapshotRead) {
        guard let line = lines[read.user], line.current === read else { return }
        line.current = nil
        line.waiting.prepend(read)
        count += 1
        ring.prepend(line)
    }

    /// A question under way is done.
    mutating func done(_ read: SnapshotRead) {
        guard let line = lines[read.user], line.current === read else { return }
        line.current = nil
        if line.waiting.isEmpty { lines[read.user] = nil } else { ring.append(line) }
    }

    /// Takes out what waited in vain.
    mutating func expire(now: Instant) -> [SnapshotRead] {
        remove { $0.deadline <= now }
    }

    /// Takes out all that waits.
    mutating func removeWaiting() -> [SnapshotRead] {
        remove { _ in true }
    }

    private mutating func remove(_ isOver: (SnapshotRead) -> Bool) -> [SnapshotRead] {
        var removed: [SnapshotRead] = []
        for (user, line) in lines {
            // Not in the order of their deadlines: functions have their own.
            var left = Fifo<SnapshotRead>()
            while let read = line.waiting.popFirst() {
                if isOver(read) { removed.append(read) } else { left.append(read) }
            }
            line.waiting = left
            if line.waiting.isEmpty, line.current == nil { lines[user] = nil }
        }
        guard !removed.isEmpty else { return [] }
        count -= removed.count
        var kept = Fifo<Line>()
        while let line = ring.popFirst() {
            if !line.waiting.isEmpty { kept.append(line) }
        }
        ring = kept
        return removed
    }
}
