import Synchronization

/// How many channels all loops together have found for one list, so that each stops when they are too many.
final class FoundChannels: Sendable {
    private let max: Int
    private let count = Atomic<Int>(0)

    /// - Parameter max: as many are not too many.
    init(max: Int) {
        self.max = max
    }

    /// No more are wanted.
    var areTooMany: Bool { count.load(ordering: .relaxed) > max }

    /// One more was found. Whether they are too many.
    func isOneTooMany() -> Bool {
        count.add(1, ordering: .relaxed).newValue > max
    }
}
