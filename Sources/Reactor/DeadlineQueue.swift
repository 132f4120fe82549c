/// The deadlines of a loop's sources: a binary heap in which every source stands at most once and knows its place,
/// so that moving or unsetting a deadline costs O(log n) and leaves nothing behind.
///
/// Invariant: `heap[source.deadlineIndex] === source` for every source in it. It holds no references: its sources are the
/// loop's, which unsets the deadline of one that it lets go of.
struct DeadlineQueue {
    private var heap: ContiguousArray<Unmanaged<EventSource>> = []

    var count: Int { heap.count }
    var earliest: Instant? { heap.isEmpty ? nil : deadline(0) }

    mutating func set(_ source: EventSource, at deadline: Instant) {
        let index: Int
        if source.deadlineIndex >= 0 {
            index = Int(source.deadlineIndex)
        } else {
            index = heap.count
            heap.append(Unmanaged.passUnretained(source))
            source.deadlineIndex = Int32(truncatingIfNeeded: index)
        }
        source.deadline = deadline
        if !siftUp(index) { siftDown(index) }
    }

    mutating func unset(_ source: EventSource) {
        let index = Int(source.deadlineIndex)
        guard index >= 0 else { return }
        source.deadlineIndex = -1
        let last = heap.removeLast()
        guard index < heap.count else { return }
        place(last, index)
        if !siftUp(index) { siftDown(index) }
    }

    /// Takes out the source whose deadline is the earliest, where that is `now` or before.
    mutating func popDue(_ now: Instant) -> Unmanaged<EventSource>? {
        guard let first = heap.first, deadline(0) <= now else { return nil }
        first._withUnsafeGuaranteedRef { unset($0) }
        return first
    }

    private func deadline(_ index: Int) -> Instant {
        heap[index]._withUnsafeGuaranteedRef { $0.deadline }
    }

    private mutating func place(_ source: Unmanaged<EventSource>, _ index: Int) {
        heap[index] = source
        source._withUnsafeGuaranteedRef { $0.deadlineIndex = Int32(truncatingIfNeeded: index) }
    }

    private mutating func siftUp(_ start: Int) -> Bool {
        var index = start
        let source = heap[index]
        let time = deadline(index)
        while index > 0 {
            let parent = (index - 1) / 2
            guard time < deadline(parent) else { break }
            place(heap[parent], index)
            index = parent
        }
        guard index != start else { return false }
        place(source, index)
        return true
    }

    private mutating func siftDown(_ start: Int) {
        var index = start
        let source = heap[index]
        let time = deadline(index)
        while true {
            var child = 2 * index + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, deadline(child + 1) < deadline(child) { child += 1 }
            guard deadline(child) < time else { break }
            place(heap[child], index)
            index = child
        }
        if index != start { place(source, index) }
    }
}
