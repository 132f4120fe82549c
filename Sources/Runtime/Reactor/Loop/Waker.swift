import CLinux
import Glibc
import Synchronization

/// Wakes a loop from any thread: an eventfd, written only while the loop waits, and once until it has looked. A running loop
/// looks before it waits, so what it posts to itself, and what others post while it is busy, costs no system call.
///
/// It is watched edge-triggered and never read. Linux reports each write to an eventfd, whether or not earlier ones were
/// read (`eventfd_write` wakes pollers; tested), and the counter has room for 2^64 - 2 of them.
///
/// Worst interleavings, each met by `everyMessageWakesALoopThatWaits` and `manySendersWakeALoopForEveryMessage`, the last
/// one by `aThirdSenderWakesALoopThatIsMarked`:
/// - A sender finds the loop running, and does not write, while the loop is about to wait. Each first writes its flag, then
///   reads the other's: the sender sets `pending` before it reads `isWaiting`, the loop sets `isWaiting` before it reads
///   `pending`, all sequentially consistent. So at least one sees the other.
/// - A message is stored while the loop takes its mail. `acknowledge` clears `pending` before the loop reads. So either the
///   sender sets it anew, or its message is read.
/// - A loop marks the waiting one, to handle its mail when its own tick ends, and another sender posts before that. A mark
///   is no wake-up, so that sender wakes the loop.
@usableFromInline
package final class Waker: Sendable {
    /// An eventfd (eventfd(2)), for the loop's epoll.
    package let descriptor: Int32
    private let pending = Atomic<UInt8>(Waker.nothing)
    private let isWaiting = Atomic<Bool>(false)

    /// There is nothing to look at; there is, and another loop's thread will look or wake the loop; the loop was woken.
    private static let nothing: UInt8 = 0
    private static let marked: UInt8 = 1
    private static let called: UInt8 = 2

    /// Throws if the process has no descriptor left.
    package init() throws(ReactorError) {
        let descriptor = cl_eventfd()
        guard descriptor >= 0 else { throw ReactorError("eventfd", errno) }
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// Wakes the loop. The next tick sees whatever was stored before this call.
    @usableFromInline
    package func wake() {
        if pending.exchange(Self.called, ordering: .sequentiallyConsistent) != Self.called, mustBeTold { signal() }
    }

    /// Marks that there is something to look at, and wakes nobody. The caller looks, or wakes the loop, when its tick ends.
    func mark() {
        _ = pending.compareExchange(expected: Self.nothing, desired: Self.marked, ordering: .sequentiallyConsistent)
    }

    /// Whether the loop was marked, was not woken since, and has not looked.
    var isMarked: Bool { pending.load(ordering: .sequentiallyConsistent) == Self.marked }

    /// Whether the loop waits, and would not look by itself.
    var mustBeTold: Bool { isWaiting.load(ordering: .sequentiallyConsistent) }

    /// Makes the descriptor readable, whether or not a loop waits; for users that have it among their sources.
    @usableFromInline
    package func signal() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// Whether there is something that the loop has not looked at.
    var isPending: Bool { pending.load(ordering: .sequentiallyConsistent) != Self.nothing }

    /// The loop is about to wait; call `awakes` next. False where it has been woken and must not wait.
    func mayWait() -> Bool {
        isWaiting.store(true, ordering: .sequentiallyConsistent)
        if !isPending { return true }
        awakes()
        return false
    }

    func awakes() {
        isWaiting.store(false, ordering: .relaxed)
    }

    func acknowledge() {
        pending.store(Self.nothing, ordering: .sequentiallyConsistent)
    }
}

/// A system call that failed and must not fail.
public struct ReactorError: Error, CustomStringConvertible {
    /// The call's name.
    public let call: String
    /// Its `errno`.
    public let code: Int32

    /// The call's name and its `errno`.
    public init(_ call: String, _ code: Int32) {
        self.call = call
        self.code = code
    }

    /// The call and the system's text for the error.
    public var description: String { "\(call): \(String(cString: strerror(code)))" }
}
