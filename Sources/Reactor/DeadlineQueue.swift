/// The deadlines of a loop's sources: a binary heap in which every source stands at most once and knows its place,
/// so that moving or unsetting a deadline costs O(log n) and leaves nothing behind.
///
/// Invariant: `heap[source.deadlineIndex] === source` for every source in it.
struct DeadlineQueue {
    private var heap: ContiguousArray<EventSource> = []

    var count: Int { heap.count }
    var earliest: Instant? { heap.first?.deadline }

    mutating func set(_ source: EventSource, at deadline: Instant) {
        let index: Int
        if source.deadlineIndex >= 0 {
            index = Int(source.deadlineIndex)
        } else {
            index = heap.count
            heap.append(source)
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
        guard last !== source else { return }
        place(last, index)
        if !siftUp(index) { siftDown(index) }
    }

    /// Takes out the source whose deadline is the earliest, where that is `now` or before.
    mutating func popDue(_ now: Instant) -> EventSource? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        unset(first)
        return first
    }

    private mutating func place(_ source: EventSource, _ index: Int) {
        heap[index] = source
        source.deadlineIndex = Int32(truncatingIfNeeded: index)
    }

    private mutating func siftUp(_ start: Int) -> Bool {
        var index = start
        let source = heap[index]
        while index > 0 {
            let parent = (index - 1) / 2
            guard source.deadline < heap[parent].deadline else { break }
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
        while true {
            var child = 2 * index + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1].deadline < heap[child].deadline { child += 1 }
            guard heap[child].deadline < source.deadline else { break }
            place(heap[child], index)
            index = child
        }
        if index != start { place(source, index) }
    }
}
