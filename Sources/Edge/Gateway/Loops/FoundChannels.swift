import Synchronization

/// Counts the channels that all loops together have found for one list, so that each loop stops when there are too many.
final class FoundChannels: Sendable {
    private let max: Int
    private let count = Atomic<Int>(0)

    /// - Parameter max: the largest number that is not too many.
    init(max: Int) {
        self.max = max
    }

    var areTooMany: Bool { count.load(ordering: .relaxed) > max }

    /// Counts one more. Returns whether there are too many.
    func isOneTooMany() -> Bool {
        count.add(1, ordering: .relaxed).newValue > max
    }
}
