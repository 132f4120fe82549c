/// A table by stream: what a dictionary would be, in half its memory, for a hub has three entries for each stream of each
/// user. The entries lie next to one another, in no order that lasts; an index of four bytes for each finds them.
///
/// A place, where an entry lies, is good until an entry is removed.
public struct StreamTable<Value> {
    /// An entry.
    public struct Entry {
        /// The stream.
        public let stream: StreamID
        /// What is kept for it.
        public var value: Value

        @inlinable init(stream: StreamID, value: Value) {
            self.stream = stream
            self.value = value
        }
    }

    /// All entries.
    @inlinable public var entries: ContiguousArray<Entry> { storage }

    @usableFromInline var storage: ContiguousArray<Entry> = []
    /// Open addressing by the streams' codes, probed one after the other: 0, or the place of an entry and one. Its length
    /// is zero or a power of two, and a quarter of it is empty.
    @usableFromInline var index: ContiguousArray<UInt32> = []

    /// An empty table.
    @inlinable public init() {}

    /// How many streams have an entry.
    @inlinable public var count: Int { storage.count }
    /// Whether none has.
    @inlinable public var isEmpty: Bool { storage.isEmpty }

    // MARK: Places

    /// Where the stream's entry lies; nil where it has none.
    @inlinable public func place(of stream: StreamID) -> Int? {
        guard !index.isEmpty else { return nil }
        var slot = home(of: stream)
        while index[slot] != 0 {
            let place = Int(index[slot] &- 1)
            if storage[place].stream == stream { return place }
            slot = next(slot)
        }
        return nil
    }

    /// What is kept at a place.
    @inlinable public subscript(place: Int) -> Value {
        get { storage[place].value }
        _modify { yield &storage[place].value }
    }

    /// The stream whose entry lies at a place: the table's own reference.
    @inlinable public func stream(at place: Int) -> StreamID { storage[place].stream }

    // MARK: By stream

    /// What is kept for the stream; nil for nothing.
    @inlinable public subscript(stream: StreamID) -> Value? {
        get { place(of: stream).map { storage[$0].value } }
        set {
            if let newValue {
                if let place = place(of: stream) {
                    storage[place].value = newValue
                } else {
                    _ = insert(newValue, for: stream)
                }
            } else {
                _ = remove(stream)
            }
        }
    }

    /// Keeps a value for a stream that has none, and returns its place.
    @inlinable public mutating func insert(_ value: Value, for stream: StreamID) -> Int {
        if (storage.count &+ 1) &* 4 > index.count &* 3 { grow() }
        let place = storage.count
        storage.append(Entry(stream: stream, value: value))
        enter(place)
        return place
    }

    /// Forgets the stream, and returns what was kept for it. The last entry takes its place.
    @inlinable @discardableResult public mutating func remove(_ stream: StreamID) -> Value? {
        guard !index.isEmpty else { return nil }
        var slot = home(of: stream)
        while index[slot] != 0, storage[Int(index[slot] &- 1)].stream != stream { slot = next(slot) }
        guard index[slot] != 0 else { return nil }
        let place = Int(index[slot] &- 1)
        let last = storage.count &- 1
        if place != last {
            index[self.slot(of: last)] = UInt32(truncatingIfNeeded: place &+ 1)
            storage.swapAt(place, last)
        }
        close(slot)
        return storage.removeLast().value
    }

    // MARK: The index

    /// By all of the code's bits: whichever the streams of one table have in common, as those of one home loop have some,
    /// they crowd no slots.
    @inlinable @inline(__always) func home(of stream: StreamID) -> Int {
        Int(truncatingIfNeeded: (UInt64(stream.code) &* 0x9E37_79B9_7F4A_7C15) >> 32) & (index.count &- 1)
    }

    @inlinable @inline(__always) func next(_ slot: Int) -> Int { (slot &+ 1) & (index.count &- 1) }

    /// The slot that holds the entry at `place`.
    @inlinable func slot(of place: Int) -> Int {
        var slot = home(of: storage[place].stream)
        while index[slot] != UInt32(truncatingIfNeeded: place &+ 1) { slot = next(slot) }
        return slot
    }

    @inlinable mutating func enter(_ place: Int) {
        var slot = home(of: storage[place].stream)
        while index[slot] != 0 { slot = next(slot) }
        index[slot] = UInt32(truncatingIfNeeded: place &+ 1)
    }

    /// Empties a slot: what stands behind it and was pushed there moves up, so that no search ends too early. Entries are
    /// still where they were, but for the two that `remove` has swapped, index and all.
    @inlinable mutating func close(_ start: Int) {
        var hole = start
        var slot = next(hole)
        while index[slot] != 0 {
            let wanted = home(of: storage[Int(index[slot] &- 1)].stream)
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

extension StreamTable: Sendable where Value: Sendable {}
extension StreamTable.Entry: Sendable where Value: Sendable {}
