import CLinux
import Glibc
import Synchronization

/// Wakes a loop from any thread: an eventfd, written at most once until the loop has looked.
///
/// It is watched edge-triggered and never read. Linux tells of each write to an eventfd, whether or not those before it were
/// read (`eventfd_write` wakes whoever polls; a test holds it), and the counter has room for 2^64 of them, less two.
@usableFromInline
package final class Waker: Sendable {
    package let descriptor: Int32
    private let pending = Atomic<Bool>(false)

    package init() throws(ReactorError) {
        let descriptor = cl_eventfd()
        guard descriptor >= 0 else { throw ReactorError("eventfd", errno) }
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// Wakes the loop. What was stored before this call is seen by the tick that follows.
    @usableFromInline
    package func wake() {
        // Worst interleaving: the loop clears the flag, then reads its mailboxes, while we store a message and see the
        // flag still set. `acknowledge` clears the flag before the loop reads, and both sides are sequentially
        // consistent, so either we write, or the loop's read comes after our store.
        guard !pending.exchange(true, ordering: .sequentiallyConsistent) else { return }
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// Whether the loop has been woken and has not looked.
    var isPending: Bool { pending.load(ordering: .sequentiallyConsistent) }

    /// The loop has woken and is about to look.
    func acknowledge() {
        pending.store(false, ordering: .sequentiallyConsistent)
    }
}

/// A system call that failed where it must not: which one, and how.
public struct ReactorError: Error, CustomStringConvertible {
    /// The call's name.
    public let call: String
    /// Its `errno`.
    public let code: Int32

    /// A call that failed, and how.
    public init(_ call: String, _ code: Int32) {
        self.call = call
        self.code = code
    }

    /// The call and the system's words for the error.
    public var description: String { "\(call): \(String(cString: strerror(code)))" }
}
