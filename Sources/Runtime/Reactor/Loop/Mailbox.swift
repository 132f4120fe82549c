import Clock
import Synchronization

/// The only door into a loop: values posted from any thread, taken out in order by the loop that attached it.
///
/// Messages of one sender arrive in the order posted; that is what keeps a stream's acknowledgement before its first
/// event. A mailbox itself has no bound, for a message refused here would be an event lost. Who posts
/// bounds it: the store looks at `count`, the feed at what its receivers have not dealt with, and on behalf of one
/// client there is little under way at a time.
public final class Mailbox<Message: Sendable>: Sendable {
    // Public and inlinable, here and in `Locked`: other targets make code for their own messages in no other way.
    @usableFromInline let messages = Locked<ContiguousArray<Message>>([])
    @usableFromInline let handle: LoopHandle

    package init(_ handle: LoopHandle) {
        self.handle = handle
    }

    /// Messages that the loop has not taken out yet.
    package var count: Int { messages.withLock { $0.count } }

    /// Posts one message. Any thread; never waits for the loop.
    @inlinable
    public func post(_ message: Message) {
        if store(message) { handle.waker.wake() }
    }

    /// Whether it is the first, of which the loop has to be told.
    @inlinable
    func store(_ message: Message) -> Bool {
        messages.withLock { messages in
            messages.append(message)
            return messages.count == 1
        }
    }

    /// Posts several, next to one another.
    package func post(contentsOf batch: [Message]) {
        guard !batch.isEmpty else { return }
        messages.withLock { $0.append(contentsOf: batch) }
        handle.waker.wake()
    }

    @inlinable
    func takeAll(into batch: inout ContiguousArray<Message>) {
        messages.withLock { swap(&$0, &batch) }
    }
}

/// What other threads may hold of a loop.
public final class LoopHandle: Sendable {
    @usableFromInline package let waker: Waker
    let stopRequested = Atomic<Bool>(false)
    /// When the loop's last tick began, in nanoseconds of the monotonic clock.
    private let ticked = Atomic<UInt64>(Instant.read().nanoseconds)

    /// Nil where the loop does its own mail alone.
    let lease: LoopLease?

    /// A handle for one loop, made with it or before it.
    ///
    /// - Parameter isLent: whether other loops may do this one's mail while it waits (`EventLoop.post`).
    public init(isLent: Bool = false) throws(ReactorError) {
        waker = try Waker()
        lease = isLent ? LoopLease() : nil
    }

    /// How long ago the loop began its last tick, or was made: for one that runs hardly more than `EventLoop.pulse`, unless
    /// something holds it up. None for a loop that was told to stop. Any thread.
    package func sinceTick(at now: Instant = .read()) -> Duration {
        guard !stopRequested.load(ordering: .relaxed) else { return .zero }
        return now.duration(since: Instant(nanoseconds: ticked.load(ordering: .relaxed)))
    }

    func ticks(at now: Instant) {
        ticked.store(now.nanoseconds, ordering: .relaxed)
    }

    /// Asks the loop to end after the tick it is in.
    public func stop() {
        stopRequested.store(true, ordering: .sequentiallyConsistent)
        waker.wake()
    }
}
