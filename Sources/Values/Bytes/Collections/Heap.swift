/// What stands in a heap.
public protocol HeapEntry {
    /// Whether this one comes out before the other.
    func precedes(_ other: Self) -> Bool
    /// It stands at that place from now on.
    func moved(to place: Int)
}

extension HeapEntry {
    /// Most do not want to know.
    @inlinable public func moved(to place: Int) {}
}

/// A binary heap: the entry that precedes all others is at hand, and each change takes the logarithm of their number. Entries
/// that are told their places (`HeapEntry.moved`) can be taken out, or moved when their order has changed, wherever they are.
public struct Heap<Entry: HeapEntry> {
    @usableFromInline var entries: ContiguousArray<Entry> = []

    /// An empty heap, without memory.
    @inlinable public init() {}

    /// How many entries there are.
    @inlinable public var count: Int { entries.count }
    /// Whether there is none.
    @inlinable public var isEmpty: Bool { entries.isEmpty }
    /// The one that precedes all others; nil for none.
    @inlinable public var first: Entry? { entries.first }

    /// The entry at a place below `count`, in an order that means nothing else.
    @inlinable public subscript(place: Int) -> Entry { entries[place] }

    /// Puts one in.
    @inlinable public mutating func insert(_ entry: Entry) {
        entries.append(entry)
        // It may stay where it is.
        entry.moved(to: entries.count &- 1)
        rise(entries.count &- 1)
    }

    /// Takes out the one that precedes all others; nil for none.
    @inlinable public mutating func popFirst() -> Entry? {
        entries.isEmpty ? nil : remove(at: 0)
    }

    /// Takes out the entry at that place.
    @inlinable @discardableResult public mutating func remove(at place: Int) -> Entry {
        let last = entries.removeLast()
        guard place < entries.count else { return last }
        let removed = entries[place]
        entries[place] = last
        last.moved(to: place)
        settle(at: place)
        return removed
    }

    /// The order of the entry at that place has changed.
    @inlinable public mutating func settle(at place: Int) {
        if !rise(place) { sink(place) }
    }

    /// Takes out all of which that is true, in linear time.
    @inlinable public mutating func removeAll(where isGone: (Entry) throws -> Bool) rethrows {
        try entries.removeAll(where: isGone)
        for place in entries.indices { entries[place].moved(to: place) }
        for place in (0..<entries.count / 2).reversed() { sink(place) }
    }

    // Over the heap's memory, for a step down a heap of a million is taken twenty times, and each would ask whether the heap
    // is shared. All places are of entries: a parent's is below its child's, and a child's is compared with the count.

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
