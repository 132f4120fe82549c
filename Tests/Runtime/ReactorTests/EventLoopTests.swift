import Clock
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Reactor

private final class Witness: EventSource {
    var seen: [String] = []
    var whenReady: ((Witness) -> Void)?

    override func ready(_ readiness: Readiness) {
        seen.append("ready \(readiness.rawValue)")
        whenReady?(self)
    }

    override func deadlineReached() { seen.append("deadline") }
    override func tickEnded() { seen.append("tick") }
}

/// A source that owns its descriptor and knows its loop.
private final class Owner: EventSource {
    private let owned: Int32
    private let loop: EventLoop

    init(descriptor: Int32, loop: EventLoop) {
        owned = descriptor
        self.loop = loop
    }

    deinit { close(owned) }
}

@Suite(.ownThread, .timeLimit(.minutes(15))) struct EventLoopTests {
    private func makePair() -> (Int32, Int32) {
        var ends: [Int32] = [-1, -1]
        let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | flags, 0, &ends) == 0)
        return (ends[0], ends[1])
    }

    /// When more may be ready than a wait returned, `overtake` is called and the mail is taken.
    @Test func tellsWhenMoreMayBeReadyThanWasTaken() throws {
        let handle = try LoopHandle()
        let loop = try EventLoop(handle: handle, eventsPerWait: 2)
        let mailbox = Mailbox<Int>(handle)
        var mail: [Int] = []
        loop.attach(mailbox) { mail.append($0) }
        var calls = 0
        loop.overtake = { calls += 1 }
        loop.tick(waitingAtMost: .zero)
        #expect(calls == 0 && !loop.isCrowded, "one was ready, the mail")
        let pairs = (0..<3).map { _ in makePair() }
        defer {
            for (ours, theirs) in pairs {
                close(ours)
                close(theirs)
            }
        }
        let witnesses = pairs.map { _ in Witness() }
        for (witness, pair) in zip(witnesses, pairs) {
            try loop.add(witness, descriptor: pair.0, interest: .readable)
            _ = write(pair.1, "x", 1)
        }
        mailbox.post(1)
        loop.tick(waitingAtMost: .seconds(5))
        #expect(calls == 1 && loop.isCrowded)
        #expect(mail == [1])
        #expect(witnesses.contains { $0.seen.isEmpty })
        for witness in witnesses { loop.setInterest(witness, []) }
        loop.tick(waitingAtMost: .zero)
        #expect(calls == 1 && !loop.isCrowded, "at most the wake-up for the mail that was taken")
        #expect(mail == [1])
    }

    @Test func anUnwatchedSourceIsStillItsLoops() throws {
        let loop = try EventLoop()
        let (ours, theirs) = makePair()
        defer { close(ours) }
        let witness = Witness()
        try loop.add(witness, descriptor: ours, interest: .readable)
        close(theirs)
        loop.unwatch(witness)
        loop.unwatch(witness)
        loop.setInterest(witness, .readable)
        loop.setDeadline(witness, Instant.read())
        loop.markDirty(witness)
        loop.tick(waitingAtMost: .zero)
        #expect(witness.seen.sorted() == ["deadline", "tick"])
        #expect(witness.isAdded && loop.sourceCount == 1)
        loop.remove(witness)
        #expect(loop.sourceCount == 0)
    }

    @Test func reportsReadinessUntilRemoved() throws {
        let loop = try EventLoop()
        let (ours, theirs) = makePair()
        defer {
            close(ours)
            close(theirs)
        }
        let witness = Witness()
        try loop.add(witness, descriptor: ours, interest: .readable)
        loop.tick(waitingAtMost: .zero)
        #expect(witness.seen.isEmpty)
        _ = write(theirs, "x", 1)
        loop.tick(waitingAtMost: .seconds(5))
        loop.tick(waitingAtMost: .zero)
        #expect(witness.seen == ["ready 1", "ready 1"], "level-triggered: reported until it is read")
        loop.setInterest(witness, [])
        loop.tick(waitingAtMost: .zero)
        #expect(witness.seen.count == 2)
        loop.setInterest(witness, .readable)
        loop.remove(witness)
        loop.tick(waitingAtMost: .zero)
        #expect(witness.seen.count == 2)
        #expect(!witness.isAdded)
        #expect(loop.sourceCount == 0)
    }

    /// Both are ready in one batch; the first to run removes the other, whose slot a third takes at once.
    @Test func aStaleEventReachesNobody() throws {
        let loop = try EventLoop()
        let pairs = (0..<3).map { _ in makePair() }
        defer {
            for (ours, theirs) in pairs {
                close(ours)
                close(theirs)
            }
        }
        let sources = [Witness(), Witness()]
        let third = Witness()
        for (index, source) in sources.enumerated() {
            try loop.add(source, descriptor: pairs[index].0, interest: .readable)
            source.whenReady = { [unowned loop] source in
                guard let other = sources.first(where: { $0 !== source }), other.isAdded else { return }
                loop.remove(other)
                do {
                    try loop.add(third, descriptor: pairs[2].0, interest: .readable)
                } catch {
                    Issue.record(error)
                }
            }
            _ = write(pairs[index].1, "x", 1)
        }
        loop.tick(waitingAtMost: .seconds(5))
        #expect(sources.map(\.seen.count).sorted() == [0, 1])
        #expect(third.seen.isEmpty)
        #expect(third.isAdded)
    }

    /// libpq closes a broken connection's socket itself, and its number is reused at once.
    @Test func aNumberThatIsAnothersByNowIsNotTouched() throws {
        let loop = try EventLoop()
        let (ours, theirs) = makePair()
        let (next, nextTheirs) = makePair()
        defer { for end in [ours, theirs, next, nextTheirs] { close(end) } }
        let broken = Witness()
        try loop.add(broken, descriptor: ours, interest: .readable)
        #expect(dup2(next, ours) == ours, "closes ours, and gives its number to the next")
        loop.descriptorClosed(broken)
        let successor = Witness()
        try loop.add(successor, descriptor: ours, interest: .readable)
        loop.setInterest(broken, .writable)
        loop.remove(broken)
        _ = write(nextTheirs, "x", 1)
        loop.tick(waitingAtMost: .seconds(5))
        #expect(successor.seen == ["ready 1"])
        #expect(broken.seen.isEmpty)
    }

    @Test func deadlinesFireOnceInOrder() throws {
        let loop = try EventLoop()
        let early = Witness()
        let late = Witness()
        try loop.add(late)
        try loop.add(early)
        loop.setDeadline(late, loop.now.advanced(by: .milliseconds(8)))
        loop.setDeadline(early, loop.now.advanced(by: .milliseconds(2)))
        loop.tick(waitingAtMost: .seconds(5))
        #expect(early.seen == ["deadline"])
        while late.seen.isEmpty { loop.tick(waitingAtMost: .seconds(5)) }
        loop.tick(waitingAtMost: .zero)
        #expect(late.seen == ["deadline"])
        #expect(early.seen == ["deadline"])
    }

    /// A source that always sets its deadline to now.
    private final class Hasty: EventSource {
        unowned let loop: EventLoop
        var looks = 0

        init(_ loop: EventLoop) { self.loop = loop }

        override func deadlineReached() {
            looks += 1
            // So that the test ends even if the loop would not.
            if looks < 1_000_000 { loop.setDeadline(self, loop.now) }
        }
    }

    @Test func aDeadlineSetInThePastHoldsUpNobody() throws {
        let loop = try EventLoop()
        let (hasty, other) = (Hasty(loop), Witness())
        try loop.add(hasty)
        try loop.add(other)
        loop.setDeadline(hasty, loop.now)
        loop.setDeadline(other, loop.now.advanced(by: .milliseconds(1)))
        loop.tick(waitingAtMost: .zero)
        #expect(hasty.looks <= 2, "there were two deadlines")
        while other.seen.isEmpty, hasty.looks < 1_000_000 { loop.tick(waitingAtMost: .zero) }
        #expect(other.seen == ["deadline"])
    }

    @Test func aDirtySourceEndsItsTickOnce() throws {
        let loop = try EventLoop()
        let witness = Witness()
        let gone = Witness()
        try loop.add(witness)
        try loop.add(gone)
        for _ in 0..<3 { loop.markDirty(witness) }
        loop.markDirty(gone)
        loop.remove(gone)
        loop.tick(waitingAtMost: .zero)
        loop.tick(waitingAtMost: .zero)
        #expect(witness.seen == ["tick"])
        #expect(gone.seen.isEmpty)
    }

    /// The loop's references are unowned, so a removed source must live until nothing in the tick can reach it.
    @Test func whatIsRemovedEndsWithTheTick() throws {
        let loop = try EventLoop()
        let (ours, theirs) = makePair()
        defer {
            close(ours)
            close(theirs)
        }
        let remover = Witness()
        try loop.add(remover, descriptor: ours, interest: .readable)
        var victim: Witness? = Witness()
        weak let gone = victim
        for _ in 0..<2 { try loop.add(Witness()) }
        if let victim {
            try loop.add(victim)
            loop.setDeadline(victim, Instant(nanoseconds: 0))
            loop.markDirty(victim)
        }
        remover.whenReady = { [unowned loop] _ in
            guard let doomed = victim else { return }
            loop.remove(doomed)
            victim = nil
            loop.markDirty(doomed)
            #expect(gone?.seen == [], "it is there until the tick ends, and hears nothing")
        }
        _ = write(theirs, "x", 1)
        loop.tick(waitingAtMost: .seconds(5))
        #expect(gone == nil)
        #expect(loop.sourceCount == 3)
    }

    @Test func whatIsRemovedBetweenTicksEndsAtOnceUnlessItIsDirty() throws {
        let loop = try EventLoop()
        var (clean, dirty): (Witness?, Witness?) = (Witness(), Witness())
        weak let goneClean = clean
        weak let goneDirty = dirty
        if let clean, let dirty {
            try loop.add(clean)
            try loop.add(dirty)
            loop.setDeadline(clean, Instant(nanoseconds: 0))
            loop.markDirty(dirty)
            loop.remove(clean)
            loop.remove(dirty)
        }
        (clean, dirty) = (nil, nil)
        #expect(goneClean == nil)
        #expect(goneDirty != nil)
        loop.tick(waitingAtMost: .zero)
        #expect(goneDirty == nil)
    }

    @Test func messagesOfASenderKeepTheirOrder() throws {
        let handle = try LoopHandle()
        let mailbox = Mailbox<Int>(handle)
        mailbox.post(0)
        let received = Locked<[Int]>([])
        let thread = try LoopThread(name: "test", handle: handle) { loop in
            loop.attach(mailbox) { message in
                received.withLock { $0.append(message) }
                if message == 20_000 { handle.stop() }
            }
            return nil
        }
        for number in 1...20_000 { mailbox.post(number) }
        thread.join()
        #expect(received.withLock { $0 } == Array(0...20_000))
    }

    @Test func manySendersWakeALoopForEveryMessage() throws {
        let handle = try LoopHandle()
        let mailbox = Mailbox<Int>(handle)
        let received = Atomic<Int>(0)
        let thread = try LoopThread(name: "test", handle: handle) { loop in
            loop.attach(mailbox) { _ in
                if received.add(1, ordering: .relaxed).newValue == 4_000 { handle.stop() }
            }
            return nil
        }
        let senders = try (0..<4).map { _ in
            try LoopThread(name: "sender") { loop in
                for number in 0..<1_000 { mailbox.post(number) }
                loop.handle.stop()
                return nil
            }
        }
        for sender in senders { sender.join() }
        thread.join()
        #expect(received.load(ordering: .relaxed) == 4_000)
    }

    /// If filling the thread's loop fails, its creator gets the error and the thread has ended.
    @Test func aThreadThatCannotBeFilledIsTold() throws {
        let handle = try LoopHandle()
        let kept = Atomic<Int>(0)
        func start(_ fails: Bool) throws(ReactorError) -> LoopThread {
            try LoopThread(
                name: "test", handle: handle,
                filling: { loop throws(ReactorError) in
                    kept.add(1, ordering: .relaxed)
                    if fails { throw ReactorError("epoll_ctl", ENOSPC) }
                    return nil
                })
        }
        let thread = try start(false)
        #expect(kept.load(ordering: .relaxed) == 1, "it is filled when it is there")
        thread.stopAndJoin()
        let error = #expect(throws: ReactorError.self) { try start(true) }
        #expect(error?.code == ENOSPC)
    }

    /// The eventfd is never read, so an old event must not be reported again, or the loop would spin.
    @Test func aLoopWithoutMailWaits() throws {
        let handle = try LoopHandle()
        let loop = try EventLoop(handle: handle)
        let mailbox = Mailbox<Int>(handle)
        var mail: [Int] = []
        loop.attach(mailbox) { mail.append($0) }
        for number in 0..<3 {
            mailbox.post(number)
            loop.tick(waitingAtMost: .seconds(5))
            #expect(mail.count == number + 1)
            let began = Instant.read()
            loop.tick(waitingAtMost: .milliseconds(20))
            #expect(Instant.read().duration(since: began) >= .milliseconds(15), "message \(number) woke it twice")
        }
    }

    /// Although it is never read, the eventfd must report every write: each message reaches a waiting loop long before its
    /// pulse.
    @Test func everyMessageWakesALoopThatWaits() throws {
        let handle = try LoopHandle()
        let loop = try EventLoop(handle: handle)
        let mailbox = Mailbox<Int>(handle)
        var mail: [Int] = []
        loop.attach(mailbox) { mail.append($0) }
        loop.tick(waitingAtMost: .zero)
        let taken = Atomic<Int>(0)
        let sender = try LoopThread(name: "sender") { sender in
            for number in 0..<200 {
                while taken.load(ordering: .acquiring) < number { sched_yield() }
                mailbox.post(number)
            }
            sender.handle.stop()
            return nil
        }
        for number in 0..<200 {
            // Without its wake-up, the message would wait until the tick ends. (A message that came as the loop began to
            // wait may already be taken; its wake-up then causes a tick without mail.)
            let began = Instant.read()
            while mail.count == number { loop.tick(waitingAtMost: .seconds(60)) }
            #expect(mail.count == number + 1)
            #expect(Instant.read().duration(since: began) < .seconds(60))
            taken.store(number + 1, ordering: .releasing)
        }
        sender.join()
    }

    /// Mail posted before something became readable is taken first, even if the loop was awake and nobody wrote to its
    /// eventfd.
    @Test func mailStandsBeforeWhatIsReady() throws {
        let handle = try LoopHandle()
        let loop = try EventLoop(handle: handle)
        let mailbox = Mailbox<String>(handle)
        let (ours, theirs) = makePair()
        defer {
            close(ours)
            close(theirs)
        }
        let witness = Witness()
        loop.attach(mailbox) { witness.seen.append($0) }
        loop.tick(waitingAtMost: .zero)
        try loop.add(witness, descriptor: ours, interest: .readable)
        mailbox.post("before")
        #expect(send(theirs, "x", 1, 0) == 1)
        loop.tick(waitingAtMost: .seconds(60))
        #expect(witness.seen == ["before", "ready 1"])
    }

    /// Regression: a database connection that was still connecting when its loop stopped kept that database from ending.
    @Test func aLoopThatHasEndedKeepsNothing() throws {
        let (ours, theirs) = makePair()
        defer { close(theirs) }
        let thread = try LoopThread(name: "test") { loop in
            let owner = Owner(descriptor: ours, loop: loop)
            do {
                try loop.add(owner, descriptor: ours, interest: .readable)
            } catch {
                Issue.record(error)
            }
            loop.handle.stop()
            return owner
        }
        thread.join()
        // A child started by another test has a copy of the descriptor until its exec.
        var entry = pollfd(fd: theirs, events: Int16(POLLIN), revents: 0)
        #expect(poll(&entry, 1, 30_000) == 1)
        var byte: UInt8 = 0
        #expect(recv(theirs, &byte, 1, 0) == 0, "the other end of the socket is closed")
    }

    @Test func aTakenPortIsToldInOneLine() throws {
        let first = try ListeningSocket(host: "127.0.0.1", port: 0)
        let error = #expect(throws: ListenError.self) { try ListeningSocket(host: "127.0.0.1", port: first.port) }
        #expect(error?.description.hasSuffix("another program has this port; stop it, or choose another") == true)
        #expect(error?.asksForAnother == true)
    }
}
