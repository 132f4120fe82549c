import Synchronization

/// The end of all of a user's connections, on its way over the loops.
final class Termination: Sendable {
    private let left: Atomic<Int>
    private let answer: @Sendable () -> Void

    /// - Parameter answer: called when as many loops as `loops` have said that they are done; on any thread.
    init(loops: Int, _ answer: @escaping @Sendable () -> Void) {
        left = Atomic(loops)
        self.answer = answer
    }

    /// One loop has closed its connections of the user.
    func done() {
        if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { answer() }
    }
}
