import Foundation
import Testing

/// Runs the tests of a suite on threads of their own, some at a time, for tests that wait by blocking or compute for long.
///
/// Swift's pool has a thread for each core, two on a small machine. A test that blocks keeps one of them, and what needs
/// the pool to go on, such as the verification of a token, then waits for it as long as other suites' tests block.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// Cases that run at a time: all at once would leave the pool's two threads next to nothing of two cores, and each
    /// other's clients and servers too little to keep any deadline.
    private static let gate = Gate(places: 12)

    /// Every test of the suite.
    public var isRecursive: Bool { true }

    /// Runs one case off the pool.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        await Self.gate.enter()
        defer { Self.gate.leave() }
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// See `OwnThread`.
    public static var ownThread: OwnThread { OwnThread() }
}

/// Lets in so many at a time, in the order in which they came.
///
/// An `NSLock`, for the thread sanitizer does not know Swift's own mutex.
private final class Gate: @unchecked Sendable {
    private let lock = NSLock()
    private var places: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(places: Int) {
        self.places = places
    }

    func enter() async {
        await withCheckedContinuation { continuation in
            let isIn = lock.withLock {
                guard places > 0 else {
                    waiting.append(continuation)
                    return false
                }
                places -= 1
                return true
            }
            if isIn { continuation.resume() }
        }
    }

    func leave() {
        let next = lock.withLock { () -> CheckedContinuation<Void, Never>? in
            guard waiting.isEmpty else { return waiting.removeFirst() }
            places += 1
            return nil
        }
        next?.resume()
    }
}

/// A new thread for each job.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        let thread = Thread { job.runSynchronously(on: executor) }
        // As much as a thread of the pool has.
        thread.stackSize = 8 << 20
        thread.start()
    }
}
