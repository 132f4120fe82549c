import Clock

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
        Self.deadline(heap[index])
    }

    private mutating func place(_ source: Unmanaged<EventSource>, _ index: Int) {
        heap.withUnsafeMutableBufferPointer { Self.place(source, index, in: $0) }
    }

    // Over the heap's memory, for a step down a heap of a million is taken twenty times, and each would ask whether the heap
    // is shared. All indices are of elements: a parent's is below its child's, and a child's is compared with the count.

    private mutating func siftUp(_ start: Int) -> Bool {
        heap.withUnsafeMutableBufferPointer { heap in
            var index = start
            let source = heap[index]
            let time = Self.deadline(source)
            while index > 0 {
                let parent = (index &- 1) / 2
                guard time < Self.deadline(heap[parent]) else { break }
                Self.place(heap[parent], index, in: heap)
                index = parent
            }
            guard index != start else { return false }
            Self.place(source, index, in: heap)
            return true
        }
    }

    private mutating func siftDown(_ start: Int) {
        heap.withUnsafeMutableBufferPointer { heap in
            var index = start
            let source = heap[index]
            let time = Self.deadline(source)
            while true {
                var child = 2 &* index &+ 1
                guard child < heap.count else { break }
                var earliest = Self.deadline(heap[child])
                if child &+ 1 < heap.count {
                    let other = Self.deadline(heap[child &+ 1])
                    if other < earliest { (child, earliest) = (child &+ 1, other) }
                }
                guard earliest < time else { break }
                Self.place(heap[child], index, in: heap)
                index = child
            }
            if index != start { Self.place(source, index, in: heap) }
        }
    }

    private static func deadline(_ source: Unmanaged<EventSource>) -> Instant {
        source._withUnsafeGuaranteedRef { $0.deadline }
    }

    private static func place(
        _ source: Unmanaged<EventSource>, _ index: Int, in heap: UnsafeMutableBufferPointer<Unmanaged<EventSource>>
    ) {
        heap[index] = source
        source._withUnsafeGuaranteedRef { $0.deadlineIndex = Int32(truncatingIfNeeded: index) }
    }
}
