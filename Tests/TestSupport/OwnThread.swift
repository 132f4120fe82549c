import Foundation
import Testing

/// Runs a suite's tests on threads of their own, a few at a time, for tests that block or compute for long.
///
/// Swift's pool has one thread per core: two on a small machine. A blocking test occupies one of them, and work that needs
/// the pool, such as verifying a token, then waits as long as other suites' tests block.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// Concurrent cases. All at once would starve the pool's two threads and each other's clients and servers, so no
    /// deadline could be met.
    private static let gate = Gate(permits: 12)

    /// Applies to every test of the suite.
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

/// Admits a bounded number at a time, in order of arrival.
///
/// Uses `NSLock`, since the thread sanitizer does not know Swift's own mutex.
private final class Gate: @unchecked Sendable {
    private let lock = NSLock()
    private var permits: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(permits: Int) {
        self.permits = permits
    }

    func enter() async {
        await withCheckedContinuation { continuation in
            let isIn = lock.withLock {
                guard permits > 0 else {
                    waiting.append(continuation)
                    return false
                }
                permits -= 1
                return true
            }
            if isIn { continuation.resume() }
        }
    }

    func leave() {
        let next = lock.withLock { () -> CheckedContinuation<Void, Never>? in
            guard waiting.isEmpty else { return waiting.removeFirst() }
            permits += 1
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
