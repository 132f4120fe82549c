import CLinux
import Clock
import Glibc
import Synchronization

/// One thread's epoll loop: descriptors, deadlines, mailboxes, and work at the end of the tick.
///
/// A tick: wait; take the mail; handle ready sources; run the deadlines that have passed; call `tickEnded` on every dirty
/// source, where queued output is written with one call for each socket ("cork"); tell the loops that were posted to.
///
/// Mail comes first. Worst interleaving: one loop posts a client's publish to another and answers, and the client sends the
/// next publish to that other loop on another connection. What was posted before the answer is handled before what is sent
/// after it (`mailStandsBeforeWhatIsReady`, `publishesOfOneBackendKeepTheirOrder`).
///
/// Level-triggered, except for the mailboxes' eventfd: a handler may stop reading at any point; the rest is reported again.
///
/// Everything here belongs to the loop's thread or, while it waits, to the thread that handles its mail (`LoopLease`). Other
/// threads hold its `LoopHandle` and `Mailbox`es.
public final class EventLoop {
    /// What other threads may hold of this loop.
    public let handle: LoopHandle
    /// The monotonic clock, read when this tick began.
    public private(set) var now: Instant

    private let epoll: Int32
    // Internal, and inlinable below, for the message path: only so are calls inlined across targets. The table retains each
    // source by hand, so that a delivery (through the table, `dirty`, `deadlines`) retains none.
    @usableFromInline var sources: ContiguousArray<Unmanaged<EventSource>?> = []
    /// Slots without a source, each with the generation of its last one.
    private var freeSlots: ContiguousArray<(slot: UInt32, generation: UInt32)> = []
    private var deadlines = DeadlineQueue()
    // A removed source stays in `removed` until the tick ends: nothing here outlives its source.
    @usableFromInline var dirty: ContiguousArray<Unmanaged<EventSource>> = []
    private var removed: ContiguousArray<EventSource> = []
    /// Sources that are written later than others.
    public let late = LateSources()
    private var isTicking = false
    /// Each hands out its mailbox's messages. A thread that only borrows the loop passes true, and gets false where messages
    /// stay for the loop's own thread; else false says that there were such messages.
    @usableFromInline var mailboxes: ContiguousArray<(Bool) -> Bool> = []
    private let events: UnsafeMutableBufferPointer<epoll_event>
    @usableFromInline var untold: ContiguousArray<LoopHandle> = []
    /// One more than this tick may still post before they are told.
    @usableFromInline var postsLeft = 0
    /// Until when the loop sleeps, while it lends itself.
    private var sleepsTo = Instant(nanoseconds: .max)

    /// The eventfd's token; no slot reaches it.
    private static let wakerToken = UInt64.max
    /// An idle loop begins a tick this often, to show that it is not stuck.
    package static let pulse = Duration.milliseconds(500)
    /// Events taken from the kernel at a time.
    public static let eventsPerWait = 128
    /// Whether more may have been ready than the last tick took from the kernel.
    public private(set) var isCrowded = false
    /// Events taken in the latest consecutive crowded ticks.
    private var eventsInARow = 0
    /// Whether a source may have been ready since before these ticks without being looked at: the kernel reports each source
    /// once before any of them twice. So input that decides about a source may be unread.
    public var hasUnseen: Bool { isCrowded && eventsInARow < sourceCount }
    /// Called at the end of a crowded tick, for work that must not wait for everything that is ready before it.
    public var overtake: (() -> Void)?

    /// A loop for a handle made before it, so that mailboxes can be made, and posted to, before the loop runs.
    ///
    /// - Parameter eventsPerWait: events taken from the kernel at a time.
    public init(handle: LoopHandle, eventsPerWait: Int = eventsPerWait) throws(ReactorError) {
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw ReactorError("epoll_create1", errno) }
        guard cl_epoll_add(epoll, handle.waker.descriptor, cl_epollin | cl_epollet, Self.wakerToken) == 0 else {
            let code = errno
            close(epoll)
            throw ReactorError("epoll_ctl", code)
        }
        self.handle = handle
        self.epoll = epoll
        now = Instant.read()
        events = .allocate(capacity: eventsPerWait)
    }

    /// A loop with a handle of its own.
    public convenience init() throws(ReactorError) {
        try self.init(handle: LoopHandle())
    }

    deinit {
        for source in sources { source?.release() }
        events.deallocate()
        close(epoll)
    }

    /// Runs until `LoopHandle.stop()`, then removes every source. The calling thread is the loop's from now on.
    public func run() {
        handle.lease?.begin()
        defer { handle.lease?.end() }
        // Computed once: taking a `Duration` apart costs a hundred instructions.
        let pulse = Self.pulse.wholeNanoseconds
        while !handle.stopRequested.load(ordering: .sequentiallyConsistent) {
            tick(waiting: pulse)
        }
        // Sources may retain their loop. Kept here, they would keep it and one another, descriptors included: a server that
        // waits for the first bytes of an open connection would not end before its own timeout.
        forEachSource { remove($0) }
    }

    /// One tick, for loops that are driven from outside, as in tests.
    public func tick(waitingAtMost limit: Duration?) {
        tick(waiting: limit.map(\.wholeNanoseconds) ?? UInt64.max)
    }

    /// - Parameter limit: in nanoseconds; `UInt64.max` for no limit.
    private func tick(waiting limit: UInt64) {
        let time = late.isEmpty ? timeout(limit) : 0
        let waits = time != 0 && handle.waker.mayWait()
        if waits { handle.lease?.lend(self) }
        let count = epoll_wait(epoll, events.baseAddress, Int32(events.count), waits ? time : 0)
        if waits {
            // In this order: once the loop is seen awake, no other thread takes the lease again before it does.
            handle.waker.awakes()
            handle.lease?.takeBack()
        }
        now = Instant.read()
        if handle.lease != nil { postsLeft = count <= Self.readyFew ? Self.postsFew &+ 1 : 0 }
        handle.ticks(at: now)
        isTicking = true
        late.tickBegins(ready: Int(count))
        // With mail of its own the tick may be a long one, and other loops are told of theirs at once.
        if handle.waker.isPending, !takeMail(borrowed: false) { tellAll() }
        if count > 0 {
            for index in 0..<Int(count) {
                dispatch(events[index])
            }
        }
        isCrowded = count == events.count
        eventsInARow = isCrowded ? eventsInARow &+ Int(count) : 0
        if isCrowded { overtake?() }
        // No more than there were: a source that sets its deadline again to a past time holds up nobody.
        let due = deadlines.count
        var passed = 0
        while passed < due, let source = deadlines.popDue(now) {
            passed &+= 1
            if passed > Self.readyFew { tellAll() }
            source._withUnsafeGuaranteedRef { $0.deadlineReached() }
        }
        // Others write their share meanwhile.
        if dirty.count > Self.dirtyFew { tellAll() }
        // Before anything is written: a client that is answered now may speak to another loop next, which has to take its
        // mail before it listens.
        for handle in untold { handle.waker.mark() }
        late.tickEnds(of: self)
        endTick()
        isTicking = false
        letGo()
        postsLeft = 0
        doOthersMail()
    }

    /// The source in `slot`, if it has that generation: so a message from elsewhere finds its connection, or none.
    @inlinable
    public func source(slot: UInt32, generation: UInt32) -> EventSource? {
        unretainedSource(slot: slot, generation: generation)?.takeUnretainedValue()
    }

    /// `source(slot:generation:)` without a retain, for the message path. Valid until the tick ends, or while it is added.
    @inlinable @inline(__always)
    public func unretainedSource(slot: UInt32, generation: UInt32) -> Unmanaged<EventSource>? {
        guard Int(slot) < sources.count, let source = sources[Int(slot)],
            source._withUnsafeGuaranteedRef({ $0.generation }) == generation
        else { return nil }
        return source
    }

    /// Calls `body` for every source; it may remove the source.
    package func forEachSource(_ body: (EventSource) -> Void) {
        for slot in sources.indices {
            if let source = sources[slot]?.takeUnretainedValue() { body(source) }
        }
    }

    /// The sources that the loop looks after.
    public var sourceCount: Int { sources.count - freeSlots.count }

    // MARK: Descriptors

    /// Looks after `source`, which may have a descriptor (`-1`: none). The source owns it, and closes it after `remove`.
    ///
    /// - Throws: the error of `epoll_ctl(2)`, out of watches or memory; the source is not added then.
    public func add(_ source: EventSource, descriptor: Int32 = -1, interest: Readiness = []) throws(ReactorError) {
        precondition(!source.isAdded, "a source is added once")
        let free = freeSlots.popLast()
        let slot = free?.slot ?? UInt32(sources.count)
        let generation = (free?.generation ?? 0) &+ 1
        if free == nil { sources.append(nil) }
        if descriptor >= 0, cl_epoll_add(epoll, descriptor, interest.epoll, token(slot, generation)) != 0 {
            defer { freeSlots.append((slot, generation)) }
            throw ReactorError("epoll_ctl", errno)
        }
        source.slot = slot
        source.generation = generation
        source.descriptor = descriptor
        source.interest = interest
        sources[Int(slot)] = Unmanaged.passRetained(source)
    }

    /// Changes what the descriptor is watched for. Does nothing where it already is.
    public func setInterest(_ source: EventSource, _ interest: Readiness) {
        guard source.isAdded, source.descriptor >= 0, source.interest != interest else { return }
        source.interest = interest
        _ = cl_epoll_modify(epoll, source.descriptor, interest.epoll, token(source.slot, source.generation))
    }

    /// Watches another descriptor for the source. libpq may replace its socket, even by one of the same number, which the
    /// kernel dropped from the set when the old one closed. So this adds, and modifies only if it is still there.
    public func setDescriptor(_ source: EventSource, _ descriptor: Int32, _ interest: Readiness) throws(ReactorError) {
        guard source.isAdded else { return }
        if source.descriptor >= 0, source.descriptor != descriptor {
            _ = cl_epoll_remove(epoll, source.descriptor)
        }
        source.descriptor = descriptor
        source.interest = interest
        guard descriptor >= 0 else { return }
        let token = token(source.slot, source.generation)
        if cl_epoll_add(epoll, descriptor, interest.epoll, token) == 0 { return }
        guard errno == EEXIST, cl_epoll_modify(epoll, descriptor, interest.epoll, token) == 0 else {
            throw ReactorError("epoll_ctl", errno)
        }
    }

    /// The source's descriptor was closed elsewhere, as libpq does with a broken connection's. The kernel has dropped it
    /// from the set. Its number may be another source's by now, and is not touched again.
    public func descriptorClosed(_ source: EventSource) {
        source.descriptor = -1
    }

    /// Stops watching the source's descriptor. Its deadline and its `tickEnded` calls continue.
    public func unwatch(_ source: EventSource) {
        guard source.isAdded, source.descriptor >= 0 else { return }
        _ = cl_epoll_remove(epoll, source.descriptor)
        source.descriptor = -1
        source.interest = []
    }

    /// Removes the source: no call comes to it after this one. Call before closing its descriptor.
    public func remove(_ source: EventSource) {
        guard source.isAdded else { return }
        if source.descriptor >= 0 { _ = cl_epoll_remove(epoll, source.descriptor) }
        deadlines.unset(source)
        freeSlots.append((source.slot, source.generation))
        if isTicking || source.isDirty { removed.append(source) }
        sources[Int(source.slot)]?.release()
        sources[Int(source.slot)] = nil
        source.slot = .max
        source.descriptor = -1
    }

    // MARK: Deadlines and ticks

    /// Sets, moves or unsets (`nil`) the one deadline of an added source.
    public func setDeadline(_ source: EventSource, _ deadline: Instant?) {
        guard source.isAdded else { return }
        if let deadline {
            deadlines.set(source, at: deadline)
        } else {
            deadlines.unset(source)
        }
    }

    /// Calls the source's `tickEnded` once, when this tick ends, if it is added then.
    @inlinable
    public func markDirty(_ source: EventSource) {
        guard !source.isDirty, source.isAdded else { return }
        source.isDirty = true
        dirty.append(Unmanaged.passUnretained(source))
    }

    // MARK: Other loops

    /// A tick with more than this to look at, to post, or to write does no other loop's work.
    private static let readyFew = 8
    private static let postsFew = 16
    private static let dirtyFew = 16

    /// Posts a message that is handled quickly to another loop. If this tick has little to do and that loop waits, its mail
    /// is handled here when the tick ends (`LoopLease`); otherwise the loop is woken. Use `Mailbox.post` for what may take
    /// long.
    @inlinable
    public func post<Message>(_ message: Message, to mailbox: Mailbox<Message>) {
        guard postsLeft > 0 else { return mailbox.post(message) }
        mailbox.store(message)
        postsLeft &-= 1
        let handle = mailbox.handle
        if !untold.contains(where: { $0 === handle }) { untold.append(handle) }
        if postsLeft == 0 { tellAll() }
    }

    /// Whether the loop has mail from other loops' ended ticks: what is done in this tick overtakes it.
    public var hasMail: Bool { handle.waker.isPending }

    /// Wakes the loops that have mail of this tick. Until the tick ends, each further post wakes its loop.
    @usableFromInline func tellAll() {
        postsLeft = 0
        for handle in untold { handle.waker.wake() }
        untold.removeAll(keepingCapacity: true)
    }

    private func doOthersMail() {
        guard !untold.isEmpty else { return }
        for handle in untold {
            // Once more: sources post as the tick ends, too, and the loop may have looked since the first mark.
            handle.waker.mark()
            // Loops that do not wait look by themselves, and so do those that were woken.
            guard handle.waker.isMarked, handle.waker.mustBeTold else { continue }
            if handle.lease?.doMail() != true { handle.waker.wake() }
        }
        untold.removeAll(keepingCapacity: true)
    }

    /// Handles the mail of this loop, which waits, on another loop's thread. False where the loop's own thread has to do it.
    func mailTick() -> Bool {
        // The tick before this one left sources to write, and removed ones among them.
        guard dirty.isEmpty else { return false }
        now = Instant.read()
        isTicking = true
        let isDone = takeMail(borrowed: true)
        let mayWrite = dirty.count <= Self.dirtyFew
        if mayWrite { endTick() }
        isTicking = false
        if mayWrite { letGo() }
        let oversleeps = deadlines.earliest.map { $0 < sleepsTo } ?? false
        if !mayWrite || oversleeps || handle.stopRequested.load(ordering: .relaxed) { handle.waker.signal() }
        return isDone
    }

    /// From now on this loop takes out the mailbox's messages, for the loop's life.
    @inlinable
    public func attach<Message>(_ mailbox: Mailbox<Message>, _ received: @escaping (Message) -> Void) {
        var batch: ContiguousArray<Message> = []
        mailboxes.append { isBorrowed in
            let isQuick = mailbox.takeAll(into: &batch, borrowed: isBorrowed)
            let count = batch.count
            // Turned round, because only from the end are messages moved out and not copied.
            if count > 1 { batch.withUnsafeMutableBufferPointer { $0.reverse() } }
            while let message = batch.popLast() { received(message) }
            if count > 1024 { batch = [] }
            return isQuick
        }
        // Messages posted earlier have woken nobody who would look here.
        handle.waker.wake()
    }

    // MARK: The tick's steps

    private func dispatch(_ event: epoll_event) {
        var event = event
        let token = cl_event_token(&event)
        // The eventfd has done its work, and the mail has been taken.
        if token == Self.wakerToken { return }
        // A source removed earlier in this batch fails the generation check, even if its slot was taken again.
        let slot = UInt32(truncatingIfNeeded: token)
        let generation = UInt32(truncatingIfNeeded: token >> 32)
        guard let source = unretainedSource(slot: slot, generation: generation) else { return }
        source._withUnsafeGuaranteedRef { $0.ready(Readiness(epoll: event.events)) }
    }

    /// False where some of it is for the loop's own thread: that is left to it where the loop is borrowed.
    private func takeMail(borrowed isBorrowed: Bool) -> Bool {
        handle.waker.acknowledge()
        var isQuick = true
        for mailbox in mailboxes { isQuick = mailbox(isBorrowed) && isQuick }
        return isQuick
    }

    private func endTick() {
        var index = 0
        while index < dirty.count {
            let source = dirty[index]
            index += 1
            // The kernel's work for one source evicts the next from the caches; so the next is fetched meanwhile.
            if index < dirty.count { cl_prefetch(dirty[index].toOpaque()) }
            source._withUnsafeGuaranteedRef { source in
                source.isDirty = false
                if source.isAdded { source.tickEnded() }
            }
        }
        dirty.removeAll(keepingCapacity: true)
    }

    /// Releases the sources removed in this tick, and with them whatever they hold.
    private func letGo() {
        guard !removed.isEmpty else { return }
        var gone: ContiguousArray<EventSource> = []
        swap(&gone, &removed)
    }

    private func timeout(_ limit: UInt64) -> Int32 {
        let clock = Instant.read()
        var wait = limit
        if let earliest = deadlines.earliest {
            wait = min(wait, earliest > clock ? earliest.nanoseconds - clock.nanoseconds : 0)
        }
        let (end, isOver) = clock.nanoseconds.addingReportingOverflow(wait)
        sleepsTo = Instant(nanoseconds: isOver ? .max : end)
        guard wait != UInt64.max else { return -1 }
        // Rounded up; otherwise a deadline a fraction of a millisecond away would spin.
        return Int32(clamping: (wait / 1_000_000) + (wait % 1_000_000 == 0 ? 0 : 1))
    }
}

private func token(_ slot: UInt32, _ generation: UInt32) -> UInt64 {
    UInt64(generation) << 32 | UInt64(slot)
}

extension Readiness {
    fileprivate var epoll: UInt32 {
        (contains(.readable) ? cl_epollin | cl_epollrdhup : 0) | (contains(.writable) ? cl_epollout : 0)
    }

    fileprivate init(epoll events: UInt32) {
        var readiness: Readiness = []
        if events & (cl_epollin | cl_epollrdhup) != 0 { readiness.insert(.readable) }
        if events & cl_epollout != 0 { readiness.insert(.writable) }
        if events & (cl_epollhup | cl_epollerr) != 0 { readiness.insert(.hangup) }
        self = readiness
    }
}
