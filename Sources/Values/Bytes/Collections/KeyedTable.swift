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
/// no stable order; a four-byte slot for each finds them.
///
/// An entry's index in that array is valid until an entry is removed.
public struct KeyedTable<Entry: TableEntry> {
    /// All entries.
    @inlinable public var entries: ContiguousArray<Entry> { storage }

    @usableFromInline var storage: ContiguousArray<Entry> = []
    /// Open addressing by the keys' codes with linear probing: 0, or an entry's index plus one. Its length is zero or a
    /// power of two, and at least a quarter is empty.
    @usableFromInline var slots: ContiguousArray<UInt32> = []

    /// An empty table.
    @inlinable public init() {}

    /// Entries in the table.
    @inlinable public var count: Int { storage.count }
    /// True when there are none.
    @inlinable public var isEmpty: Bool { storage.isEmpty }

    // MARK: Indices

    /// The index of the key's entry; nil when there is none.
    @inlinable public func index(of key: Entry.Key) -> Int? {
        guard !slots.isEmpty else { return nil }
        var slot = firstSlot(of: key)
        while slots[slot] != 0 {
            let index = Int(slots[slot] &- 1)
            if storage[index].key == key { return index }
            slot = next(slot)
        }
        return nil
    }

    /// The entry at an index. Its key must not change.
    @inlinable public subscript(index: Int) -> Entry {
        get { storage[index] }
        _modify { yield &storage[index] }
    }

    // MARK: By key

    /// The key's entry; nil when there is none.
    @inlinable public subscript(key: Entry.Key) -> Entry? { index(of: key).map { storage[$0] } }

    /// Adds an entry whose key is not in the table, and returns its index.
    @inlinable public mutating func insert(_ entry: consuming Entry) -> Int {
        if (storage.count &+ 1) &* 4 > slots.count &* 3 { grow() }
        let index = storage.count
        storage.append(entry)
        assert(self.index(of: storage[index].key) == nil, "a key has one entry")
        enter(index)
        return index
    }

    /// Removes and returns the key's entry. The last entry moves to its index.
    @inlinable @discardableResult public mutating func remove(_ key: Entry.Key) -> Entry? {
        guard !slots.isEmpty else { return nil }
        var slot = firstSlot(of: key)
        while slots[slot] != 0, storage[Int(slots[slot] &- 1)].key != key { slot = next(slot) }
        guard slots[slot] != 0 else { return nil }
        let index = Int(slots[slot] &- 1)
        let last = storage.count &- 1
        if index != last {
            slots[self.slot(of: last)] = UInt32(truncatingIfNeeded: index &+ 1)
            storage.swapAt(index, last)
        }
        close(slot)
        return storage.removeLast()
    }

    // MARK: Slots

    /// Mixes all bits of the code: keys of one table share some (those that choose the loop), but must fill all slots.
    @inlinable @inline(__always) func firstSlot(of key: Entry.Key) -> Int {
        Int(truncatingIfNeeded: (UInt64(key.code) &* 0x9E37_79B9_7F4A_7C15) >> 32) & (slots.count &- 1)
    }

    @inlinable @inline(__always) func next(_ slot: Int) -> Int { (slot &+ 1) & (slots.count &- 1) }

    @inlinable func slot(of index: Int) -> Int {
        var slot = firstSlot(of: storage[index].key)
        while slots[slot] != UInt32(truncatingIfNeeded: index &+ 1) {
            assert(slots[slot] != 0, "an entry's key has changed")
            slot = next(slot)
        }
        return slot
    }

    @inlinable mutating func enter(_ index: Int) {
        var slot = firstSlot(of: storage[index].key)
        while slots[slot] != 0 { slot = next(slot) }
        slots[slot] = UInt32(truncatingIfNeeded: index &+ 1)
    }

    /// Empties a slot and moves later entries of the probe sequence up, so that no search ends too early. All entries are
    /// still at their indices, except the two that `remove` swapped with their slots.
    @inlinable mutating func close(_ start: Int) {
        var hole = start
        var slot = next(hole)
        while slots[slot] != 0 {
            let wanted = firstSlot(of: storage[Int(slots[slot] &- 1)].key)
            // It may move to the hole unless its first slot is after the hole.
            if (slot &- wanted) & (slots.count &- 1) >= (slot &- hole) & (slots.count &- 1) {
                slots[hole] = slots[slot]
                hole = slot
            }
            slot = next(slot)
        }
        slots[hole] = 0
    }

    @inlinable mutating func grow() {
        slots = ContiguousArray(repeating: 0, count: Swift.max(8, slots.count &* 2))
        for index in storage.indices { enter(index) }
    }
}

extension KeyedTable: Sendable where Entry: Sendable {}
