import Glibc
import Reactor
import Synchronization

/// Something that happens once, and that any thread may wait for, also beside other descriptors.
final class Latch: Sendable {
    /// Readable from the moment the latch is set, for good; never to be read from.
    let descriptor: Int32
    private let writeEnd: Int32
    private let state = Atomic<Bool>(false)

    init() {
        var ends: [Int32] = [-1, -1]
        // Made a few times in the life of a process; failing means that it has no descriptor left to begin with.
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

    /// Sets the latch; again is allowed, and nothing.
    func set() {
        guard !state.exchange(true, ordering: .acquiringAndReleasing) else { return }
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    /// Blocks the calling thread until the latch is set, or for `timeout` at most.
    ///
    /// - Returns: whether it is set.
    @discardableResult func wait(timeout: Duration? = nil) -> Bool {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        while !isSet {
            let left = deadline.map { max(.zero, $0 - ContinuousClock.now) }
            // Rounded up, so that the last turn does not spin.
            let milliseconds = left.map { Int32(clamping: Int64(($0 / .milliseconds(1)).rounded(.up))) } ?? -1
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let count = poll(&entry, 1, milliseconds)
            if count == 0 || (count < 0 && errno != EINTR) { return isSet }
        }
        return true
    }
}

/// Runs a task to its end, and blocks the calling thread meanwhile: jwt-kit's keys are actors. For the commands' main thread
/// only, which has nothing else to do; a thread of Swift's pool would wait for itself.
func atOnce<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
    let latch = Latch()
    let result = Locked<Result<Value, any Error>>(.failure(CancellationError()))
    Task.detached {
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
