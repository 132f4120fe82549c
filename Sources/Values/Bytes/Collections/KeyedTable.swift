/// A key of a `KeyedTable`.
public protocol TableKey: Equatable {
    /// A keyed hash; equal keys have equal codes.
    var code: UInt32 { get }
}

/// An entry of a `KeyedTable`. It contains its key, so the table need not store it twice.
public protocol TableEntry {
    /// The key's type.
    associatedtype Key: TableKey
    /// The key; it never changes.
    var key: Key { get }
}

/// A table by key in half the memory of a dictionary: a hub has several entries for each user. Entries lie in one array in
/// no stable order; a four-byte index for each finds them.
///
/// An entry's place, its index in that array, is valid until an entry is removed.
public struct KeyedTable<Entry: TableEntry> {
    /// All entries.
    @inlinable public var entries: ContiguousArray<Entry> { storage }

    @usableFromInline var storage: ContiguousArray<Entry> = []
    /// Open addressing by the keys' codes with linear probing: 0, or an entry's place plus one. Its length is zero or a
    /// power of two, and at least a quarter is empty.
    @usableFromInline var index: ContiguousArray<UInt32> = []

    /// An empty table.
    @inlinable public init() {}

    /// Entries in the table.
    @inlinable public var count: Int { storage.count }
    /// True when there are none.
    @inlinable public var isEmpty: Bool { storage.isEmpty }

    // MARK: Places

    /// The place of the key's entry; nil when there is none.
    @inlinable public func place(of key: Entry.Key) -> Int? {
        guard !index.isEmpty else { return nil }
        var slot = firstSlot(of: key)
        while index[slot] != 0 {
            let place = Int(index[slot] &- 1)
            if storage[place].key == key { return place }
            slot = next(slot)
        }
        return nil
    }

    /// The entry at a place. Its key must not change.
    @inlinable public subscript(place: Int) -> Entry {
        get { storage[place] }
        _modify { yield &storage[place] }
    }

    // MARK: By key

    /// The key's entry; nil when there is none.
    @inlinable public subscript(key: Entry.Key) -> Entry? { place(of: key).map { storage[$0] } }

    /// Adds an entry whose key is not in the table, and returns its place.
    @inlinable public mutating func insert(_ entry: consuming Entry) -> Int {
        if (storage.count &+ 1) &* 4 > index.count &* 3 { grow() }
        let place = storage.count
        storage.append(entry)
        assert(self.place(of: storage[place].key) == nil, "a key has one entry")
        enter(place)
        return place
    }

    /// Removes and returns the key's entry. The last entry moves to its place.
    @inlinable @discardableResult public mutating func remove(_ key: Entry.Key) -> Entry? {
        guard !index.isEmpty else { return nil }
        var slot = firstSlot(of: key)
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

    /// Mixes all bits of the code: keys of one table share some (those that choose the loop), but must fill all slots.
    @inlinable @inline(__always) func firstSlot(of key: Entry.Key) -> Int {
        Int(truncatingIfNeeded: (UInt64(key.code) &* 0x9E37_79B9_7F4A_7C15) >> 32) & (index.count &- 1)
    }

    @inlinable @inline(__always) func next(_ slot: Int) -> Int { (slot &+ 1) & (index.count &- 1) }

    @inlinable func slot(of place: Int) -> Int {
        var slot = firstSlot(of: storage[place].key)
        while index[slot] != UInt32(truncatingIfNeeded: place &+ 1) {
            assert(index[slot] != 0, "an entry's key has changed")
            slot = next(slot)
        }
        return slot
    }

    @inlinable mutating func enter(_ place: Int) {
        var slot = firstSlot(of: storage[place].key)
        while index[slot] != 0 { slot = next(slot) }
        index[slot] = UInt32(truncatingIfNeeded: place &+ 1)
    }

    /// Empties a slot and moves later entries of the probe sequence up, so that no search ends too early. All entries are
    /// still at their places, except the two that `remove` swapped with their slots.
    @inlinable mutating func close(_ start: Int) {
        var hole = start
        var slot = next(hole)
        while index[slot] != 0 {
            let wanted = firstSlot(of: storage[Int(index[slot] &- 1)].key)
            // It may move to the hole unless its first slot is after the hole.
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
