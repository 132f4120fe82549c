import Bytes
import Clock

/// The deadlines of a loop's sources. Each source is in it at most once and knows its index, so moving or unsetting a
/// deadline costs O(log n) and leaves nothing behind. Holds no references: the loop does, and unsets deadlines on removal.
struct DeadlineQueue {
    private struct Entry: HeapEntry {
        let source: Unmanaged<EventSource>

        var deadline: Instant { source._withUnsafeGuaranteedRef { $0.deadline } }

        func precedes(_ other: Entry) -> Bool { deadline < other.deadline }

        func moved(to index: Int) {
            source._withUnsafeGuaranteedRef { $0.deadlineIndex = Int32(truncatingIfNeeded: index) }
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

    /// Takes out the source with the earliest deadline, if that is `now` or before.
    mutating func popDue(_ now: Instant) -> Unmanaged<EventSource>? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        first.source._withUnsafeGuaranteedRef { unset($0) }
        return first.source
    }
}
