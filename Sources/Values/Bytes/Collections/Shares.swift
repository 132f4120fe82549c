/// How much each key has of what all share, and who has most. Each change takes the logarithm of the number of keys. Keys that
/// have nothing are not in it.
public struct Shares<Key: Hashable, Own> {
    /// A key with what it has. Belongs to its table.
    ///
    /// `@unchecked Sendable`: of one table, which is one thread's or behind a lock.
    public final class Holder: HeapEntry, @unchecked Sendable {
        /// Whose it is.
        public let key: Key
        /// What the table's owner keeps with the key.
        public var own: Own
        /// How much it has.
        @usableFromInline var amount = 0
        /// Whether there is something that it can lose.
        @usableFromInline var gives: Bool
        @usableFromInline var place = 0

        @usableFromInline init(_ key: Key, _ own: Own, gives: Bool) {
            self.key = key
            self.own = own
            self.gives = gives
        }

        /// Has more, or can lose something where the other cannot.
        @inlinable public func precedes(_ other: Holder) -> Bool {
            gives == other.gives ? amount > other.amount : gives
        }

        /// Where it stands in the table.
        @inlinable public func moved(to place: Int) { self.place = place }
    }

    @usableFromInline var holders: [Key: Holder] = [:]
    @usableFromInline var rank = Heap<Holder>()
    /// What all have together.
    @inlinable public var total: Int { totalAmount }
    @usableFromInline var totalAmount = 0

    /// Nobody has anything.
    @inlinable public init() {}

    /// Keys that have something.
    @inlinable public var count: Int { holders.count }

    /// What the key has.
    @inlinable public subscript(key: Key) -> Int { holders[key]?.amount ?? 0 }

    /// Who has most of those that can lose something.
    @inlinable public var largest: Holder? { rank.first.flatMap { $0.gives ? $0 : nil } }

    /// The largest, where all together have more than the bound; nil where it has no more than an even share of it. So no key
    /// loses anything for others while it has no more than that.
    @inlinable public func excess(beyond bound: Int) -> Holder? {
        guard total > bound, let largest, largest.amount > bound / count else { return nil }
        return largest
    }

    // MARK: Holders

    @inlinable func find(_ key: Key) -> Holder? { holders[key] }

    /// The key's holder, which has nothing yet where it is new: `add` follows.
    @inlinable mutating func holder(of key: Key, new own: @autoclosure () -> Own, gives: Bool) -> Holder {
        if let known = holders[key] { return known }
        let holder = Holder(key, own(), gives: gives)
        holders[key] = holder
        rank.insert(holder)
        return holder
    }

    /// It has so much more, or less; or whether it can lose something has changed.
    @inlinable mutating func add(_ amount: Int, to holder: Holder) {
        totalAmount += amount
        holder.amount += amount
        if holder.amount > 0 {
            rank.settle(at: holder.place)
        } else {
            holders[holder.key] = nil
            rank.remove(at: holder.place)
        }
    }
}

extension Shares where Own == Void {
    /// The key has so much more, or less; not less than nothing.
    @inlinable public mutating func add(_ amount: Int, to key: Key) {
        add(amount, to: holder(of: key, new: (), gives: true))
    }

    /// Whether the key, where it has something, can lose some of it; it can at first.
    @inlinable public mutating func set(_ key: Key, gives: Bool) {
        guard let holder = find(key), holder.gives != gives else { return }
        holder.gives = gives
        add(0, to: holder)
    }
}

extension Shares: Sendable where Key: Sendable, Own: Sendable {}
