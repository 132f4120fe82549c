import Glibc

/// Bounds the changes in flight: a semaphore that writers wait on and arrivals post.
// @unchecked Sendable: the pointer is set once, and semaphores are made for several threads (sem_overview(7)).
final class Window: @unchecked Sendable {
    private let semaphore: UnsafeMutablePointer<sem_t>
    /// Used only by the measuring thread.
    private nonisolated(unsafe) var size: Int

    init(size: Int) {
        self.size = size
        semaphore = .allocate(capacity: 1)
        semaphore.initialize(to: sem_t())
        sem_init(semaphore, 0, UInt32(clamping: size))
    }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    /// Resizes the window. Only while nothing is in flight.
    func resize(to newSize: Int) {
        if newSize > size { release(newSize - size) } else { reserve(size - newSize) }
        size = newSize
    }

    /// Waits until `count` more changes may be sent.
    func reserve(_ count: Int) {
        for _ in 0..<count {
            while sem_wait(semaphore) != 0, errno == EINTR {}
        }
    }

    /// A change has reached all its devices, or was never made.
    func release(_ count: Int = 1) {
        for _ in 0..<count { sem_post(semaphore) }
    }
}
