import CLinux
import Glibc
import Synchronization

/// Wakes a loop from any thread: an eventfd, written only where the loop waits, and once until it has looked. A loop that is
/// awake looks before it waits: what it posts to itself, and what others post while it is busy, costs no system call.
///
/// It is watched edge-triggered and never read. Linux tells of each write to an eventfd, whether or not those before it were
/// read (`eventfd_write` wakes whoever polls; a test holds it), and the counter has room for 2^64 of them, less two.
///
/// Worst interleavings, each met by `everyMessageWakesALoopThatWaits` and `manySendersWakeALoopForEveryMessage`, the last one by
/// `aThirdSenderWakesALoopThatIsMarked`:
/// - a sender finds the loop awake, and does not write, while the loop is about to wait. Each first tells, then looks: the
///   sender sets `pending` before it reads `isWaiting`, the loop sets `isWaiting` before it reads `pending`, all sequentially
///   consistent. So one of them sees the other;
/// - a message is stored while the loop takes its mail. `acknowledge` clears `pending` before the loop reads, so the sender
///   either sets it anew, or its message is read;
/// - a loop marks the waiting one, to do its mail when its own tick ends, and another sender posts before that: the mark is no
///   call, so that sender wakes the loop.
@usableFromInline
package final class Waker: Sendable {
    package let descriptor: Int32
    private let pending = Atomic<UInt8>(Waker.nothing)
    private let isWaiting = Atomic<Bool>(false)

    /// There is nothing to look at; there is, and another loop's thread will look or wake the loop; the loop was woken.
    private static let nothing: UInt8 = 0
    private static let marked: UInt8 = 1
    private static let called: UInt8 = 2

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
        if pending.exchange(Self.called, ordering: .sequentiallyConsistent) != Self.called, mustBeTold { signal() }
    }

    /// Says that there is something to look at, and wakes nobody: the caller looks, or wakes the loop, once its tick ends.
    func mark() {
        _ = pending.compareExchange(expected: Self.nothing, desired: Self.marked, ordering: .sequentiallyConsistent)
    }

    /// Whether the loop was marked, and neither woken since nor has it looked.
    var isMarked: Bool { pending.load(ordering: .sequentiallyConsistent) == Self.marked }

    /// Whether the loop waits, and so would not look by itself.
    var mustBeTold: Bool { isWaiting.load(ordering: .sequentiallyConsistent) }

    /// Makes the descriptor readable, whether or not a loop waits: for one that has it among its sources.
    @usableFromInline
    package func signal() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// Whether there is something that the loop has not looked at.
    var isPending: Bool { pending.load(ordering: .sequentiallyConsistent) != Self.nothing }

    /// The loop is about to wait; `awakes` follows. False where it has been woken, and must not.
    func mayWait() -> Bool {
        isWaiting.store(true, ordering: .sequentiallyConsistent)
        if !isPending { return true }
        awakes()
        return false
    }

    /// The loop waits no more.
    func awakes() {
        isWaiting.store(false, ordering: .relaxed)
    }

    /// The loop is about to look.
    func acknowledge() {
        pending.store(Self.nothing, ordering: .sequentiallyConsistent)
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
