/// An element of a heap.
public protocol HeapEntry {
    /// Whether this element comes out before `other`.
    func precedes(_ other: Self) -> Bool
    /// The element now has this index.
    func moved(to place: Int)
}

extension HeapEntry {
    /// Most entries ignore it.
    @inlinable public func moved(to place: Int) {}
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
    @inlinable public subscript(place: Int) -> Entry { entries[place] }

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
    @inlinable @discardableResult public mutating func remove(at place: Int) -> Entry {
        let last = entries.removeLast()
        guard place < entries.count else { return last }
        let removed = entries[place]
        entries[place] = last
        last.moved(to: place)
        settle(at: place)
        return removed
    }

    /// Restores the order after the entry at an index has changed.
    @inlinable public mutating func settle(at place: Int) {
        if !rise(place) { sink(place) }
    }

    /// Removes all entries that satisfy the predicate, in linear time.
    @inlinable public mutating func removeAll(where isGone: (Entry) throws -> Bool) rethrows {
        try entries.removeAll(where: isGone)
        for place in entries.indices { entries[place].moved(to: place) }
        for place in (0..<entries.count / 2).reversed() { sink(place) }
    }

    // These work on the heap's buffer: a heap of a million has twenty levels, and each array access would check for sharing.
    // All indices are valid: a parent's is below its child's, and a child's is compared with the count.

    @inlinable @discardableResult mutating func rise(_ start: Int) -> Bool {
        entries.withUnsafeMutableBufferPointer { entries in
            var place = start
            let entry = entries[place]
            while place > 0 {
                let parent = (place &- 1) / 2
                guard entry.precedes(entries[parent]) else { break }
                entries[place] = entries[parent]
                entries[place].moved(to: place)
                place = parent
            }
            guard place != start else { return false }
            entries[place] = entry
            entry.moved(to: place)
            return true
        }
    }

    @inlinable mutating func sink(_ start: Int) {
        entries.withUnsafeMutableBufferPointer { entries in
            var place = start
            let entry = entries[place]
            while true {
                var child = 2 &* place &+ 1
                guard child < entries.count else { break }
                if child &+ 1 < entries.count, entries[child &+ 1].precedes(entries[child]) { child &+= 1 }
                guard entries[child].precedes(entry) else { break }
                entries[place] = entries[child]
                entries[place].moved(to: place)
                place = child
            }
            guard place != start else { return }
            entries[place] = entry
            entry.moved(to: place)
        }
    }
}

extension Heap: Sendable where Entry: Sendable {}
