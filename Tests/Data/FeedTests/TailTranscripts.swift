import Bytes
import Feed
import Sync
import Testing

/// The tail machine's dialogue with the database, step by step, at the interleavings that matter.
@Suite(.timeLimit(.minutes(15))) struct TailTranscripts {
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

    /// A machine connected at `snapshot`, with these streams live at `offset` and nothing more to read.
    private func live(at offset: Int64, snapshot: String = "s0", _ streams: StreamID...) throws -> Tail {
        var tail = Tail(pageRows: 3)
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: snapshot, epoch: "e1")
        for stream in streams { tail.watch(stream, serial: 1, &outputs) }
        #expect(tail.nextQuery(.all) == .tail(previous: snapshot))
        try tail.tailReceived(page(), snapshot: snapshot, epoch: "e1", &outputs)
        if !streams.isEmpty {
            #expect(tail.nextQuery(.all) == .positions(streams.map { Ticket($0, 1) }))
            try tail.positionsReceived(streams.map { _ in position(offset) }, &outputs)
        }
        #expect(outputs == streams.map { .positioned($0, serial: 1, position(offset)) })
        #expect(tail.nextQuery(.all) == nil)
        #expect(tail.isCaughtUp)
        return tail
    }

    @Test func deliversWhatIsNewOnceAndInOrder() throws {
        var tail = try live(at: 4, a)
        var outputs: [FeedOutput] = []
        tail.wake()
        #expect(tail.nextQuery(.all) == .tail(previous: "s0"))
        try tail.tailReceived(page((a, 4), (a, 5)), snapshot: "s1", epoch: "e1", &outputs)
        tail.wake()
        #expect(tail.nextQuery(.all) == .tail(previous: "s1"))
        try tail.tailReceived(page((a, 5), (a, 6), (b, 9)), snapshot: "s2", epoch: "e1", &outputs)
        #expect(outputs == [event(a, 5), event(a, 6)])
    }

    @Test func commitBetweenSnapshotAndPositionsIsDroppedOnce() throws {
        var tail = Tail(pageRows: 3)
        var outputs: [FeedOutput] = []
        tail.watch(a, serial: 7, &outputs)
        #expect(tail.nextQuery(.all) == nil)
        tail.connected(snapshot: "s0", epoch: "e1")
        #expect(tail.nextQuery([.replay]) == .positions([Ticket(a, 7)]))
        // Offset 1 was committed after s0, and the position shows it.
        try tail.positionsReceived([position(1)], &outputs)
        #expect(tail.nextQuery(.all) == .tail(previous: "s0"))
        try tail.tailReceived(page((a, 1), (a, 2)), snapshot: "s1", epoch: "e1", &outputs)
        #expect(outputs == [.positioned(a, serial: 7, position(1)), event(a, 2)])
    }

    @Test func aTailWaitsForThePositionsUnderWay() throws {
        var tail = try live(at: 0)
        var outputs: [FeedOutput] = []
        tail.watch(a, serial: 1, &outputs)
        #expect(tail.nextQuery(.all) == .positions([Ticket(a, 1)]))
        // The snapshot of that question is taken, and then an event commits: a tail would show it, and find no position.
        tail.wake()
        #expect(tail.nextQuery(.all) == nil)
        try tail.positionsReceived([position(0)], &outputs)
        #expect(tail.nextQuery(.all) == .tail(previous: "s0"))
        try tail.tailReceived(page((a, 1)), snapshot: "s1", epoch: "e1", &outputs)
        #expect(outputs == [.positioned(a, serial: 1, position(0)), event(a, 1)])
    }

    @Test func wakeDuringTailReadsAgain() throws {
        var tail = try live(at: 0, a)
        var outputs: [FeedOutput] = []
        tail.wake()
        _ = tail.nextQuery(.all)
        tail.wake()
        #expect(tail.nextQuery(.all) == nil)
        try tail.tailReceived(page(), snapshot: "s1", epoch: "e1", &outputs)
        #expect(tail.nextQuery(.all) == .tail(previous: "s1"))
        try tail.tailReceived(page(), snapshot: "s2", epoch: "e1", &outputs)
        #expect(tail.nextQuery(.all) == nil)
    }

    @Test func staleAnswersAreIgnored() throws {
        var tail = try live(at: 0)
        var outputs: [FeedOutput] = []
        tail.watch(a, serial: 1, &outputs)
        #expect(tail.nextQuery(.all) == .positions([Ticket(a, 1)]))
        tail.unwatch(a)
        tail.watch(a, serial: 2, &outputs)
        try tail.positionsReceived([position(3)], &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery(.all) == .positions([Ticket(a, 2)]))
        try tail.positionsReceived([position(5)], &outputs)
        #expect(outputs == [.positioned(a, serial: 2, position(5))])

        // Again, with a replay in flight.
        tail.connected(snapshot: "s1", epoch: "e1")
        outputs = []
        #expect(tail.nextQuery([.replay]) == .positions([Ticket(a, 2)]))
        try tail.positionsReceived([position(6)], &outputs)
        #expect(tail.nextQuery([.replay]) == .replay(Ticket(a, 2), after: 5))
        tail.unwatch(a)
        tail.watch(a, serial: 3, &outputs)
        try tail.replayReceived(page((a, 6)), &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery([.replay]) == .positions([Ticket(a, 3)]))
    }

    @Test func rowsDuringHealingAreCoveredByTheReplay() throws {
        var tail = try live(at: 0, a)
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: "s1", epoch: "e1")
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(4)], &outputs)
        #expect(tail.nextQuery([.replay]) == .replay(Ticket(a, 1), after: 0))
        try tail.replayReceived(page((a, 1), (a, 2), (a, 3)), &outputs)
        // A tail between the replay's pages must not deliver 5.
        #expect(tail.nextQuery([.tail]) == .tail(previous: "s1"))
        try tail.tailReceived(page((a, 5)), snapshot: "s2", epoch: "e1", &outputs)
        #expect(tail.nextQuery(.all) == .replay(Ticket(a, 1), after: 3))
        try tail.replayReceived(page((a, 4), (a, 5)), &outputs)
        #expect(outputs == (1...5).map { event(a, $0) })
        #expect(tail.isCaughtUp)
    }

    @Test func newEpochIsSeenWithTheTail() throws {
        var tail = try live(at: 4, a, b)
        var outputs: [FeedOutput] = []
        tail.wake()
        _ = tail.nextQuery(.all)
        // The row is of the new epoch and must not be delivered as one of the old.
        try tail.tailReceived(page((a, 5)), snapshot: "s1", epoch: "e2", &outputs)
        #expect(outputs == [])
        #expect(!tail.isCaughtUp)
        guard case .positions(let tickets)? = tail.nextQuery(.all) else { throw MalformedAnswer() }
        #expect(Set(tickets) == [Ticket(a, 1), Ticket(b, 1)])
        let fresh = { StreamPosition(epoch: "fresh", offset: $0) }
        try tail.positionsReceived(tickets.map { fresh($0.stream == a ? 5 : 4) }, &outputs)
        #expect(outputs.count == 2)
        #expect(outputs.contains(.reset(a, fresh(5))))
        #expect(outputs.contains(.reset(b, fresh(4))))
        // From here on the new epoch is the known one.
        tail.wake()
        _ = tail.nextQuery(.all)
        try tail.tailReceived(page((a, 6)), snapshot: "s2", epoch: "e2", &outputs)
        #expect(outputs.last == event(a, 6))
        #expect(tail.nextQuery(.all) == nil)
    }

    @Test func aGapInTheTailIsHealed() throws {
        var tail = try live(at: 1, a)
        var outputs: [FeedOutput] = []
        tail.wake()
        _ = tail.nextQuery(.all)
        try tail.tailReceived(page((a, 3), (a, 4)), snapshot: "s1", epoch: "e1", &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery(.all) == .replay(Ticket(a, 1), after: 1))
        try tail.replayReceived(page((a, 2), (a, 3)), &outputs)
        // The replay ends below 4, which the tail has shown: the log is cut.
        #expect(tail.nextQuery(.all) == .positions([Ticket(a, 1)]))
        try tail.positionsReceived([position(4)], &outputs)
        #expect(outputs == [event(a, 2), event(a, 3), .reset(a, position(4))])
    }

    @Test(arguments: [("e", 2 as Int64), ("f", 3), ("f", 9)])
    func anotherPastIsAReset(_ epoch: String, _ top: Int64) throws {
        var tail = try live(at: 3, a)
        var outputs: [FeedOutput] = []
        tail.disconnected()
        tail.connected(snapshot: "s9", epoch: "e1")
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(top, epoch: epoch)], &outputs)
        #expect(outputs == [.reset(a, position(top, epoch: epoch))])
        #expect(tail.nextQuery(.all) == .tail(previous: "s9"))
        try tail.tailReceived(page((a, top), (a, top + 1)), snapshot: "s10", epoch: "e1", &outputs)
        #expect(outputs.last == event(a, top + 1))
    }

    @Test func aReplayThatBeginsTooLateIsAReset() throws {
        var tail = try live(at: 1, a)
        var outputs: [FeedOutput] = []
        tail.connected(snapshot: "s1", epoch: "e1")
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(9)], &outputs)
        _ = tail.nextQuery([.replay])
        try tail.replayReceived(page((a, 7), (a, 8), (a, 9)), &outputs)
        #expect(outputs == [])
        #expect(tail.nextQuery([.replay]) == .positions([Ticket(a, 1)]))
        try tail.positionsReceived([position(9)], &outputs)
        #expect(outputs == [.reset(a, position(9))])
    }

    @Test func aWantedTailGetsEveryOtherTurn() throws {
        var tail = try live(at: 0)
        var outputs: [FeedOutput] = []
        for round in 0..<3 {
            tail.wake()
            tail.watch(StreamID(user: "u\(round)", topic: "t"), serial: 1, &outputs)
            let first = tail.nextQuery(.all)
            guard case .tail? = first else { return #expect(first == nil, "the tail had no turn") }
            try tail.tailReceived(page(), snapshot: "s", epoch: "e1", &outputs)
            tail.wake()
            guard case .positions? = tail.nextQuery(.all) else { return #expect(Bool(false), "positions had no turn") }
            try tail.positionsReceived([position(0)], &outputs)
            guard case .tail? = tail.nextQuery(.all) else { return #expect(Bool(false), "the tail had no turn") }
            try tail.tailReceived(page(), snapshot: "s", epoch: "e1", &outputs)
            #expect(tail.nextQuery(.all) == nil)
        }
    }

    @Test func withoutPermitOnlyPositionsAreRead() throws {
        var tail = try live(at: 0)
        var outputs: [FeedOutput] = []
        tail.wake()
        #expect(tail.nextQuery([]) == nil)
        tail.watch(a, serial: 1, &outputs)
        #expect(tail.nextQuery([]) == .positions([Ticket(a, 1)]))
    }

    @Test func boundOnStreams() {
        var tail = Tail(streamsMax: 2)
        var outputs: [FeedOutput] = []
        tail.watch(a, serial: 1, &outputs)
        tail.watch(b, serial: 2, &outputs)
        tail.watch(a, serial: 3, &outputs)
        #expect(outputs == [])
        let c = StreamID(user: "c", topic: "t")
        tail.watch(c, serial: 4, &outputs)
        #expect(outputs == [.refused(c, serial: 4, .hubFull)])
        tail.unwatch(a)
        tail.watch(c, serial: 5, &outputs)
        #expect(outputs.count == 1)
        #expect(tail.streamCount == 2)
    }

    @Test func boundOnStreamsOfAUser() {
        var tail = Tail(streamsMax: 4, streamsPerUserMax: 2)
        var outputs: [FeedOutput] = []
        func stream(_ user: String, _ topic: String) -> StreamID { StreamID(user: user, topic: topic) }
        tail.watch(stream("a", "x"), serial: 1, &outputs)
        tail.watch(stream("a", "y"), serial: 2, &outputs)
        tail.watch(stream("a", "x"), serial: 3, &outputs)
        #expect(outputs == [])
        tail.watch(stream("a", "z"), serial: 4, &outputs)
        #expect(outputs == [.refused(stream("a", "z"), serial: 4, .userFull)])
        for topic in ["x", "y"] { tail.watch(stream("b", topic), serial: 5, &outputs) }
        #expect(outputs.count == 1, "another user has as many of its own")
        tail.watch(stream("b", "z"), serial: 6, &outputs)
        #expect(outputs.last == .refused(stream("b", "z"), serial: 6, .userFull), "before the hub is full")
        // Streams that are not watched do not count.
        for _ in 0..<3 { tail.unwatch(stream("a", "z")) }
        tail.unwatch(stream("a", "x"))
        tail.unwatch(stream("a", "x"))
        tail.watch(stream("a", "z"), serial: 7, &outputs)
        #expect(outputs.count == 2)
        tail.watch(stream("a", "w"), serial: 8, &outputs)
        #expect(outputs.last == .refused(stream("a", "w"), serial: 8, .userFull))
    }

    /// However much one user has requested, another user's position is read with the next query.
    @Test func oneUsersStreamsDoNotDelayAnothers() throws {
        for isConnectedBefore in [true, false] {
            var tail = Tail(streamsPerUserMax: 100_000)
            var outputs: [FeedOutput] = []
            if isConnectedBefore { tail.connected(snapshot: "s0", epoch: "e1") }
            for number in 0..<50_000 {
                tail.watch(StreamID(user: "many", topic: "t\(number)"), serial: 1, &outputs)
            }
            tail.watch(a, serial: 1, &outputs)
            if !isConnectedBefore { tail.connected(snapshot: "s0", epoch: "e1") }
            guard case .positions(let first)? = tail.nextQuery([]) else { return #expect(Bool(false)) }
            #expect(first.count == FeedLimits.positionsPerQuery)
            #expect(first.contains(Ticket(a, 1)))
            try tail.positionsReceived(first.map { _ in position(0) }, &outputs)
            // Streams of other users keep coming, and those of the user with many continue.
            var asked = first.count - 1
            for round in 0..<8 {
                for number in 0..<FeedLimits.positionsPerQuery {
                    tail.watch(StreamID(user: "u\(round).\(number)", topic: "t"), serial: 1, &outputs)
                }
                guard case .positions(let next)? = tail.nextQuery([]) else { return #expect(Bool(false)) }
                asked += next.count { $0.stream.user == "many" }
                try tail.positionsReceived(next.map { _ in position(0) }, &outputs)
            }
            #expect(asked == first.count - 1 + 8 * FeedLimits.positionsPerQuery / 8)
            #expect(!tail.isCaughtUp)
        }
    }

    @Test func topicsAreReadOnEachConnectAndWhenWoken() {
        var topics = TopicWatch()
        func begins() -> Bool { topics.begins() }
        func received(_ published: PublishedTopics) -> PublishedTopics? { topics.received(published) }
        topics.wake()
        #expect(!begins(), "there is no connection")
        topics.connected()
        #expect(begins())
        #expect(topics.isBusy && !begins())
        let first = PublishedTopics(epoch: "e", topics: ["x"])
        // A topic is published while an answer without it is in flight.
        topics.wake()
        #expect(received(first) == first)
        #expect(begins())
        #expect(received(first) == nil, "nothing new")
        #expect(!begins())
        topics.disconnected()
        topics.connected()
        #expect(begins())
        let second = PublishedTopics(epoch: "f", topics: ["y"])
        #expect(received(second) == PublishedTopics(epoch: "f", topics: ["x", "y"]), "none is taken away")
        topics.wake()
        #expect(begins())
        let all = PublishedTopics(epoch: "f", topics: nil)
        #expect(received(all) == all)
        topics.wake()
        #expect(begins())
        #expect(received(second) == nil)
    }

    @Test func aNameWithNULIsRefused() {
        var tail = Tail()
        var outputs: [FeedOutput] = []
        let stream = StreamID(user: "demo\0x", topic: "adherence")
        tail.watch(stream, serial: 1, &outputs)
        #expect(outputs == [.refused(stream, serial: 1, .notNameable)])
    }

    @Test func positionsAreReadInBoundedBatches() throws {
        var tail = try live(at: 0)
        var outputs: [FeedOutput] = []
        for number in 0...FeedLimits.positionsPerQuery {
            tail.watch(StreamID(user: "\(number)", topic: "t"), serial: 1, &outputs)
        }
        guard case .positions(let first)? = tail.nextQuery(.all) else { return #expect(Bool(false)) }
        #expect(first.count == FeedLimits.positionsPerQuery)
        try tail.positionsReceived(first.map { _ in position(0) }, &outputs)
        guard case .positions(let second)? = tail.nextQuery(.all) else { return #expect(Bool(false)) }
        #expect(second.count == 1)
    }

    /// Each watch and unwatch draws a ticket; those of ended watches are swept.
    @Test func ticketsOfEndedWatchesDoNotPileUp() throws {
        var tail = try live(at: 0)
        var outputs: [FeedOutput] = []
        for serial in 0..<20_000 as Range<UInt32> {
            tail.watch(a, serial: serial, &outputs)
            tail.unwatch(a)
        }
        // One ticket to be positioned, one for checks.
        #expect(tail.waitingTickets <= 2 * (FeedLimits.positionsPerQuery + 3))
        tail.watch(a, serial: 20_000, &outputs)
        #expect(tail.nextQuery(.all) == .positions([Ticket(a, 20_000)]))
    }

    @Test func answersToNothingAreMalformed() throws {
        var tail = try live(at: 0, a)
        var outputs: [FeedOutput] = []
        #expect(throws: MalformedAnswer.self) { try tail.positionsReceived([], &outputs) }
        #expect(throws: MalformedAnswer.self) { try tail.tailReceived(page(), snapshot: "s", epoch: "e1", &outputs) }
        #expect(throws: MalformedAnswer.self) { try tail.replayReceived(page(), &outputs) }
        tail.watch(b, serial: 1, &outputs)
        _ = tail.nextQuery(.all)
        #expect(throws: MalformedAnswer.self) { try tail.positionsReceived([], &outputs) }
    }

    /// Half a page was delivered when a row is malformed: after the reconnect it is not delivered again.
    @Test func aMalformedRowRepeatsNothing() throws {
        var tail = try live(at: 0, a)
        var outputs: [FeedOutput] = []
        tail.wake()
        _ = tail.nextQuery(.all)
        #expect(throws: MalformedAnswer.self) {
            try tail.tailReceived(BrokenPage(stream: a), snapshot: "s1", epoch: "e1", &outputs)
        }
        tail.connected(snapshot: "s1", epoch: "e1")
        _ = tail.nextQuery([])
        try tail.positionsReceived([position(2)], &outputs)
        #expect(tail.nextQuery([.replay]) == .replay(Ticket(a, 1), after: 1))
        try tail.replayReceived(page((a, 2)), &outputs)
        #expect(outputs == [event(a, 1), event(a, 2)])
    }
}

/// Event 1, and a row without an offset.
private struct BrokenPage: EventPage {
    let stream: StreamID
    let count = 2
    func isSameStream(_ row: Int) -> Bool { row > 0 }
    func stream(_ row: Int) -> StreamID? { stream }
    func offset(_ row: Int) -> Int64? { row == 0 ? 1 : nil }
    func event(_ row: Int, _ stream: StreamID, _ offset: Int64) -> StreamEvent? {
        StreamEvent(stream: stream, offset: offset, name: "changed", data: SharedBytes.copy("d\(offset)"))
    }
}

extension Tail.Permit {
    fileprivate static let all: Tail.Permit = [.tail, .replay]
}
