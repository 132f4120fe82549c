import Bytes
import Feed
import Sync
import TestSupport
import Testing

/// The position check, step by step: no alarm for late events, and nothing missed for good.
@Suite(.timeLimit(.minutes(15))) struct TailChecks {
    private let a = StreamID(user: "a", topic: "t")
    private let b = StreamID(user: "b", topic: "t")

    private func page(_ rows: (StreamID, Int64)...) -> ModelPage {
        ModelPage(rows: rows.map { ModelDatabase.Entry(stream: $0.0, offset: $0.1, xid: 0, data: "d\($0.1)") })
    }

    private func event(_ stream: StreamID, _ offset: Int64) -> FeedOutput {
        .event(StreamEvent(stream: stream, offset: offset, name: "changed", data: SharedBytes.copy("d\(offset)")))
    }

    private func position(_ offset: Int64, epoch: String = "e") -> StreamPosition {
        StreamPosition(epoch: epoch, offset: offset)
    }

    /// A machine with these streams live, each watched by serial 1, and nothing more to read.
    private func live(at offset: Int64, _ streams: StreamID...) throws -> Tail {
        var tail = Tail(pageRows: 3)
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: "s0", epoch: "e1")
        for stream in streams { tail.watch(stream, serial: 1, &outputs) }
        _ = tail.nextQuery([])
        try tail.positionsReceived(streams.map { _ in position(offset) }, &outputs)
        _ = tail.nextQuery(.tail)
        try tail.tailReceived(page(), snapshot: "s0", epoch: "e1", &outputs)
        #expect(tail.nextQuery(.tail) == nil)
        return tail
    }

    @Test func whatIsUpToDateIsNoAlarm() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        #expect(tail.nextQuery([]) == .check([Ticket(a, 1)]))
        #expect(tail.isCaughtUp)
        try tail.positionsReceived([position(3)], &outputs)
        #expect(tail.nextQuery(.tail) == nil)
        #expect(outputs == [])
        #expect(tail.gapCount == 0)
    }

    @Test func aCommitThatTheTailHasStillToReadIsNoAlarm() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(4)], &outputs)
        // Nobody has woken the tail.
        #expect(tail.nextQuery(.tail) == .tail(previous: "s0"))
        try tail.tailReceived(page((a, 4)), snapshot: "s1", epoch: "e1", &outputs)
        #expect(outputs == [event(a, 4)])
        #expect(tail.gapCount == 0)
        #expect(tail.nextQuery([.tail, .replay]) == nil)
    }

    /// A bulk may hold what a position shows: nothing is judged before the last bulk has ended.
    @Test func whatIsInABulkIsNoAlarm() throws {
        var tail = try live(at: 0, a, b)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        #expect(tail.nextQuery(.tail) == .check([Ticket(b, 1), Ticket(a, 1)]))
        try tail.positionsReceived([position(3), position(2)], &outputs)
        #expect(tail.nextQuery(.tail) == .tail(previous: "s0"))
        try tail.tailOverflowed(snapshot: "s1", epoch: "e1")
        let first = try nextBulk(&tail)
        try tail.bulkReceived(page((a, 1), (a, 2)), of: first.number, &outputs)
        // Tails end meanwhile, and another bulk comes.
        for snapshot in ["s2", "s3"] {
            tail.wake()
            _ = tail.nextQuery(.tail)
            try tail.tailReceived(page(), snapshot: snapshot, epoch: "e1", &outputs)
        }
        tail.wake()
        _ = tail.nextQuery(.tail)
        try tail.tailOverflowed(snapshot: "s4", epoch: "e1")
        tail.bulkEnded(first.number)
        #expect(tail.gapCount == 0)
        let second = try nextBulk(&tail)
        try tail.bulkReceived(page((b, 1), (b, 2), (b, 3)), of: second.number, &outputs)
        tail.bulkEnded(second.number)
        #expect(tail.gapCount == 0)
        #expect(outputs == [event(a, 1), event(a, 2), event(b, 1), event(b, 2), event(b, 3)])
        // The check is over, and the next one finds the event that never came.
        tail.checkDue()
        _ = tail.nextQuery(.tail)
        try tail.positionsReceived([position(3), position(3)], &outputs)
        _ = tail.nextQuery(.tail)
        try tail.tailReceived(page(), snapshot: "s5", epoch: "e1", &outputs)
        #expect(tail.gapCount == 1)
    }

    /// The tail in flight brings what the positions showed, so the end of the bulk must not raise the alarm.
    @Test func aTailUnderWayWhenABulkEndsProvesNothing() throws {
        var tail = try live(at: 0, a)
        var outputs: [FeedOutput] = []
        tail.wake()
        _ = tail.nextQuery(.tail)
        try tail.tailOverflowed(snapshot: "s1", epoch: "e1")
        let bulk = try nextBulk(&tail)
        tail.checkDue()
        _ = tail.nextQuery(.tail)
        try tail.positionsReceived([position(1)], &outputs)
        #expect(tail.nextQuery(.tail) == .tail(previous: "s1"))
        tail.bulkEnded(bulk.number)
        #expect(tail.gapCount == 0)
        try tail.tailReceived(page((a, 1)), snapshot: "s2", epoch: "e1", &outputs)
        #expect(outputs == [event(a, 1)])
        #expect(tail.gapCount == 0)
    }

    @Test func aRowThatNeverCameIsHealedAndCounted() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(5)], &outputs)
        _ = tail.nextQuery(.tail)
        try tail.tailReceived(page(), snapshot: "s1", epoch: "e1", &outputs)
        #expect(tail.gapCount == 1)
        #expect(tail.nextQuery([.tail, .replay]) == .replay(Ticket(a, 1), after: 3))
        try tail.replayReceived(page((a, 4), (a, 5)), &outputs)
        #expect(outputs == [event(a, 4), event(a, 5)])
        tail.checkDue()
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(5)], &outputs)
        #expect(tail.nextQuery([.tail, .replay]) == nil)
        #expect(tail.gapCount == 1)
    }

    @Test(arguments: [("f", 3 as Int64), ("f", 1), ("f", 9), ("e", 2)])
    func anotherPastIsAResetWithoutAReconnect(_ epoch: String, _ top: Int64) throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(top, epoch: epoch)], &outputs)
        #expect(outputs == [.reset(a, position(top, epoch: epoch))])
        tail.wake()
        _ = tail.nextQuery(.tail)
        try tail.tailReceived(page((a, top), (a, top + 1)), snapshot: "s1", epoch: "e1", &outputs)
        #expect(outputs.dropFirst() == [event(a, top + 1)])
        #expect(tail.gapCount == 0)
    }

    @Test func aLaterWatchIsNotCompared() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        _ = tail.nextQuery([])
        tail.unwatch(a)
        tail.watch(a, serial: 2, &outputs)
        try tail.positionsReceived([position(9, epoch: "f")], &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 2)]))
        // Again, while the tail's answer is awaited.
        try tail.positionsReceived([position(3)], &outputs)
        tail.checkDue()
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(4)], &outputs)
        _ = tail.nextQuery(.tail)
        tail.watch(a, serial: 3, &outputs)
        try tail.tailReceived(page(), snapshot: "s1", epoch: "e1", &outputs)
        #expect(tail.gapCount == 0)
    }

    @Test func aLostConnectionEndsACheck() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(4)], &outputs)
        tail.disconnected()
        tail.checkDue()
        tail.connected(snapshot: "s5", epoch: "e1")
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 1)]))
        try tail.positionsReceived([position(3)], &outputs)
        #expect(tail.nextQuery(.tail) == .tail(previous: "s5"))
        try tail.tailReceived(page(), snapshot: "s6", epoch: "e1", &outputs)
        #expect(tail.gapCount == 0)
    }

    /// Each stream once per round, one lot at a time, one check at a time.
    @Test func lotsComeRound() throws {
        var tail = Tail()
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: "s0", epoch: "e1")
        for number in 0..<2_500 { tail.watch(StreamID(user: "\(number)", topic: "t"), serial: 1, &outputs) }
        while case .positions(let tickets)? = tail.nextQuery([]) {
            try tail.positionsReceived(tickets.map { _ in position(0) }, &outputs)
        }
        #expect(tail.checkLots == 3)
        // A third of the watches end: they cost no turn.
        for number in 0..<800 { tail.unwatch(StreamID(user: "\(number)", topic: "t")) }
        #expect(tail.checkLots == 2)
        var seen: [StreamID] = []
        for _ in 0..<2 {
            tail.checkDue()
            tail.checkDue()
            guard case .check(let lot)? = tail.nextQuery([]) else { return #expect(Bool(false), "no check") }
            tail.checkDue()
            #expect(tail.nextQuery([]) == nil)
            #expect(lot.count <= FeedLimits.positionsPerQuery)
            seen += lot.map(\.stream)
            try tail.positionsReceived(lot.map { _ in position(0) }, &outputs)
            #expect(tail.nextQuery([]) == nil)
        }
        #expect(Set(seen).count == 1_700)
        // The second lot has begun the next round, and contains no stream twice.
        #expect(seen.count == 2_000)
    }

    /// Watches end and begin between the lots, and take one another's indexes.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func aRoundAsksAboutAllWhoStay(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var tail = Tail()
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: "s0", epoch: "e1")
        func stream(_ number: Int) -> StreamID { StreamID(user: "\(number)", topic: "t") }
        func settle() throws {
            while case .positions(let tickets)? = tail.nextQuery([]) {
                try tail.positionsReceived(tickets.map { _ in position(0) }, &outputs)
            }
        }
        var watched = Set(0..<3 * FeedLimits.positionsPerQuery)
        for number in watched.sorted() { tail.watch(stream(number), serial: 1, &outputs) }
        try settle()
        var staying = watched
        var asked: Set<StreamID> = []
        var last = watched.count
        for _ in 0..<4 {
            for number in watched.sorted() where Int.random(in: 0..<5, using: &random) == 0 {
                tail.unwatch(stream(number))
                watched.remove(number)
                staying.remove(number)
            }
            for _ in 0..<Int.random(in: 0..<200, using: &random) {
                tail.watch(stream(last), serial: 1, &outputs)
                watched.insert(last)
                last += 1
            }
            try settle()
            tail.checkDue()
            guard case .check(let lot)? = tail.nextQuery([]) else { return #expect(Bool(false), "no check") }
            asked.formUnion(lot.map(\.stream))
            try tail.positionsReceived(lot.map { _ in position(0) }, &outputs)
        }
        #expect(asked.isSuperset(of: staying.map(stream)), "seed \(seed)")
    }

    @Test func fewStreamsAmongEndedWatchesAreAskedOnce() throws {
        var tail = try live(at: 0, a, b)
        var outputs: [FeedOutput] = []
        for serial in 2..<6 as Range<UInt32> { tail.watch(b, serial: serial, &outputs) }
        tail.unwatch(b)
        tail.checkDue()
        _ = tail.nextQuery([])
        #expect(tail.nextQuery([]) == nil)
        try tail.positionsReceived([position(0)], &outputs)
        #expect(outputs == [])
    }

    @Test func whatTheLogShowedFirstIsAskedAtOnce() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.suspected(a, otherThan: Epoch("old"))
        tail.suspected(b, otherThan: Epoch("e"))
        #expect(tail.nextQuery([]) == nil)
        tail.suspected(a, otherThan: Epoch("e"))
        tail.suspected(a, otherThan: Epoch("e"))
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 1)]))
        try tail.positionsReceived([position(3, epoch: "f")], &outputs)
        #expect(outputs == [.reset(a, position(3, epoch: "f"))])
        // A wrong suspicion has no effect.
        tail.suspected(a, otherThan: Epoch("f"))
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 1)]))
        try tail.positionsReceived([position(3, epoch: "f")], &outputs)
        #expect(outputs.count == 1)
        #expect(tail.nextQuery([.tail, .replay]) == nil)
    }

    @Test func anAnswerOfAnotherLengthIsMalformed() throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.checkDue()
        _ = tail.nextQuery([])
        #expect(throws: MalformedAnswer.self) { try tail.positionsReceived([], &outputs) }
    }
}
