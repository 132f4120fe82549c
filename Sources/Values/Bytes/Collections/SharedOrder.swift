/// Elements of several keys in order of arrival, with one bound on their total size. Beyond the bound, the key that holds
/// most loses its oldest element. A key with at most an even share loses nothing for others (`Shares`).
///
/// An element that ends early is not searched for: `leave` only subtracts it, and its slot becomes stale. Callers ignore a
/// stale element that they pop, and `sweep` removes a key's stale slots once they are the majority.
///
/// Invariant: each key with slots is in `ages` exactly once.
public struct SharedOrder<Key: Hashable, Element> {
    @usableFromInline typealias Holder = Shares<Key, Line>.Holder

    @usableFromInline struct Line {
        @usableFromInline var slots = Fifo<(number: UInt64, element: Element)>()
        /// Slots that are not stale.
        @usableFromInline var count = 0
        /// The number of its first slot, and its index in `ages`.
        @usableFromInline var oldest: UInt64 = 0
        @usableFromInline var age = 0

        @usableFromInline init() {}
    }

    /// A key with slots; the key with the oldest slot comes first.
    @usableFromInline struct Aged: HeapEntry {
        @usableFromInline let holder: Holder

        @usableFromInline init(_ holder: Holder) { self.holder = holder }

        @inlinable func precedes(_ other: Aged) -> Bool { holder.own.oldest < other.holder.own.oldest }
        @inlinable func moved(to index: Int) { holder.own.age = index }
    }

    @usableFromInline let bound: Int
    @usableFromInline let spared: Int
    @usableFromInline var shares = Shares<Key, Line>()
    @usableFromInline var ages = Heap<Aged>()
    @usableFromInline var lastNumber: UInt64 = 0

    /// A key's slots are swept only above twice its elements plus this.
    @usableFromInline static var slack: Int { 64 }

    /// - Parameters:
    ///   - bound: of the total size.
    ///   - spared: the number of last elements that a key never loses.
    @inlinable public init(bound: Int, spared: Int = 0) {
        self.bound = bound
        self.spared = spared
    }

    /// The total size, including amounts held without an element.
    @inlinable public var total: Int { shares.total }
    /// The oldest slot's element.
    @inlinable public var first: Element? { ages.first?.holder.own.slots.first?.element }
    /// Slots of all keys, including stale ones; takes linear time.
    public var slotCount: Int { shares.holders.values.reduce(0) { $0 + $1.own.slots.count } }

    /// Appends an element. Afterwards the key must hold something, by `size` or by `hold`.
    @inlinable public mutating func append(_ element: Element, of key: Key, size: Int = 1) {
        let holder = shares.holder(of: key, new: Line(), gives: false)
        lastNumber &+= 1
        holder.own.slots.append((lastNumber, element))
        holder.own.count += 1
        if holder.own.slots.count == 1 {
            holder.own.oldest = lastNumber
            ages.insert(Aged(holder))
        }
        settle(holder, by: size)
    }

    /// Subtracts one element of the key; its slot becomes stale.
    @inlinable public mutating func leave(of key: Key, size: Int = 1) {
        guard let holder = shares.find(key) else { return }
        holder.own.count -= 1
        settle(holder, by: -size)
    }

    /// Changes the amount that the key holds without an element.
    @inlinable public mutating func hold(_ size: Int, of key: Key) {
        settle(shares.holder(of: key, new: Line(), gives: false), by: size)
    }

    /// Removes the oldest slot if its element is over.
    @inlinable public mutating func popFirst(if isOver: (Element) -> Bool) -> Element? {
        guard let oldest = ages.first, let first = oldest.holder.own.slots.first?.element, isOver(first) else {
            return nil
        }
        return pop(oldest.holder)
    }

    /// Removes the key's oldest slot.
    @inlinable public mutating func popFirst(of key: Key) -> Element? { shares.find(key).flatMap { pop($0) } }

    /// Removes the next slot to evict; nil if the total is within the bound, or no key above an even share can lose
    /// something.
    @inlinable public mutating func popExcess() -> Element? { shares.excess(beyond: bound).flatMap { pop($0) } }

    /// Removes the key's stale slots if they are the majority.
    @inlinable public mutating func sweep(of key: Key, keeping stands: (Element) -> Bool) {
        guard let holder = shares.find(key), holder.own.slots.needsSweep(live: holder.own.count, slack: Self.slack)
        else { return }
        holder.own.slots.sweep { stands($0.element) }
        firstHasGone(holder)
    }

    @inlinable mutating func pop(_ holder: Holder) -> Element? {
        guard let (_, element) = holder.own.slots.popFirst() else { return nil }
        firstHasGone(holder)
        return element
    }

    @inlinable mutating func firstHasGone(_ holder: Holder) {
        if let first = holder.own.slots.first {
            holder.own.oldest = first.number
            ages.settle(at: holder.own.age)
        } else {
            ages.remove(at: holder.own.age)
            settle(holder, by: 0)
        }
    }

    /// Changes the holder's amount, and whether it can lose something.
    @inlinable mutating func settle(_ holder: Holder, by size: Int) {
        if holder.amount + size <= 0, !holder.own.slots.isEmpty {
            ages.remove(at: holder.own.age)
            holder.own.slots.removeAll()
        }
        holder.gives = holder.own.count > spared && !holder.own.slots.isEmpty
        shares.add(size, to: holder)
    }
}

extension SharedOrder.Line: Sendable where Element: Sendable {}
extension SharedOrder.Aged: Sendable where Key: Sendable, Element: Sendable {}
extension SharedOrder: Sendable where Key: Sendable, Element: Sendable {}
