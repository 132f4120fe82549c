/// A session's subscriptions, in order of arrival. Two, as most sessions have (a user's streams), need no heap memory.
///
/// Invariant: there is a `second` only where there is a `first`, and `others` only where there is a `second`.
struct SubscriptionList: RandomAccessCollection {
    private var first: Subscription?
    private var second: Subscription?
    private var others: ContiguousArray<Subscription> = []

    var startIndex: Int { 0 }
    var endIndex: Int { first == nil ? 0 : second == nil ? 1 : 2 &+ others.count }

    subscript(position: Int) -> Subscription {
        get {
            if position == 0, let first { return first }
            if position == 1, let second { return second }
            return others[position - 2]
        }
        set {
            if position == 0, first != nil {
                first = newValue
            } else if position == 1, second != nil {
                second = newValue
            } else {
                others[position - 2] = newValue
            }
        }
    }

    /// The index of the first match. Quicker than `firstIndex`, which looks at each through the subscript.
    @inline(__always)
    func indexOfFirst(where isMeant: (borrowing Subscription) -> Bool) -> Int? {
        guard let first else { return nil }
        if isMeant(first) { return 0 }
        guard let second else { return nil }
        if isMeant(second) { return 1 }
        return others.firstIndex { isMeant($0) }.map { $0 + 2 }
    }

    mutating func append(_ subscription: Subscription) {
        if first == nil {
            first = subscription
        } else if second == nil {
            second = subscription
        } else {
            others.append(subscription)
        }
    }

    mutating func remove(at position: Int) -> Subscription {
        let removed = self[position]
        if position > 1 { return others.remove(at: position - 2) }
        if position == 0 { first = second }
        second = others.isEmpty ? nil : others.removeFirst()
        return removed
    }

    mutating func popLast() -> Subscription? {
        isEmpty ? nil : remove(at: count - 1)
    }
}
