import Clock
import Synchronization

/// The only door into a loop: values posted from any thread, taken out in order by the loop that attached it. One sender's
/// messages arrive in the order posted; that keeps a stream's acknowledgement before its first event.
///
/// A mailbox itself has no bound, because a refused message would be a lost event. Senders bound it: the store checks
/// `count`, the feed checks what its receivers have still to handle, and a client has little in flight at a time.
public final class Mailbox<Message: Sendable>: Sendable {
    // Public and inlinable, here and in `Locked`: only so can other targets specialize it for their own messages.
    @usableFromInline let contents = Locked(Contents())
    @usableFromInline let handle: LoopHandle

    @usableFromInline struct Contents: Sendable {
        @usableFromInline var messages: ContiguousArray<Message> = []
        /// Whether the loop's own thread has to take them out: a thread that borrows the loop leaves them (`LoopLease`).
        @usableFromInline var areOwners = false

        @usableFromInline init() {}
    }

    /// A mailbox of that loop, empty.
    package init(_ handle: LoopHandle) {
        self.handle = handle
    }

    /// Messages that the loop has not taken out yet.
    package var count: Int { contents.withLock { $0.messages.count } }

    /// Posts one message, and wakes the loop if it waits. Any thread; never waits for the loop.
    @inlinable
    public func post(_ message: Message) {
        contents.withLock { contents in
            contents.messages.append(message)
            contents.areOwners = true
        }
        handle.waker.wake()
    }

    /// Adds a message that is dealt with quickly. The caller sees to it that somebody looks.
    @inlinable
    func store(_ message: Message) {
        contents.withLock { $0.messages.append(message) }
    }

    /// Takes all messages out. False where some are for the loop's own thread: then nothing is taken out by a thread that
    /// borrows the loop.
    @inlinable
    func takeAll(into batch: inout ContiguousArray<Message>, borrowed isBorrowed: Bool) -> Bool {
        contents.withLock { contents in
            if contents.areOwners {
                if isBorrowed { return false }
                contents.areOwners = false
                swap(&contents.messages, &batch)
                return false
            }
            swap(&contents.messages, &batch)
            return true
        }
    }
}

/// What other threads may hold of a loop.
public final class LoopHandle: Sendable {
    /// Wakes the loop from any thread.
    @usableFromInline package let waker: Waker
    let stopRequested = Atomic<Bool>(false)
    /// When the loop's last tick began, in nanoseconds of the monotonic clock.
    private let ticked = Atomic<UInt64>(Instant.read().nanoseconds)

    /// Nil where only the loop handles its mail.
    let lease: LoopLease?

    /// A handle for one loop, made with it or before it.
    ///
    /// - Parameter isLent: whether other loops may handle this one's mail while it waits (`EventLoop.post`).
    public init(isLent: Bool = false) throws(ReactorError) {
        waker = try Waker()
        lease = isLent ? LoopLease() : nil
    }

    /// The time since the loop began its last tick, or was made. For a running loop hardly more than `EventLoop.pulse`,
    /// unless something holds it up; zero for a loop that was told to stop. Any thread.
    package func sinceTick(at now: Instant = .read()) -> Duration {
        guard !stopRequested.load(ordering: .relaxed) else { return .zero }
        return now.duration(since: Instant(nanoseconds: ticked.load(ordering: .relaxed)))
    }

    func ticks(at now: Instant) {
        ticked.store(now.nanoseconds, ordering: .relaxed)
    }

    /// Asks the loop to end after its current tick.
    public func stop() {
        stopRequested.store(true, ordering: .sequentiallyConsistent)
        waker.wake()
    }
}
