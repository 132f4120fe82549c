import Glibc

/// Lets the thread of another loop do a loop's mail while the loop waits in the kernel. A wake-up costs three system calls and
/// the scheduler, and moves what the mail is about to another core's caches; this costs a lock.
///
/// The loop's own thread holds the lock but for the time for which it waits. Who has mail for a loop that waits only tries to
/// get it, and where it does not, wakes the loop.
///
/// Worst interleavings, each with its test in `LoopLeaseTests`:
/// - something becomes ready while another thread does the mail: the loop's own thread waits for the lock;
/// - the lock is another's, who has taken the mail out before this message was posted: the loop is woken;
/// - the mail may take long: the loop is woken to do it (`Mailbox.post`);
/// - the mail sets a deadline earlier than the one to which the loop sleeps: the loop is woken;
/// - the mail has much to write: the loop is woken to write it, and the thread that took the mail is not held up. The sources that
///   were removed live until then, and no other thread takes more mail before;
/// - two loops have mail for each other: neither waits for the other's lock.
///
/// `@unchecked Sendable`: `loop` is touched under the mutex alone.
package final class LoopLease: @unchecked Sendable {
    // A pthread mutex, as of `Locked`.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    /// The loop, while it waits.
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

    /// The loop is about to wait; `takeBack` follows.
    func lend(_ loop: EventLoop) {
        self.loop = .passUnretained(loop)
        pthread_mutex_unlock(mutex)
    }

    func takeBack() {
        pthread_mutex_lock(mutex)
        loop = nil
    }

    // MARK: Others

    /// Does the loop's mail, if the loop waits and nobody else does it. Where it is false, the loop has to be woken.
    func doMail() -> Bool {
        guard pthread_mutex_trylock(mutex) == 0 else { return false }
        defer { pthread_mutex_unlock(mutex) }
        guard let loop else { return false }
        return loop._withUnsafeGuaranteedRef { $0.mailTick() }
    }
}
