import Synchronization

/// How many there are of something, on all loops together, and no more than a bound. Any thread; nothing waits.
package final class BoundedCount: Sendable {
    private let value = Atomic<Int>(0)

    package init() {}

    package var count: Int { value.load(ordering: .relaxed) }

    /// Counts one in. How many there are with it; nil, and nothing is counted, where there are `most` already.
    ///
    /// - Parameter most: nil: there is no bound.
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

    /// One that was counted in is gone: how many are left.
    @discardableResult
    package func leave() -> Int { value.subtract(1, ordering: .relaxed).newValue }
}
