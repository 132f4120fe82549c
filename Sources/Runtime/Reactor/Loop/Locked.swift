import Glibc

/// A value behind a lock, held for moves only and never across a call out.
///
/// A pthread mutex, and not `Synchronization.Mutex`: on Linux that one is a futex inside the standard library, which
/// the thread sanitizer does not see, so that it reports every access behind it as a race.
///
/// `@unchecked Sendable`: `value` is touched by `withLock` alone, under the mutex.
public final class Locked<Value: Sendable>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var value: Value

    /// The value as it is at first.
    public init(_ value: Value) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        self.value = value
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Calls `body` with the value while no other thread has it.
    @inlinable
    public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }
}
