import Clock
import Glibc
import Reactor
import Synchronization

/// A one-time event that any thread may wait for, also together with other descriptors.
final class Latch: Sendable {
    /// Becomes readable when the latch is set, and stays so. Never read from it.
    let descriptor: Int32
    private let writeEnd: Int32
    private let state = Atomic<Bool>(false)

    init() {
        var ends: [Int32] = [-1, -1]
        // Made a few times in a process: failure means that no descriptors were left at the start.
        precondition(pipe(&ends) == 0, "no descriptor left for a latch")
        descriptor = ends[0]
        writeEnd = ends[1]
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    }

    deinit {
        close(descriptor)
        close(writeEnd)
    }

    var isSet: Bool { state.load(ordering: .acquiring) }

    /// Sets the latch. Further calls have no effect.
    func set() {
        guard !state.exchange(true, ordering: .acquiringAndReleasing) else { return }
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    /// Blocks the calling thread until the latch is set, or until `timeout`.
    ///
    /// - Returns: whether it is set.
    @discardableResult func wait(timeout: Duration? = nil) -> Bool {
        let deadline = timeout.map { Instant.read().advanced(by: $0) }
        while !isSet {
            let left = deadline.map { $0.duration(since: .read()) }
            let milliseconds = left.map { Int32(clamping: $0.millisecondsRoundedUp) } ?? -1
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let count = poll(&entry, 1, milliseconds)
            if count == 0 || (count < 0 && errno != EINTR) { return isSet }
        }
        return true
    }
}

/// Runs an async task and blocks the calling thread until it ends: jwt-kit's keys are actors. Only for the commands' main
/// thread: a thread of Swift's pool would wait for itself.
func atOnce<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
    let latch = Latch()
    let result = Locked<Result<Value, any Error>>(.failure(CancellationError()))
    // Of a higher priority, libdispatch would complain that an ordinary user may not have it.
    Task.detached(priority: .medium) {
        defer { latch.set() }
        do {
            let value = try await work()
            result.withLock { $0 = .success(value) }
        } catch {
            result.withLock { $0 = .failure(error) }
        }
    }
    latch.wait()
    return try result.withLock { $0 }.get()
}
