import HubEngine
import Sync
import Testing

/// Worst interleavings of resumes, each by hand (issue 4), over two loops; the first is the stream's shard.
@Suite(.timeLimit(.minutes(15))) struct ResumeTests {
    private let stream = StreamID(user: "u", topic: "adherence")
    private let channel = "user.u.adherence"
    private let world: LoopWorld

    init() {
        var limits = StreamLimits()
        limits.windowEvents = 4
        limits.pageEvents = 3
        limits.replayEvents = 20
        world = LoopWorld(loops: 3, limits: limits)
        world.feed.pageEvents = 3
    }

    /// What the connection was sent, in short: `at 5` for an acknowledgement, `+2 of 7` and `lost 7 reason` for a resume,
    /// `e/6` for an event.
    private func heard(_ wire: LoopWorld.Wire, _ count: Int = 1_000) -> [String] {
        world.read(count, wire).compactMap { text in
            let words = text.split(whereSeparator: { "\"\\,:{}".contains($0) }).map(String.init)
            func value(_ name: String) -> String {
                words.firstIndex(of: name).flatMap { words.indices.contains($0 + 1) ? words[$0 + 1] : nil } ?? "?"
            }
            return switch words[1] {
            case "pusher_internal": "at \(value("offset"))"
            case "sync" where value("recovered") == "true": "+\(value("replayed")) of \(value("offset"))"
            case "sync": "lost \(value("offset")) \(value("reason"))"
            case "x": value("data")
            default: nil
            }
        }
    }

    private func device(_ loop: Int, slot: UInt32 = 0, signedIn: Bool = true) throws -> LoopWorld.Wire {
        let wire = world.connect(loop, slot: slot)
        if signedIn { try world.signin(wire) }
        _ = heard(wire)
        return wire
    }

    private func commit(_ count: Int) {
        for _ in 0..<count { world.feed.commit(stream) }
    }

    /// A device that keeps the stream watched while `count` events come.
    private func witness(_ count: Int) throws {
        let witness = try device(0, slot: 9)
        try world.subscribe(channel, witness)
        world.settle()
        for _ in 0..<count {
            commit(1)
            world.settle()
            _ = heard(witness)
        }
    }

    // MARK: Fresh

    @Test func aCommitBetweenTopAndGateIsDelivered() throws {
        let wire = try device(1)
        commit(5)
        try world.subscribe(channel, wire)
        world.drain(0)
        world.feedAnswers()
        // The position is read and in flight; now a commit follows, and its event comes right after it.
        commit(1)
        world.feedDelivers(stream)
        world.look(at: 0)
        world.look(at: 1)
        #expect(heard(wire) == ["at 5"])
        world.settle()
        #expect(heard(wire) == ["e/6"])
    }

    // MARK: Before and after the acknowledgement

    @Test func aResumeBeforeTheAcknowledgement() throws {
        try witness(7)
        let wire = try device(1)
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 5, wire)
        world.settle()
        #expect(heard(wire) == ["at 7", "+2 of 7", "e/6", "e/7"])
    }

    @Test func aResumeBeforeTheSubscribeAndTheIdentity() throws {
        try witness(7)
        let wire = try device(1, signedIn: false)
        try world.resume(channel, "e", 5, wire)
        try world.subscribe(channel, wire)
        try world.signin(wire)
        world.settle()
        #expect(heard(wire) == ["at 7", "+2 of 7", "e/6", "e/7"])
        // It counts once.
        try world.unsubscribe(channel, wire)
        try world.subscribe(channel, wire)
        world.settle()
        #expect(heard(wire) == ["at 7"])
    }

    @Test func aResumeOfAParkedSubscribe() throws {
        try witness(7)
        let wire = try device(1, signedIn: false)
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 5, wire)
        world.settle()
        #expect(heard(wire) == [])
        try world.signin(wire)
        world.settle()
        #expect(heard(wire) == ["at 7", "+2 of 7", "e/6", "e/7"])
    }

    @Test func aResumeAfterTheAcknowledgement() throws {
        try witness(7)
        let wire = try device(1)
        try world.subscribe(channel, wire)
        world.settle()
        #expect(heard(wire) == ["at 7"])
        try world.resume(channel, "e", 5, wire)
        world.settle()
        #expect(heard(wire) == ["+2 of 7", "e/6", "e/7"])
        commit(1)
        world.settle()
        #expect(heard(wire) == ["e/8"])
    }

    /// The event is broadcast to the loop while the resume is in flight to the shard, whose answer includes it.
    @Test func aLiveEventBeforeTheShardDecidesComesOnce() throws {
        try witness(7)
        let wire = try device(1)
        try world.subscribe(channel, wire)
        world.settle()
        _ = heard(wire)
        try world.resume(channel, "e", 6, wire)
        commit(1)
        world.feedDelivers(stream)
        // The shard processes the resume, then the event.
        world.look(at: 0)
        world.look(at: 0)
        world.settle()
        #expect(heard(wire) == ["+1 of 7", "e/7", "e/8"])
        // And in the other order.
        commit(1)
        world.feedDelivers(stream)
        try world.resume(channel, "e", 7, wire)
        world.settle()
        #expect(heard(wire) == ["+2 of 9", "e/8", "e/9"])
    }

    // MARK: From the log

    @Test func aReplayFromTheLogGoesOverIntoTheWindowAndThenLive() throws {
        try witness(12)
        let wire = try device(1)
        try world.resume(channel, "e", 1, wire)
        try world.subscribe(channel, wire)
        world.settle()
        #expect(heard(wire, 5) == ["at 12", "+11 of 12", "e/2", "e/3", "e/4"])
        world.settle()
        #expect(heard(wire, 3) == ["e/5", "e/6", "e/7"])
        world.settle()
        // The window holds four events, a page three: the log was read twice in all; 8 still comes from it.
        #expect(heard(wire, 3) == ["e/8", "e/9", "e/10"])
        world.settle()
        #expect(heard(wire) == ["e/11", "e/12"])
        #expect(!wire.session.isBehind)
        commit(1)
        world.settle()
        #expect(heard(wire) == ["e/13"])
    }

    @Test func aLiveEventDuringAReplayFromTheLog() throws {
        try witness(6)
        let wire = try device(1)
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 0, wire)
        world.drain(0)
        world.drain(1)
        world.drain(0)
        world.feedAnswers()
        #expect(world.feed.reads.count == 1)
        // While the log is read, two more events are committed and sent to all live sessions.
        commit(2)
        world.feedDelivers(stream)
        world.feedDelivers(stream)
        world.drain(0)
        world.drain(1)
        #expect(heard(wire) == ["at 6"], "what is live waits for its turn")
        world.feedReads()
        world.settle()
        var all = heard(wire)
        while wire.session.isBehind || !wire.queue.isEmpty {
            world.settle()
            all += heard(wire)
        }
        #expect(all == ["+8 of 8", "e/1", "e/2", "e/3", "e/4", "e/5", "e/6", "e/7", "e/8"])
    }

    @Test func unsubscribedDuringAReplay() throws {
        try witness(8)
        let wire = try device(1)
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 0, wire)
        world.drain(0)
        world.drain(1)
        world.drain(0)
        world.feedAnswers()
        #expect(world.shard.readerCount == 1)
        try world.unsubscribe(channel, wire)
        world.drain(0)
        #expect(world.shard.readerCount == 0, "nobody is left on that loop to read for")
        #expect(!wire.session.isBehind)
        world.feedReads()
        world.settle()
        #expect(heard(wire) == ["at 8"])
        // Subscribed again before the page comes, it enters as if it had never resumed.
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 1, wire)
        world.drain(0)
        world.drain(1)
        world.drain(0)
        world.feedAnswers()
        try world.unsubscribe(channel, wire)
        try world.subscribe(channel, wire)
        world.feedReads()
        world.settle()
        #expect(heard(wire) == ["at 8", "at 8"])
        commit(1)
        world.settle()
        #expect(heard(wire) == ["e/9"])
    }

    @Test func ofTwoResumesTheSecondWins() throws {
        try witness(8)
        let wire = try device(1)
        try world.subscribe(channel, wire)
        world.settle()
        _ = heard(wire)
        try world.resume(channel, "e", 1, wire)
        world.drain(0)
        world.feedAnswers()
        try world.resume(channel, "e", 6, wire)
        world.settle()
        #expect(heard(wire) == ["+2 of 8", "e/7", "e/8"])
        #expect(world.shard.readerCount == 0)
        // Both before the acknowledgement.
        try world.unsubscribe(channel, wire)
        try world.resume(channel, "e", 5, wire)
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 7, wire)
        world.settle()
        #expect(heard(wire) == ["at 8", "+1 of 8", "e/8"])
    }

    @Test func aCrowdThatComesBackAtOnceCostsOneRead() throws {
        try witness(9)
        let wires = try (0..<5 as Range<UInt32>).map { try device(1, slot: $0) }
        for wire in wires {
            try world.resume(channel, "e", 1, wire)
            try world.subscribe(channel, wire)
        }
        world.drain(0)
        world.drain(1)
        world.drain(0)
        world.feedAnswers()
        #expect(world.feed.reads.count == 1)
        world.feedReads()
        world.drain(0)
        world.drain(1)
        for wire in wires { #expect(heard(wire) == ["at 9", "+8 of 9", "e/2", "e/3", "e/4"]) }
    }

    // MARK: Two loops

    /// Both loops have a subscriber; their mailboxes are read in several orders.
    @Test(arguments: [[1, 2, 1, 2, 1, 2], [2, 2, 2, 1, 1, 1], [1, 1, 1, 2, 2, 2], [2, 1, 1, 2, 2, 1]])
    func publishesReachTwoLoopsInOrder(_ order: [Int]) throws {
        let wires = [try device(1), try device(2)]
        for wire in wires { try world.subscribe(channel, wire) }
        world.settle()
        for wire in wires { #expect(heard(wire) == ["at 0"]) }
        commit(3)
        for _ in 0..<3 { world.feedDelivers(stream) }
        world.drain(0)
        for loop in order { world.look(at: loop) }
        for wire in wires { #expect(heard(wire) == ["e/1", "e/2", "e/3"]) }
    }

    /// One loop has seen less than the other; the shard still decides the resume.
    @Test func aResumeOnALoopThatLagsBehind() throws {
        let ahead = try device(1)
        let behind = try device(2)
        for wire in [ahead, behind] { try world.subscribe(channel, wire) }
        world.settle()
        for wire in [ahead, behind] { _ = heard(wire) }
        commit(3)
        for _ in 0..<3 { world.feedDelivers(stream) }
        world.drain(0)
        world.drain(1)
        world.look(at: 2)
        try world.resume(channel, "e", 0, behind)
        world.settle()
        #expect(heard(ahead) == ["e/1", "e/2", "e/3"])
        #expect(heard(behind) == ["e/1", "+3 of 3", "e/1", "e/2", "e/3"], "what it had when it asked comes again")
    }

    // MARK: Slow readers

    @Test func aSlowReaderIsFedByPagesAndComesBack() throws {
        let slow = try device(1)
        let other = try device(1, slot: 1)
        for wire in [slow, other] { try world.subscribe(channel, wire) }
        world.settle()
        var all: [String] = []
        for _ in 0..<30 {
            commit(1)
            world.settle()
            all += heard(other)
        }
        #expect(all == ["at 0"] + (1...30).map { "e/\($0)" })
        #expect(slow.session.isBehind)
        #expect(slow.queue.count <= LoopWorld.crowd + 1)
        var caughtUp = heard(slow)
        while !slow.queue.isEmpty || slow.session.isBehind {
            world.settle()
            caughtUp += heard(slow, 2)
        }
        #expect(caughtUp == all)
        #expect(slow.mostQueued <= LoopWorld.crowd + 3)
        commit(1)
        world.settle()
        #expect(heard(slow) == ["e/31"])
        #expect(world.fellBehind == 1)
    }

    @Test func aSlowReaderResumes() throws {
        let slow = try device(1)
        try world.subscribe(channel, slow)
        world.settle()
        for _ in 0..<15 {
            commit(1)
            world.settle()
        }
        #expect(slow.session.isBehind)
        // It resumes before it has read what it was sent: the answer and pages come when there is room.
        try world.resume(channel, "e", 2, slow)
        world.settle()
        #expect(slow.queue.count <= LoopWorld.crowd + 1)
        #expect(heard(slow, 8) == ["at 0", "e/1", "e/2", "e/3", "e/4", "e/5", "e/6"])
        world.settle()
        #expect(heard(slow, 1) == ["+13 of 15"])
        var rest: [String] = []
        while !slow.queue.isEmpty || slow.session.isBehind {
            world.settle()
            rest += heard(slow, 2)
        }
        #expect(rest == (3...15).map { "e/\($0)" })
    }

    @Test func pagesComeOneAtATimeAndInTurn() throws {
        let reminders = StreamID(user: "u", topic: "reminders")
        let wire = try device(0)
        for channel in [channel, "user.u.reminders"] { try world.subscribe(channel, wire) }
        world.settle()
        _ = heard(wire)
        for _ in 0..<12 {
            commit(1)
            world.feed.commit(reminders)
            world.settle()
        }
        var turns: [Bool] = []
        while !wire.queue.isEmpty || wire.session.isBehind {
            world.settle()
            turns += world.read(1, wire).map { $0.contains("reminders") }
        }
        let changes = zip(turns, turns.dropFirst()).filter { $0 != $1 }.count
        #expect(changes > 8, "both streams get their turn: \(turns)")
        #expect(wire.mostQueued <= LoopWorld.crowd + 3)
    }

    // MARK: Refusals

    @Test func everyReason() throws {
        try witness(30)
        world.feed.logs[stream]?.floor = 15
        let cases: [(epoch: String, offset: Int64, answer: [String])] = [
            ("e", 30, ["+0 of 30"]), ("e", 31, ["lost 30 ahead"]), ("f", 30, ["lost 30 stream_reset"]),
            ("e", 9, ["lost 30 too_many"]), ("e", 10, ["lost 30 position_expired"]),
            ("e", 14, ["lost 30 position_expired"]),
        ]
        for (index, (epoch, offset, answer)) in cases.enumerated() {
            let wire = try device(1, slot: UInt32(index))
            try world.resume(channel, epoch, offset, wire)
            try world.subscribe(channel, wire)
            world.settle()
            #expect(heard(wire) == ["at 30"] + answer, "\(epoch) \(offset)")
            #expect(!wire.session.isBehind)
        }
        let wire = try device(1, slot: 90)
        try world.resume(channel, "e", 15, wire)
        try world.subscribe(channel, wire)
        world.drain(0)
        world.drain(1)
        world.drain(0)
        world.feedAnswers()
        world.feedReads(failing: true)
        world.settle()
        #expect(heard(wire) == ["at 30", "lost 30 store_unavailable"])
        try world.resume(channel, "e", 15, wire)
        world.settle()
        #expect(heard(wire, 2) == ["+15 of 30", "e/16"], "the log begins right behind what it has")
    }

    @Test func aResetDuringAReplay() throws {
        try witness(12)
        let live = try device(2)
        try world.subscribe(channel, live)
        world.settle()
        _ = heard(live)
        let wire = try device(1)
        try world.resume(channel, "e", 1, wire)
        try world.subscribe(channel, wire)
        world.drain(0)
        world.drain(1)
        world.drain(0)
        world.feedAnswers()
        world.feed.lose(stream, epoch: "f", top: 10)
        world.settle()
        #expect(heard(wire) == ["at 12", "lost 10 stream_reset"])
        #expect(heard(live) == ["lost 10 stream_reset"])
        #expect(world.shard.readerCount == 0)
        commit(1)
        world.settle()
        #expect(heard(wire) == ["f/11"])
        #expect(heard(live) == ["f/11"])
    }

    /// The page left for the loop before the reset, and the next request crosses the reset.
    @Test func aRequestForThePageBehindAReset() throws {
        try witness(12)
        let wire = try device(1)
        try world.resume(channel, "e", 1, wire)
        try world.subscribe(channel, wire)
        world.settle()
        #expect(heard(wire, 4) == ["at 12", "+11 of 12", "e/2", "e/3"])
        world.feed.lose(stream, epoch: "f", top: 20)
        world.feedDelivers(stream)
        world.drain(0)
        #expect(heard(wire) == ["e/4"], "asks for the next page, while the reset is in the mailbox")
        world.settle()
        #expect(heard(wire) == ["lost 20 stream_reset"])
        commit(1)
        world.settle()
        #expect(heard(wire) == ["f/21"])
    }

    @Test func aLogThatEndsTooLateIsToldAsSuch() throws {
        let wire = try device(1)
        commit(3)
        try world.subscribe(channel, wire)
        world.settle()
        commit(5)
        world.feed.logs[stream]?.floor = 5
        world.settle()
        #expect(heard(wire) == ["at 3", "lost 8 position_expired"])
    }

    /// The request crossed the reset; its answer comes after the session has fallen behind for another reason.
    @Test func anAnswerFromBeforeAResetIsVoid() throws {
        let engine = EngineFixture()
        let session = engine.session(0)
        _ = try engine.signin("u", from: session)
        _ = try engine.subscribe(channel, from: session)
        let name = try #require(try StreamName.parse(channel))
        _ = engine.joined(StreamJoin(name: name, session: session.id, serial: 1), at: 5, session)
        let asked = try engine.resume([channel: ("e", 3)], from: session)
        #expect(asked == [.join(channel, serial: 2, .resume(from: StreamPosition(epoch: "e", offset: 3)))])
        let members = try #require(engine.core.channels.named(channel, of: engine.app))
        _ = engine.core.streams.reset(members, to: StreamPosition(epoch: "f", offset: 9), .streamReset)
        #expect(!session.isBehind)
        #expect(engine.core.streams.fellBehind(session.id, in: members))
        let late = StreamJoin(name: name, session: session.id, serial: 2)
        #expect(engine.joined(late, at: 9, session, .lost(.streamReset)) == [])
        #expect(session.isBehind)
        guard case .join(_, _, .next(let after))? = engine.drained(session).first else {
            Issue.record("the next page is asked for")
            return
        }
        #expect(after == StreamPosition(epoch: "f", offset: 9))
    }
}
