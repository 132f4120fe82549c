import Synchronization

/// A count over all loops, with a bound. Any thread; takes no lock.
package final class BoundedCount: Sendable {
    private let value = Atomic<Int>(0)

    /// Starts at zero.
    package init() {}

    /// How many are counted in now. Other threads may change it at any time.
    package var count: Int { value.load(ordering: .relaxed) }

    /// Counts one in. Returns the new count; nil, without counting, where there are `most` already. No `most`: no bound.
    package func enter(most: Int?) -> Int? {
        guard let most else { return value.add(1, ordering: .relaxed).newValue }
        var seen = count
        while seen < most {
            let result = value.compareExchange(expected: seen, desired: seen + 1, ordering: .relaxed)
            if result.exchanged { return seen + 1 }
            seen = result.original
        }
        return nil
    }

    /// Counts one out. Returns how many are left.
    @discardableResult
    package func leave() -> Int { value.subtract(1, ordering: .relaxed).newValue }
}
