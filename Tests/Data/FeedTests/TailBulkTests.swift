import Bytes
import Feed
import Sync
import Testing

/// Bulks beside the tail, step by step, at the interleavings that matter.
@Suite(.timeLimit(.minutes(15))) struct TailBulkTests {
    private let a = StreamID(user: "a", topic: "t")
    private let b = StreamID(user: "b", topic: "t")

    private func page(_ rows: (StreamID, Int64)...) -> ModelPage {
        ModelPage(rows: rows.map { ModelDatabase.Entry(stream: $0.0, offset: $0.1, xid: 0, data: "d\($0.1)") })
    }

    private func event(_ stream: StreamID, _ offset: Int64) -> FeedOutput {
        .event(StreamEvent(stream: stream, offset: offset, name: "changed", data: SharedBytes.copy("d\(offset)")))
    }

    private func position(_ offset: Int64) -> StreamPosition { StreamPosition(epoch: "e", offset: offset) }

    /// A machine with `a` and `b` live at 0, whose tail has met a bulk between `s0` and `s1`.
    private func overflowed() throws -> Tail {
        var tail = Tail(pageRows: 3)
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: "s0", epoch: "e1")
        for stream in [a, b] { tail.watch(stream, serial: 1, &outputs) }
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(0), position(0)], &outputs)
        #expect(tail.nextQuery(.tail) == .tail(previous: "s0"))
        try tail.tailOverflowed(snapshot: "s1", epoch: "e1")
        return tail
    }

    private func readTail(
        _ tail: inout Tail, after previous: String, _ page: ModelPage, _ snapshot: String, _ outputs: inout [FeedOutput]
    ) throws {
        tail.wake()
        #expect(tail.nextQuery(.tail) == .tail(previous: previous))
        try tail.tailReceived(page, snapshot: snapshot, epoch: "e1", &outputs)
    }

    @Test func othersGoOnWhileABulkIsRead() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        try readTail(&tail, after: "s1", page((b, 1)), "s2", &outputs)
        #expect(outputs == [event(b, 1)], "though the bulk has not even begun")
        let bulk = try nextBulk(&tail)
        #expect((bulk.previous, bulk.upTo) == ("s0", "s1"))
        #expect(tail.nextBulk() == nil)
        try tail.bulkReceived(page((a, 1), (a, 2), (a, 3)), of: bulk.number, &outputs)
        try readTail(&tail, after: "s2", page((b, 2)), "s3", &outputs)
        try tail.bulkReceived(page((a, 4)), of: bulk.number, &outputs)
        tail.bulkEnded(bulk.number)
        #expect(
            outputs == [event(b, 1), event(a, 1), event(a, 2), event(a, 3), event(b, 2), event(a, 4)])
        #expect(tail.bulk == nil)
        #expect(tail.nextQuery([.tail, .replay]) == nil)
    }

    @Test func aLiveEventBeforeItsBulkIsHealed() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        try tail.bulkReceived(page((a, 1)), of: bulk.number, &outputs)
        try readTail(&tail, after: "s1", page((a, 4)), "s2", &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(a, 1), after: 1))
        // Its bulk continues meanwhile, and its events are not delivered twice.
        try tail.bulkReceived(page((a, 2), (a, 3), (b, 1)), of: bulk.number, &outputs)
        #expect(outputs == [event(a, 1), event(b, 1)])
        try tail.replayReceived(page((a, 2), (a, 3), (a, 4)), &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(a, 1), after: 4))
        try tail.replayReceived(page(), &outputs)
        try tail.bulkReceived(page((a, 3), (a, 4)), of: bulk.number, &outputs)
        tail.bulkEnded(bulk.number)
        #expect(outputs == [event(a, 1), event(b, 1), event(a, 2), event(a, 3), event(a, 4)])
        #expect(tail.gapCount == 0)
    }

    /// The replay of `a` was in flight before: its answer lacks later commits, which a bulk has.
    @Test func aReplayOlderThanTheBulkIsNoLoss() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        try readTail(&tail, after: "s1", page((a, 4)), "s2", &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(a, 1), after: 0))
        try tail.replayReceived(page((a, 1), (a, 2), (a, 3)), &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(a, 1), after: 3))
        // The cursor returns a row that is newer than that replay's answer.
        try tail.bulkReceived(page((a, 5)), of: bulk.number, &outputs)
        try tail.replayReceived(page((a, 4)), &outputs)
        #expect(outputs == (1...4).map { event(a, $0) })
        #expect(tail.nextQuery([]) == nil, "no position is asked for: the log is not cut")
        try readTail(&tail, after: "s2", page((a, 5)), "s3", &outputs)
        #expect(outputs.last == event(a, 5))
    }

    @Test func aLostBulkIsMadeGoodByPositions() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        try tail.bulkReceived(page((a, 1)), of: bulk.number, &outputs)
        tail.wake()
        _ = tail.nextQuery(.tail)
        tail.bulkFailed(bulk.number)
        // The tail in flight is answered while all streams are compared: its rows are covered.
        try tail.tailReceived(page((b, 3)), snapshot: "s2", epoch: "e1", &outputs)
        #expect(outputs == [event(a, 1)])
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 1), Ticket(b, 1)]))
        try tail.positionsReceived([position(2), position(3)], &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(a, 1), after: 1))
        try tail.replayReceived(page((a, 2)), &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(b, 1), after: 0))
        try tail.replayReceived(page((b, 1), (b, 2), (b, 3)), &outputs)
        #expect(tail.nextQuery(.replay) == .replay(Ticket(b, 1), after: 3))
        try tail.replayReceived(page(), &outputs)
        #expect(outputs == [event(a, 1), event(a, 2), event(b, 1), event(b, 2), event(b, 3)])
        #expect(tail.nextBulk() == nil)
        #expect(tail.isCaughtUp)
    }

    /// However often bulks fail before all positions are read, each stream is requested only once more.
    @Test func bulksThatFailDrawNoTicketTwice() throws {
        var tail = Tail(pageRows: 3)
        var outputs: [FeedOutput] = []
        let watches = 2_500
        tail.connected(snapshot: "s", epoch: "e1")
        for number in 0..<watches { tail.watch(StreamID(user: "u\(number)", topic: "t"), serial: 1, &outputs) }
        while case .positions(let tickets)? = tail.nextQuery([]) {
            try tail.positionsReceived(tickets.map { _ in position(0) }, &outputs)
        }
        for round in 1...5 {
            tail.wake()
            guard case .tail? = tail.nextQuery(.tail) else {
                Issue.record("a tail gets every other turn")
                return
            }
            try tail.tailOverflowed(snapshot: "s\(round)", epoch: "e1")
            tail.bulkFailed(try nextBulk(&tail).number)
            #expect(tail.waitingTickets == watches)
            guard case .positions(let tickets)? = tail.nextQuery([]) else {
                Issue.record("positions are asked for")
                return
            }
            try tail.positionsReceived(tickets.map { _ in position(0) }, &outputs)
        }
    }

    @Test func pagesOfAnOldBulkAreIgnored() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        tail.disconnected()
        #expect(tail.bulk == nil)
        tail.connected(snapshot: "s9", epoch: "e1")
        try tail.bulkReceived(page((a, 1)), of: bulk.number, &outputs)
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(0), position(0)], &outputs)
        // Live again, perhaps on another server.
        try tail.bulkReceived(page((a, 1)), of: bulk.number, &outputs)
        tail.bulkFailed(bulk.number)
        #expect(outputs == [])
        #expect(tail.nextQuery([]) == nil, "nothing is asked about for its sake")
    }

    @Test func aBulkBehindABulk() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let first = try nextBulk(&tail)
        tail.wake()
        _ = tail.nextQuery(.tail)
        try tail.tailOverflowed(snapshot: "s2", epoch: "e1")
        try readTail(&tail, after: "s2", page((b, 1)), "s3", &outputs)
        tail.wake()
        _ = tail.nextQuery(.tail)
        try tail.tailOverflowed(snapshot: "s4", epoch: "e1")
        #expect(tail.nextBulk() == nil)
        tail.bulkEnded(first.number)
        let second = try nextBulk(&tail)
        #expect((second.previous, second.upTo) == ("s1", "s4"), "both in one")
        try tail.bulkReceived(page((b, 1), (b, 2)), of: second.number, &outputs)
        tail.bulkEnded(second.number)
        #expect(outputs == [event(b, 1), event(b, 2)])
    }

    @Test func aStreamWatchedAmidABulkIsCoveredByItsPosition() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        tail.watch(a, serial: 2, &outputs)
        try tail.bulkReceived(page((a, 1)), of: bulk.number, &outputs)
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 2)]))
        try tail.positionsReceived([position(2)], &outputs)
        try tail.bulkReceived(page((a, 1), (a, 2)), of: bulk.number, &outputs)
        #expect(outputs == [.positioned(a, serial: 2, position(2))])
    }

    /// All streams are compared with the database: no bulk is needed, and its rows are of the old epoch.
    @Test(arguments: [true, false])
    func aNewEpochEndsABulk(_ isSeenByAnOverflow: Bool) throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        tail.wake()
        _ = tail.nextQuery(.tail)
        if isSeenByAnOverflow {
            try tail.tailOverflowed(snapshot: "s2", epoch: "e2")
        } else {
            try tail.tailReceived(page((a, 9)), snapshot: "s2", epoch: "e2", &outputs)
        }
        #expect(tail.bulk == nil)
        #expect(tail.nextBulk() == nil)
        try tail.bulkReceived(page((a, 1)), of: bulk.number, &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 1), Ticket(b, 1)]))
    }

    /// Missing rows are requested from the log, which decides.
    @Test func aGapInABulkIsHealed() throws {
        var tail = try overflowed()
        var outputs: [FeedOutput] = []
        let bulk = try nextBulk(&tail)
        try tail.bulkReceived(page((a, 2), (a, 3)), of: bulk.number, &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery(.replay) == .replay(Ticket(a, 1), after: 0))
    }

    @Test func anOverflowOfNothingIsMalformed() throws {
        var tail = try overflowed()
        #expect(throws: MalformedAnswer.self) { try tail.tailOverflowed(snapshot: "s2", epoch: "e1") }
    }
}

/// Starts the next bulk and returns it.
func nextBulk(_ tail: inout Tail) throws -> Bulk {
    let bulk = tail.nextBulk()
    return try #require(bulk)
}
