import Clock
import Reactor
import Synchronization

/// The commit time of each change: written by the writers, read by the loop that receives the events.
///
/// One writer changes a row and numbers its revisions. A slot is reused after `depth` revisions; no more changes than that
/// are in flight.
// @unchecked Sendable: the two pointers are set once, and all they point to is atomic.
final class CommitBook: @unchecked Sendable {
    let committed = Atomic<Int>(0)

    private let depth: Int
    private let rows: Int
    private let times: UnsafeMutablePointer<Atomic<UInt64>>
    private let revisions: UnsafeMutablePointer<Atomic<Int64>>

    /// For `rows` rows at revision 1, with at most `inFlight` changes in flight.
    init(rows: Int, inFlight: Int) {
        self.rows = rows
        var depth = 2
        while depth < inFlight * 2 { depth *= 2 }
        self.depth = depth
        times = .allocate(capacity: rows * depth)
        revisions = .allocate(capacity: rows)
        for index in 0..<rows * depth { (times + index).initialize(to: Atomic(0)) }
        for index in 0..<rows { (revisions + index).initialize(to: Atomic(1)) }
    }

    deinit {
        times.deinitialize(count: rows * depth)
        revisions.deinitialize(count: rows)
        times.deallocate()
        revisions.deallocate()
    }

    /// The commit of the row's next revision is about to be sent.
    func committing(_ row: Int, at now: Instant) {
        let revision = revisions[row].load(ordering: .relaxed) + 1
        revisions[row].store(revision, ordering: .relaxed)
        times[index(row, revision)].store(now.nanoseconds, ordering: .releasing)
    }

    /// When that revision's commit was sent; nil for a row or revision outside this book.
    func commitTime(_ row: Int, _ revision: Int64) -> Instant? {
        guard row >= 0, row < rows, revision > 0 else { return nil }
        let nanoseconds = times[index(row, revision)].load(ordering: .acquiring)
        return nanoseconds == 0 ? nil : Instant(nanoseconds: nanoseconds)
    }

    /// The revision that the row was given last.
    func revision(_ row: Int) -> Int64 { revisions[row].load(ordering: .relaxed) }

    private func index(_ row: Int, _ revision: Int64) -> Int {
        row * depth + Int(truncatingIfNeeded: revision) & (depth - 1)
    }
}
