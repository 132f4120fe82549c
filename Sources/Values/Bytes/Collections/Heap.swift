/// An element of a heap.
public protocol HeapEntry {
    /// Whether this element comes out before `other`.
    func precedes(_ other: Self) -> Bool
    /// The element now has this index.
    func moved(to index: Int)
}

extension HeapEntry {
    /// Most entries ignore it.
    @inlinable public func moved(to index: Int) {}
}

/// A binary heap: the first entry is at hand, and each change takes logarithmic time. Entries that follow their index
/// (`HeapEntry.moved`) can be removed anywhere, or moved after their order has changed.
public struct Heap<Entry: HeapEntry> {
    @usableFromInline var entries: ContiguousArray<Entry> = []

    /// An empty heap, without memory.
    @inlinable public init() {}

    /// Entries in the heap.
    @inlinable public var count: Int { entries.count }
    /// True when there are none.
    @inlinable public var isEmpty: Bool { entries.isEmpty }
    /// The entry that precedes all others; nil when empty.
    @inlinable public var first: Entry? { entries.first }

    /// The entry at an index below `count`. The order is internal.
    @inlinable public subscript(index: Int) -> Entry { entries[index] }

    /// Adds an entry.
    @inlinable public mutating func insert(_ entry: Entry) {
        entries.append(entry)
        // `rise` does not tell an entry that stays.
        entry.moved(to: entries.count &- 1)
        rise(entries.count &- 1)
    }

    /// Removes the entry that precedes all others; nil when empty.
    @inlinable public mutating func popFirst() -> Entry? {
        entries.isEmpty ? nil : remove(at: 0)
    }

    /// Removes the entry at an index.
    @inlinable @discardableResult public mutating func remove(at index: Int) -> Entry {
        let last = entries.removeLast()
        guard index < entries.count else { return last }
        let removed = entries[index]
        entries[index] = last
        last.moved(to: index)
        settle(at: index)
        return removed
    }

    /// Restores the order after the entry at an index has changed.
    @inlinable public mutating func settle(at index: Int) {
        if !rise(index) { sink(index) }
    }

    /// Removes all entries that satisfy the predicate, in linear time.
    @inlinable public mutating func removeAll(where isGone: (Entry) throws -> Bool) rethrows {
        try entries.removeAll(where: isGone)
        for index in entries.indices { entries[index].moved(to: index) }
        for index in (0..<entries.count / 2).reversed() { sink(index) }
    }

    // These work on the heap's buffer: a heap of a million has twenty levels, and each array access would check for sharing.
    // All indices are valid: a parent's is below its child's, and a child's is compared with the count.

    @inlinable @discardableResult mutating func rise(_ start: Int) -> Bool {
        entries.withUnsafeMutableBufferPointer { entries in
            var index = start
            let entry = entries[index]
            while index > 0 {
                let parent = (index &- 1) / 2
                guard entry.precedes(entries[parent]) else { break }
                entries[index] = entries[parent]
                entries[index].moved(to: index)
                index = parent
            }
            guard index != start else { return false }
            entries[index] = entry
            entry.moved(to: index)
            return true
        }
    }

    @inlinable mutating func sink(_ start: Int) {
        entries.withUnsafeMutableBufferPointer { entries in
            var index = start
            let entry = entries[index]
            while true {
                var child = 2 &* index &+ 1
                guard child < entries.count else { break }
                if child &+ 1 < entries.count, entries[child &+ 1].precedes(entries[child]) { child &+= 1 }
                guard entries[child].precedes(entry) else { break }
                entries[index] = entries[child]
                entries[index].moved(to: index)
                index = child
            }
            guard index != start else { return }
            entries[index] = entry
            entry.moved(to: index)
        }
    }
}

extension Heap: Sendable where Entry: Sendable {}
