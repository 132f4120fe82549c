import Clock
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Reactor

/// A source without a descriptor that reports its calls.
private final class Sleeper: EventSource {
    var whenDue: () -> Void = {}
    var whenTickEnds: () -> Void = {}

    override func deadlineReached() { whenDue() }
    override func tickEnded() { whenTickEnds() }
}

/// The mail of a waiting loop is done by the loop that posts it.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct LoopLeaseTests {
    /// A loop on its own thread whose mail is closures; it never wakes by its pulse.
    private final class Other {
        let handle: LoopHandle
        let mailbox: Mailbox<@Sendable (EventLoop) -> Void>
        private let thread: SystemThread

        init() throws {
            let handle = try LoopHandle(isLent: true)
            let mailbox = Mailbox<@Sendable (EventLoop) -> Void>(handle)
            (self.handle, self.mailbox) = (handle, mailbox)
            let loop = Handed(try EventLoop(handle: handle))
            thread = try SystemThread(name: "other") {
                let loop = loop.value
                loop.attach(mailbox) { [unowned loop] in $0(loop) }
                handle.lease?.begin()
                while !handle.stopRequested.load(ordering: .sequentiallyConsistent) { loop.tick(waitingAtMost: nil) }
                handle.lease?.end()
            }
        }

        /// Returns when the loop waits, and so can be lent.
        func awaitSleep() {
            while !isAsleep { sched_yield() }
        }

        private var isAsleep: Bool {
            guard handle.waker.mustBeTold, !handle.waker.isPending, handle.lease?.doMail() == true else { return false }
            return handle.waker.mustBeTold
        }

        func end() {
            handle.stop()
            thread.join()
        }
    }

    /// Hands a value to the only thread that uses it.
    private struct Handed<Value>: @unchecked Sendable {
        let value: Value
        init(_ value: Value) { self.value = value }
    }

    /// Posts the closure in one tick of a new loop; returns the threads that ran it.
    private func post(
        _ times: Int = 1, to other: Other, _ call: @escaping @Sendable (EventLoop) -> Void = { _ in }
    ) throws -> [UInt] {
        let loop = try EventLoop(handle: LoopHandle(isLent: true))
        let threads = Locked<[UInt]>([])
        try Self.tick(loop) {
            for _ in 0..<times {
                loop.post(
                    { loop in
                        threads.withLock { $0.append(UInt(pthread_self())) }
                        call(loop)
                    }, to: other.mailbox)
            }
        }
        while threads.withLock({ $0.count }) < times { sched_yield() }
        return threads.withLock { $0 }
    }

    private static func tick(_ loop: EventLoop, _ call: @escaping () -> Void) throws {
        let sleeper = Sleeper()
        try loop.add(sleeper)
        sleeper.whenDue = call
        loop.setDeadline(sleeper, loop.now)
        loop.tick(waitingAtMost: .zero)
        loop.remove(sleeper)
    }

    private var here: UInt { UInt(pthread_self()) }

    @Test func aLoopThatWaitsHasItsMailDone() throws {
        let other = try Other()
        defer { other.end() }
        for _ in 0..<100 {
            other.awaitSleep()
            #expect(try post(to: other) == [here])
        }
    }

    /// The loop does a long batch itself, so that both go on at once.
    @Test func muchMailWakesTheLoop() throws {
        let other = try Other()
        defer { other.end() }
        other.awaitSleep()
        #expect(try post(17, to: other).allSatisfy { $0 != here })
        other.awaitSleep()
        #expect(try post(16, to: other) == Array(repeating: here, count: 16))
    }

    /// A deadline set while the loop sleeps must wake it, or it would sleep for ever.
    @Test func aDeadlineSetMeanwhileIsKept() throws {
        let other = try Other()
        defer { other.end() }
        let due = Atomic<UInt>(0)
        for round in 1...20 as ClosedRange<UInt> {
            other.awaitSleep()
            _ = try post(to: other) { loop in
                let sleeper = Sleeper()
                try? loop.add(sleeper)
                sleeper.whenDue = { [unowned sleeper, unowned loop] in
                    loop.remove(sleeper)
                    due.add(1, ordering: .releasing)
                }
                loop.setDeadline(sleeper, loop.now.advanced(by: .milliseconds(1)))
            }
            while due.load(ordering: .acquiring) < round { sched_yield() }
        }
    }

    /// Few sources that become dirty are written by the posting thread, many by the loop's own.
    @Test(arguments: [(1, true), (16, true), (17, false)]) func muchToWriteIsTheLoopsOwn(
        _ sources: Int, _ isHere: Bool
    ) throws {
        let other = try Other()
        defer { other.end() }
        other.awaitSleep()
        let threads = Locked<[UInt]>([])
        let poster = try post(to: other) { loop in
            for _ in 0..<sources {
                let sleeper = Sleeper()
                try? loop.add(sleeper)
                sleeper.whenTickEnds = { threads.withLock { $0.append(UInt(pthread_self())) } }
                loop.markDirty(sleeper)
            }
        }
        #expect(poster == [here])
        while threads.withLock({ $0.count }) < sources { sched_yield() }
        #expect(threads.withLock { $0 }.allSatisfy { ($0 == here) == isHere })
    }

    /// Sources that were marked dirty but not yet written are written by the loop's own thread. Until then a removed source
    /// stays alive, and no other thread does the loop's mail.
    @Test func whatWasRemovedLivesUntilAllIsWritten() throws {
        let handle = try LoopHandle(isLent: true)
        let loop = try EventLoop(handle: handle)
        let mailbox = Mailbox<Int>(handle)
        let lease = try #require(handle.lease)
        weak var gone: Sleeper?
        var wasThere: [Bool] = []
        loop.attach(mailbox) { count in
            for number in 0..<count {
                let sleeper = Sleeper()
                try? loop.add(sleeper)
                loop.markDirty(sleeper)
                sleeper.whenTickEnds = { wasThere.append(gone != nil) }
                if number == count - 1 {
                    gone = sleeper
                    loop.remove(sleeper)
                }
            }
        }
        lease.begin()
        loop.tick(waitingAtMost: .zero)
        // As another thread does while the loop waits.
        lease.lend(loop)
        mailbox.store(18)
        #expect(lease.doMail() && wasThere.isEmpty)
        mailbox.store(1)
        #expect(!lease.doMail() && mailbox.count == 1, "the loop has to be woken")
        lease.takeBack()
        loop.tick(waitingAtMost: .zero)
        #expect(wasThere == Array(repeating: true, count: 17))
        lease.end()
        #expect(gone == nil)
    }

    /// Mail from threads without a loop, or that may take long, is left to the loop itself, so it delays no other loop.
    @Test func whatMayTakeLongIsTheLoopsOwn() throws {
        let handle = try LoopHandle(isLent: true)
        let loop = try EventLoop(handle: handle)
        let mailbox = Mailbox<Int>(handle)
        let lease = try #require(handle.lease)
        var seen: [Int] = []
        loop.attach(mailbox) { seen.append($0) }
        lease.begin()
        loop.tick(waitingAtMost: .zero)
        lease.lend(loop)
        mailbox.store(1)
        mailbox.post(2)
        mailbox.store(3)
        #expect(!lease.doMail() && seen.isEmpty)
        lease.takeBack()
        handle.waker.wake()
        loop.tick(waitingAtMost: .zero)
        #expect(seen == [1, 2, 3])
        lease.lend(loop)
        mailbox.store(4)
        #expect(lease.doMail() && seen == [1, 2, 3, 4])
        lease.takeBack()
        lease.end()
    }

    /// The loop's own thread has priority: once an event is ready for it, no other thread starts doing its mail.
    @Test func aLoopThatIsReadyTakesItselfBack() throws {
        let other = try Other()
        defer { other.end() }
        other.awaitSleep()
        // As while another loop does the mail.
        other.handle.lease?.begin()
        other.handle.waker.signal()
        while other.handle.waker.mustBeTold { sched_yield() }
        other.handle.lease?.end()
    }

    /// Sources post as the tick ends, too, after the other loops were marked. The other one may have looked since then.
    @Test(arguments: [false, true]) func whatIsPostedAsATickEndsIsDone(isAfterAnother: Bool) throws {
        let other = try Other()
        defer { other.end() }
        other.awaitSleep()
        let loop = try EventLoop(handle: LoopHandle(isLent: true))
        let sleeper = Sleeper()
        try loop.add(sleeper)
        let count = Locked(0)
        let say: @Sendable (EventLoop) -> Void = { _ in count.withLock { $0 += 1 } }
        sleeper.whenTickEnds = {
            if isAfterAnother {
                other.handle.waker.wake()
                while count.withLock({ $0 }) < 1 { sched_yield() }
                other.awaitSleep()
            }
            loop.post(say, to: other.mailbox)
        }
        try Self.tick(loop) {
            if isAfterAnother { loop.post(say, to: other.mailbox) }
            loop.markDirty(sleeper)
        }
        while count.withLock({ $0 }) < (isAfterAnother ? 2 : 1) { sched_yield() }
        loop.remove(sleeper)
    }

    /// A loop posts but has not reached the end of its tick; a third sender's message wakes the target all the same.
    @Test func aThirdSenderWakesALoopThatIsMarked() throws {
        let other = try Other()
        defer { other.end() }
        other.awaitSleep()
        let done = Atomic<Int>(0)
        let loop = try EventLoop(handle: LoopHandle(isLent: true))
        try Self.tick(loop) {
            loop.post({ _ in done.add(1, ordering: .releasing) }, to: other.mailbox)
            other.handle.waker.mark()
            other.mailbox.post { _ in done.add(1, ordering: .releasing) }
            while done.load(ordering: .acquiring) < 2 { sched_yield() }
        }
    }

    /// A loop whose lease is taken is woken: the holder may have taken the mail before this message.
    @Test func aLoopThatIsLentAlreadyIsWoken() throws {
        let other = try Other()
        defer { other.end() }
        other.awaitSleep()
        let holds = Atomic<Bool>(false)
        let mayEnd = Atomic<Bool>(false)
        let holder = try SystemThread(name: "holder") {
            // As while it does the mail, which it has taken completely.
            other.handle.lease?.begin()
            holds.store(true, ordering: .releasing)
            while !mayEnd.load(ordering: .acquiring) { sched_yield() }
            other.handle.lease?.end()
        }
        while !holds.load(ordering: .acquiring) { sched_yield() }
        let done = Atomic<Bool>(false)
        let loop = try EventLoop(handle: LoopHandle(isLent: true))
        try Self.tick(loop) { loop.post({ _ in done.store(true, ordering: .releasing) }, to: other.mailbox) }
        let wasDone = done.load(ordering: .acquiring)
        #expect(!wasDone)
        mayEnd.store(true, ordering: .releasing)
        while !done.load(ordering: .acquiring) { sched_yield() }
        holder.join()
    }

    /// Loops that constantly post to one another: each message is done once, each sender's in order, and never two of a
    /// loop's at a time.
    @Test(arguments: [2, 3, 4]) func everyMessageIsDoneOnceAndInOrder(_ count: Int) throws {
        let rounds = 3_000
        let handles = try (0..<count).map { _ in try LoopHandle(isLent: true) }
        let mailboxes = handles.map { Mailbox<(from: Int, number: Int)>($0) }
        let faults = Atomic<Int>(0)
        let ended = Atomic<Int>(0)
        let threads = try (0..<count).map { here in
            try LoopThread(name: "loop-\(here)", handle: handles[here]) { loop in
                var next = [Int](repeating: 0, count: count)
                var isBusy = false
                var sent = 0
                let sleeper = Sleeper()
                try? loop.add(sleeper)
                loop.attach(mailboxes[here]) { [unowned loop] message in
                    if isBusy || message.number != next[message.from] { faults.add(1, ordering: .relaxed) }
                    isBusy = true
                    next[message.from] += 1
                    // Sometimes by a deadline, so that loops sleep and wake in every way.
                    if message.number % 7 == 0 { loop.setDeadline(sleeper, loop.now.advanced(by: .microseconds(200))) }
                    if message.number % 5 == 0 { loop.markDirty(sleeper) }
                    isBusy = false
                    if next.reduce(0, +) == rounds * (count - 1) { ended.add(1, ordering: .releasing) }
                }
                let sendOne = { [unowned loop] in
                    guard sent < rounds else { return }
                    for other in 0..<count where other != here { loop.post((here, sent), to: mailboxes[other]) }
                    sent += 1
                    loop.setDeadline(sleeper, loop.now.advanced(by: .microseconds(sent % 50)))
                }
                sleeper.whenDue = sendOne
                sleeper.whenTickEnds = sendOne
                loop.setDeadline(sleeper, loop.now)
                return sleeper
            }
        }
        while ended.load(ordering: .acquiring) < count { sched_yield() }
        for thread in threads { thread.stopAndJoin() }
        let found = faults.load(ordering: .relaxed)
        #expect(found == 0)
    }
}
