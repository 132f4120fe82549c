/// Elements of several keys in the order in which they came, whose sizes are bounded for all together. Beyond the bound the key
/// that has most loses its oldest, and no key loses any for others while it has no more than an even share (`Shares`).
///
/// What is gone before its turn is not looked for: `leave` counts it out, and its place stands for nothing. Whatever takes a place
/// out sees to that, and `sweep` drops such places of a key where most are such.
///
/// Invariant: a key with places is in `ages`, once.
public struct SharedOrder<Key: Hashable, Element> {
    @usableFromInline typealias Holder = Shares<Key, Line>.Holder

    @usableFromInline struct Line {
        @usableFromInline var places = Fifo<(number: UInt64, element: Element)>()
        /// Those that stand for something.
        @usableFromInline var count = 0
        /// The number of its first place, and where it is in `ages`.
        @usableFromInline var oldest: UInt64 = 0
        @usableFromInline var age = 0

        @usableFromInline init() {}
    }

    /// A key that has places, the one with the oldest first.
    @usableFromInline struct Aged: HeapEntry {
        @usableFromInline let holder: Holder

        @usableFromInline init(_ holder: Holder) { self.holder = holder }

        @inlinable func precedes(_ other: Aged) -> Bool { holder.own.oldest < other.holder.own.oldest }
        @inlinable func moved(to place: Int) { holder.own.age = place }
    }

    @usableFromInline let bound: Int
    @usableFromInline let spared: Int
    @usableFromInline var shares = Shares<Key, Line>()
    @usableFromInline var ages = Heap<Aged>()
    @usableFromInline var lastNumber: UInt64 = 0

    /// Places of a key for which nothing is swept, beyond twice as many as it has elements.
    @usableFromInline static var slack: Int { 64 }

    /// - Parameters:
    ///   - bound: of all sizes together.
    ///   - spared: elements that a key keeps in any case, its last ones.
    @inlinable public init(bound: Int, spared: Int = 0) {
        self.bound = bound
        self.spared = spared
    }

    /// The sizes of all, and what is held of the bound besides.
    @inlinable public var total: Int { shares.total }
    /// The oldest place of all.
    @inlinable public var first: Element? { ages.first?.holder.own.places.first?.element }
    /// Places of all keys, those that stand for nothing included; in linear time.
    public var placeCount: Int { shares.holders.values.reduce(0) { $0 + $1.own.places.count } }

    /// Puts one behind all others. The key has something from then on, by its size or by what it holds.
    @inlinable public mutating func append(_ element: Element, of key: Key, size: Int = 1) {
        let holder = shares.holder(of: key, new: Line(), gives: false)
        lastNumber &+= 1
        holder.own.places.append((lastNumber, element))
        holder.own.count += 1
        if holder.own.places.count == 1 {
            holder.own.oldest = lastNumber
            ages.insert(Aged(holder))
        }
        settle(holder, by: size)
    }

    /// One of the key's is gone; its place stays.
    @inlinable public mutating func leave(of key: Key, size: Int = 1) {
        guard let holder = shares.find(key) else { return }
        holder.own.count -= 1
        settle(holder, by: -size)
    }

    /// The key holds so much more of the bound, or less, without an element.
    @inlinable public mutating func hold(_ size: Int, of key: Key) {
        settle(shares.holder(of: key, new: Line(), gives: false), by: size)
    }

    /// Takes out the oldest place of all, if its time is over.
    @inlinable public mutating func popFirst(if isOver: (Element) -> Bool) -> Element? {
        guard let oldest = ages.first, let first = oldest.holder.own.places.first?.element, isOver(first) else {
            return nil
        }
        return pop(oldest.holder)
    }

    /// Takes out the oldest place of the key's.
    @inlinable public mutating func popFirst(of key: Key) -> Element? { shares.find(key).flatMap { pop($0) } }

    /// Takes out the place whose turn it is to go, for there is too much; nil where there is not, or nobody has more than an even
    /// share that can lose something.
    @inlinable public mutating func popExcess() -> Element? { shares.excess(beyond: bound).flatMap { pop($0) } }

    /// Drops the key's places that stand for nothing, where most are such.
    @inlinable public mutating func sweep(of key: Key, keeping stands: (Element) -> Bool) {
        guard let holder = shares.find(key), holder.own.places.needsSweep(live: holder.own.count, slack: Self.slack)
        else { return }
        holder.own.places.sweep { stands($0.element) }
        firstHasGone(holder)
    }

    @inlinable mutating func pop(_ holder: Holder) -> Element? {
        guard let (_, element) = holder.own.places.popFirst() else { return nil }
        firstHasGone(holder)
        return element
    }

    @inlinable mutating func firstHasGone(_ holder: Holder) {
        if let first = holder.own.places.first {
            holder.own.oldest = first.number
            ages.settle(at: holder.own.age)
        } else {
            ages.remove(at: holder.own.age)
            settle(holder, by: 0)
        }
    }

    /// What the key has is another, or whether it can lose something.
    @inlinable mutating func settle(_ holder: Holder, by size: Int) {
        if holder.amount + size <= 0, !holder.own.places.isEmpty {
            ages.remove(at: holder.own.age)
            holder.own.places.removeAll()
        }
        holder.gives = holder.own.count > spared && !holder.own.places.isEmpty
        shares.add(size, to: holder)
    }
}

extension SharedOrder.Line: Sendable where Element: Sendable {}
extension SharedOrder.Aged: Sendable where Key: Sendable, Element: Sendable {}
extension SharedOrder: Sendable where Key: Sendable, Element: Sendable {}
