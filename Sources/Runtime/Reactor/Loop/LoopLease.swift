import Glibc

/// Lets another loop's thread handle a loop's mail while the loop waits in the kernel. A wake-up costs three system calls
/// and the scheduler, and moves the data to another core's caches; this costs a lock.
///
/// The loop's own thread holds the lock except while it waits. A sender to a waiting loop only tries it, or wakes the loop.
///
/// Worst interleavings, each with its test in `LoopLeaseTests`:
/// - Something becomes ready while another thread handles the mail. The loop's own thread waits for the lock, and no other
///   thread takes it before.
/// - Another sender has the lock, and took the mail out before this message was posted. The loop is woken.
/// - The mail may take long. The loop is woken to handle it (`Mailbox.post`).
/// - The mail sets a deadline earlier than the time until which the loop sleeps. The loop is woken.
/// - The mail has much to write. The loop is woken to write it, and the thread that took the mail is not held up. Sources
///   that were removed live until then, and no other thread takes more mail before.
/// - Two loops have mail for each other. Neither waits for the other's lock.
///
/// `@unchecked Sendable`: `loop` is touched only under the mutex.
package final class LoopLease: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var loop: Unmanaged<EventLoop>?

    init() {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    // MARK: The loop's own thread

    /// The calling thread is the loop's, until `end`.
    func begin() { pthread_mutex_lock(mutex) }

    func end() { pthread_mutex_unlock(mutex) }

    /// The loop is about to wait; call `takeBack` next.
    func lend(_ loop: EventLoop) {
        self.loop = .passUnretained(loop)
        pthread_mutex_unlock(mutex)
    }

    func takeBack() {
        pthread_mutex_lock(mutex)
        loop = nil
    }

    // MARK: Other threads

    /// Handles the loop's mail, if the loop waits and no other thread handles it. False where the loop has to be woken.
    func doMail() -> Bool {
        guard pthread_mutex_trylock(mutex) == 0 else { return false }
        defer { pthread_mutex_unlock(mutex) }
        guard let loop else { return false }
        return loop._withUnsafeGuaranteedRef { $0.mailTick() }
    }
}
