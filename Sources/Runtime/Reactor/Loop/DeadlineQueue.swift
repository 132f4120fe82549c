import Bytes
import Clock

/// The deadlines of a loop's sources: every source stands here at most once and knows its place, so that moving or unsetting
/// a deadline costs O(log n) and leaves nothing behind.
///
/// It holds no references: its sources are the loop's, which unsets the deadline of one that it lets go of.
struct DeadlineQueue {
    private struct Entry: HeapEntry {
        let source: Unmanaged<EventSource>

        var deadline: Instant { source._withUnsafeGuaranteedRef { $0.deadline } }

        func precedes(_ other: Entry) -> Bool { deadline < other.deadline }

        func moved(to place: Int) {
            source._withUnsafeGuaranteedRef { $0.deadlineIndex = Int32(truncatingIfNeeded: place) }
        }
    }

    private var heap = Heap<Entry>()

    var count: Int { heap.count }
    var earliest: Instant? { heap.first?.deadline }

    mutating func set(_ source: EventSource, at deadline: Instant) {
        source.deadline = deadline
        if source.deadlineIndex >= 0 {
            heap.settle(at: Int(source.deadlineIndex))
        } else {
            heap.insert(Entry(source: Unmanaged.passUnretained(source)))
        }
    }

    mutating func unset(_ source: EventSource) {
        guard source.deadlineIndex >= 0 else { return }
        heap.remove(at: Int(source.deadlineIndex))
        source.deadlineIndex = -1
    }

    /// Takes out the source whose deadline is the earliest, where that is `now` or before.
    mutating func popDue(_ now: Instant) -> Unmanaged<EventSource>? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        first.source._withUnsafeGuaranteedRef { unset($0) }
        return first.source
    }
}
