import Glibc

/// A value behind a lock that is held only for moves, never across a call out.
///
/// A pthread mutex, not `Synchronization.Mutex`: on Linux that is a futex inside the standard library, which the thread
/// sanitizer does not see, so it reports every access behind it as a race.
///
/// `@unchecked Sendable`: only `withLock` touches `value`, under the mutex.
public final class Locked<Value: Sendable>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var value: Value

    /// The initial value.
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
