import Foundation
import Testing

/// Runs the tests of a suite on threads of their own, for tests that wait by blocking.
///
/// Swift's pool has a thread for each core, two on a small machine. A test that blocks keeps one of them, and what needs
/// the pool to go on, such as the verification of a token, then waits for it as long as other suites' tests block.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// Every test of the suite.
    public var isRecursive: Bool { true }

    /// Runs one case off the pool.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// See `OwnThread`.
    public static var ownThread: OwnThread { OwnThread() }
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
