/// The amount that each key holds of a shared resource, and the key that holds most. Each change takes logarithmic time in
/// the number of keys. A key that holds nothing is not stored.
public struct Shares<Key: Hashable, Own> {
    /// A key and its amount. Belongs to its table.
    ///
    /// `@unchecked Sendable`: belongs to one table, which is confined to a thread or guarded by a lock.
    public final class Holder: HeapEntry, @unchecked Sendable {
        /// The key.
        public let key: Key
        /// Data that the table's owner stores with the key.
        public var own: Own
        /// The amount that it holds.
        @usableFromInline var amount = 0
        /// Whether it can lose something.
        @usableFromInline var gives: Bool
        @usableFromInline var index = 0

        @usableFromInline init(_ key: Key, _ own: Own, gives: Bool) {
            self.key = key
            self.own = own
            self.gives = gives
        }

        /// Holders that can lose something come first; then those with a larger amount.
        @inlinable public func precedes(_ other: Holder) -> Bool {
            gives == other.gives ? amount > other.amount : gives
        }

        /// Its index in the heap.
        @inlinable public func moved(to index: Int) { self.index = index }
    }

    @usableFromInline var holders: [Key: Holder] = [:]
    @usableFromInline var rank = Heap<Holder>()
    /// The sum of all amounts.
    @inlinable public var total: Int { totalAmount }
    @usableFromInline var totalAmount = 0

    /// An empty table.
    @inlinable public init() {}

    /// Keys that hold something.
    @inlinable public var count: Int { holders.count }

    /// The amount that the key holds.
    @inlinable public subscript(key: Key) -> Int { holders[key]?.amount ?? 0 }

    /// The holder with the largest amount among those that can lose something.
    @inlinable public var largest: Holder? { rank.first.flatMap { $0.gives ? $0 : nil } }

    /// The largest holder if the total exceeds the bound; nil if it holds no more than an even share of the bound. So a key
    /// with at most an even share loses nothing for others.
    @inlinable public func excess(beyond bound: Int) -> Holder? {
        guard total > bound, let largest, largest.amount > bound / count else { return nil }
        return largest
    }

    // MARK: Holders

    @inlinable func find(_ key: Key) -> Holder? { holders[key] }

    /// The key's holder. A new one holds nothing yet; the caller must call `add` next.
    @inlinable mutating func holder(of key: Key, new own: @autoclosure () -> Own, gives: Bool) -> Holder {
        if let known = holders[key] { return known }
        let holder = Holder(key, own(), gives: gives)
        holders[key] = holder
        rank.insert(holder)
        return holder
    }

    /// Changes the holder's amount, or restores the order after `gives` has changed.
    @inlinable mutating func add(_ amount: Int, to holder: Holder) {
        totalAmount += amount
        holder.amount += amount
        if holder.amount > 0 {
            rank.settle(at: holder.index)
        } else {
            holders[holder.key] = nil
            rank.remove(at: holder.index)
        }
    }
}

extension Shares where Own == Void {
    /// Changes the key's amount, which must not become negative.
    @inlinable public mutating func add(_ amount: Int, to key: Key) {
        add(amount, to: holder(of: key, new: (), gives: true))
    }

    /// Sets whether the key can lose something, if it holds anything. Initially it can.
    @inlinable public mutating func set(_ key: Key, gives: Bool) {
        guard let holder = find(key), holder.gives != gives else { return }
        holder.gives = gives
        add(0, to: holder)
    }
}

extension Shares: Sendable where Key: Sendable, Own: Sendable {}
