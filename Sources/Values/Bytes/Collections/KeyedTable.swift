/// What a `KeyedTable` finds its entries by.
public protocol TableKey: Equatable {
    /// A keyed hash, the same for all that are equal.
    var code: UInt32 { get }
}

/// What a `KeyedTable` holds: it knows its own key, which the table so need not keep beside it.
public protocol TableEntry {
    /// What it is found by.
    associatedtype Key: TableKey
    /// What it is found by; never changes.
    var key: Key { get }
}

/// A table by key: what a dictionary would be, in half its memory, for a hub has several entries for each user.
/// The entries lie next to one another, in no order that lasts; an index of four bytes for each finds them.
///
/// A place, where an entry lies, is good until an entry is removed.
public struct KeyedTable<Entry: TableEntry> {
    /// All entries.
    @inlinable public var entries: ContiguousArray<Entry> { storage }

    @usableFromInline var storage: ContiguousArray<Entry> = []
    /// Open addressing by the keys' codes, probed one after the other: 0, or the place of an entry and one. Its length
    /// is zero or a power of two, and a quarter of it is empty.
    @usableFromInline var index: ContiguousArray<UInt32> = []

    /// An empty table.
    @inlinable public init() {}

    /// How many entries there are.
    @inlinable public var count: Int { storage.count }
    /// Whether there is none.
    @inlinable public var isEmpty: Bool { storage.isEmpty }

    // MARK: Places

    /// Where the entry of that key lies; nil where there is none.
    @inlinable public func place(of key: Entry.Key) -> Int? {
        guard !index.isEmpty else { return nil }
        var slot = home(of: key)
        while index[slot] != 0 {
            let place = Int(index[slot] &- 1)
            if storage[place].key == key { return place }
            slot = next(slot)
        }
        return nil
    }

    /// The entry at a place, whose key stays what it is.
    @inlinable public subscript(place: Int) -> Entry {
        get { storage[place] }
        _modify { yield &storage[place] }
    }

    // MARK: By key

    /// The entry of that key; nil for none.
    @inlinable public subscript(key: Entry.Key) -> Entry? { place(of: key).map { storage[$0] } }

    /// Takes in an entry whose key has none, and returns its place.
    @inlinable public mutating func insert(_ entry: consuming Entry) -> Int {
        if (storage.count &+ 1) &* 4 > index.count &* 3 { grow() }
        let place = storage.count
        storage.append(entry)
        assert(self.place(of: storage[place].key) == nil, "a key has one entry")
        enter(place)
        return place
    }

    /// Takes out the entry of that key, and returns it. The last entry takes its place.
    @inlinable @discardableResult public mutating func remove(_ key: Entry.Key) -> Entry? {
        guard !index.isEmpty else { return nil }
        var slot = home(of: key)
        while index[slot] != 0, storage[Int(index[slot] &- 1)].key != key { slot = next(slot) }
        guard index[slot] != 0 else { return nil }
        let place = Int(index[slot] &- 1)
        let last = storage.count &- 1
        if place != last {
            index[self.slot(of: last)] = UInt32(truncatingIfNeeded: place &+ 1)
            storage.swapAt(place, last)
        }
        close(slot)
        return storage.removeLast()
    }

    // MARK: The index

    /// By all of the code's bits: whichever the keys of one table have in common, as those of one home loop have some,
    /// they crowd no slots.
    @inlinable @inline(__always) func home(of key: Entry.Key) -> Int {
        Int(truncatingIfNeeded: (UInt64(key.code) &* 0x9E37_79B9_7F4A_7C15) >> 32) & (index.count &- 1)
    }

    @inlinable @inline(__always) func next(_ slot: Int) -> Int { (slot &+ 1) & (index.count &- 1) }

    /// The slot that holds the entry at `place`.
    @inlinable func slot(of place: Int) -> Int {
        var slot = home(of: storage[place].key)
        while index[slot] != UInt32(truncatingIfNeeded: place &+ 1) {
            assert(index[slot] != 0, "an entry's key has changed")
            slot = next(slot)
        }
        return slot
    }

    @inlinable mutating func enter(_ place: Int) {
        var slot = home(of: storage[place].key)
        while index[slot] != 0 { slot = next(slot) }
        index[slot] = UInt32(truncatingIfNeeded: place &+ 1)
    }

    /// Empties a slot: what stands behind it and was pushed there moves up, so that no search ends too early. Entries are
    /// still where they were, but for the two that `remove` has swapped, index and all.
    @inlinable mutating func close(_ start: Int) {
        var hole = start
        var slot = next(hole)
        while index[slot] != 0 {
            let wanted = home(of: storage[Int(index[slot] &- 1)].key)
            // It may move to the hole unless its home lies behind that.
            if (slot &- wanted) & (index.count &- 1) >= (slot &- hole) & (index.count &- 1) {
                index[hole] = index[slot]
                hole = slot
            }
            slot = next(slot)
        }
        index[hole] = 0
    }

    @inlinable mutating func grow() {
        index = ContiguousArray(repeating: 0, count: Swift.max(8, index.count &* 2))
        for place in storage.indices { enter(place) }
    }
}

extension KeyedTable: Sendable where Entry: Sendable {}
