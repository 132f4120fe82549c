import Clock
import HubEngine
import Sync
import Synchronization
import Testing

/// What clients can cause by `sync:resume`, and by leaving in the middle of one, and what they cannot.
@Suite(.timeLimit(.minutes(15))) struct ResumeLoadTests {
    private let channel = "user.u.adherence"

    private func position(_ offset: Int64) -> StreamPosition { StreamPosition(epoch: "e", offset: offset) }

    private func resumes(_ heard: [Heard]) -> [StreamPosition] {
        heard.compactMap {
            guard case .join(_, _, .resume(let from)) = $0 else { return nil }
            return from
        }
    }

    /// A session that is live at 300, waiting for no answer.
    private func live(_ fixture: EngineFixture) throws -> Session {
        let session = fixture.session(0)
        _ = try fixture.signin("u", from: session)
        _ = try fixture.subscribe(channel, from: session)
        _ = fixture.joined(try join(session, 1), at: 300, session)
        return session
    }

    private func join(_ session: Session, _ serial: UInt32) throws -> StreamJoin {
        StreamJoin(name: try #require(try StreamName.parse(channel)), session: session.id, serial: serial)
    }

    @Test func oneRequestIsUnderWayHoweverManyPlacesAreNamed() throws {
        let fixture = EngineFixture()
        let session = try live(fixture)
        var asked: [StreamPosition] = []
        for offset in 1...10_000 as ClosedRange<Int64> {
            asked += resumes(try fixture.resume([channel: ("e", offset % 300)], from: session))
        }
        #expect(asked == [position(1)])
        // That answer is void: the client has sent other positions since, of which the last counts.
        let again = fixture.joined(try join(session, 2), at: 300, session, .recovered(replayed: 299, nil))
        #expect(again == [.join(channel, serial: 3, .resume(from: position(100)))])
        #expect(fixture.joined(try join(session, 2), at: 300, session, .recovered(replayed: 299, nil)) == [])
        let answer = fixture.joined(try join(session, 3), at: 300, session, .lost(.tooMany))
        #expect(answer == [resumed(channel, at: 300, lost: .tooMany)])
        #expect(!session.isBehind)
    }

    @Test func aPlaceNamedWhileAPageIsUnderWay() throws {
        let fixture = EngineFixture()
        let session = try live(fixture)
        let members = try #require(fixture.core.channels.named(channel, of: fixture.app))
        #expect(fixture.core.streams.fellBehind(session.id, in: members))
        #expect(fixture.drained(session) == [.join(channel, serial: 2, .next(after: position(300)))])
        #expect(try fixture.resume([channel: ("e", 7)], from: session) == [])
        #expect(
            fixture.joined(try join(session, 2), at: 305, session, .page(nil))
                == [.join(channel, serial: 3, .resume(from: position(7)))])
    }

    @Test func aCrowdedConnectionAsksWhenItHasDrained() throws {
        let fixture = EngineFixture()
        let session = try live(fixture)
        #expect(try fixture.resume([channel: ("e", 100)], from: session, hasRoom: false) == [])
        #expect(session.isBehind)
        #expect(try fixture.resume([channel: ("e", 200)], from: session, hasRoom: false) == [])
        #expect(fixture.drained(session) == [.join(channel, serial: 2, .resume(from: position(200)))])
        #expect(fixture.drained(session) == [])
    }

    @Test func resumesOfOneConnectionAreRationed() throws {
        let clock = Mutex(Instant(nanoseconds: 1_000_000_000_000))
        let wall = Mutex(UnixTime(seconds: 1_000))
        var limits = ChannelLimits()
        limits.resumesAtOnceMax = 3
        limits.resumeInterval = .seconds(1)
        let fixture = EngineFixture(
            limits: limits, now: { wall.withLock { $0 } }, time: { clock.withLock { $0 } })
        let session = try live(fixture)
        var serial: UInt32 = 1
        /// Whether a resume is sent to the shard now.
        func asks() throws -> Bool {
            let asked = resumes(try fixture.resume([channel: ("e", 300)], from: session) + fixture.drained(session))
            guard !asked.isEmpty else { return false }
            serial += 1
            _ = fixture.joined(try join(session, serial), at: 300, session, .recovered(replayed: 0, nil))
            return true
        }
        for _ in 0..<3 { #expect(try asks()) }
        #expect(try !asks())
        #expect(session.isBehind, "it waits")
        clock.withLock { $0 = 1_001_000_000_000 }
        #expect(try asks())
        #expect(try !asks())
        // The wall clock is changed, which has no effect.
        wall.withLock { $0 = UnixTime(seconds: 5_000) }
        #expect(try !asks())
        wall.withLock { $0 = UnixTime(seconds: 10) }
        #expect(try !asks())
        clock.withLock { $0 = 1_002_000_000_000 }
        #expect(try asks())
        #expect(try !asks())
        clock.withLock { $0 = 5_000_000_000_000 }
        for _ in 0..<3 { #expect(try asks()) }
        #expect(try !asks())
    }

    /// Two streams of one connection are behind; the one whose page is being read is unsubscribed.
    @Test func theOtherStreamGoesOnWhenTheOneBeingReadIsUnsubscribed() throws {
        var limits = StreamLimits()
        limits.windowEvents = 4
        limits.pageEvents = 3
        limits.replayEvents = 50
        let world = LoopWorld(loops: 3, limits: limits)
        world.feed.pageEvents = 3
        for topic in ["adherence", "reminders"] {
            for _ in 0..<20 { world.feed.commit(StreamID(user: "u", topic: topic)) }
        }
        let wire = world.connect(1, slot: 0)
        try world.signin(wire)
        for name in [channel, "user.u.reminders"] { try world.subscribe(name, wire) }
        world.settle()
        _ = world.read(1_000, wire)
        for name in [channel, "user.u.reminders"] { try world.resume(name, "e", 0, wire) }
        world.drain(0)
        while !world.feed.requests.isEmpty { world.feedAnswers() }
        world.feedReads()
        world.feedReads()
        world.drain(0)
        world.drain(1)
        _ = world.read(1_000, wire)
        world.drain(0)
        while !world.feed.requests.isEmpty { world.feedAnswers() }
        let read = try #require(world.feed.reads.first?.stream.topic)
        #expect(world.feed.reads.count == 1)
        try world.unsubscribe("user.u.\(read)", wire)
        world.settle()
        #expect(!wire.queue.isEmpty, "the other one's page has come")
    }

    /// Sessions that come and go while a position or page is awaited leave nothing at the shard.
    @Test func aSessionThatHasLeftIsForgottenAtShard() throws {
        let world = LoopWorld(loops: 2, limits: StreamLimits())
        let stays = world.connect(1, slot: 0)
        try world.signin(stays)
        try world.subscribe(channel, stays)
        _ = world.read(1_000, stays)
        for round in 0..<50 {
            let wire = world.connect(1, slot: 1)
            try world.signin(wire)
            try world.subscribe(channel, wire)
            try world.unsubscribe(channel, wire)
            try world.subscribe(channel, wire)
            if round < 49 { world.disconnect(wire) }
        }
        world.drain(0)
        world.feedAnswers()
        world.drain(0)
        #expect(world.mailboxes[1].count == 2, "the one that stays, and the last of the others")
        // And while a page of the log is awaited.
        let fresh = LoopWorld(loops: 2, limits: StreamLimits())
        for _ in 0..<40 { fresh.feed.commit(StreamID(user: "u", topic: "adherence")) }
        let witness = fresh.connect(1, slot: 0)
        try fresh.signin(witness)
        try fresh.subscribe(channel, witness)
        fresh.settle()
        for offset in 0..<30 as Range<Int64> {
            let wire = fresh.connect(1, slot: 1)
            try fresh.signin(wire)
            try fresh.resume(channel, "e", offset, wire)
            try fresh.subscribe(channel, wire)
            for _ in 0..<2 { for loop in 0..<2 { fresh.drain(loop) } }
            #expect(fresh.shard.readerCount == 1)
            fresh.disconnect(wire)
            fresh.drain(0)
            #expect(fresh.shard.readerCount == 0)
        }
    }

    /// The answer to the subscribe says so, and the shard is not asked: a crowd that is back wakes no loop twice. Behind its
    /// answer the shard hands on an event, which comes once.
    @Test func thatNothingWasMissedIsToldWithTheAnswerToTheSubscribe() throws {
        let world = LoopWorld(loops: 2, limits: StreamLimits())
        let stream = StreamID(user: "u", topic: "adherence")
        let witness = world.connect(1, slot: 0)
        try world.signin(witness)
        try world.subscribe(channel, witness)
        for _ in 0..<7 { world.feed.commit(stream) }
        world.settle()
        let wire = world.connect(1, slot: 1)
        try world.signin(wire)
        _ = heard(wire)
        try world.subscribe(channel, wire)
        try world.resume(channel, "e", 7, wire)
        world.drain(0)
        world.feed.commit(stream)
        world.feedDelivers(stream)
        world.drain(0)
        world.look(at: 1)
        let answers = heard(wire)
        #expect(answers.count == 2, "\(answers)")
        #expect(answers.first?.contains("subscription_succeeded") == true)
        #expect(answers.last?.contains(#"\"offset\":7,\"recovered\":true,\"replayed\":0"#) == true, "\(answers)")
        #expect(!wire.session.isBehind && world.mailboxes[0].isEmpty)
        world.settle()
        let events = heard(wire)
        #expect(events.count == 1 && events.last?.contains("e/8") == true, "\(events)")
    }

    // MARK: Ahead of the shard

    /// A device whose snapshot is newer than what the feed has delivered, or whose position is from another hub.
    @Test func aPlaceThatTheShardHasNotReachedYet() throws {
        let world = LoopWorld(loops: 2, limits: StreamLimits())
        let stream = StreamID(user: "u", topic: "adherence")
        let witness = world.connect(1, slot: 0)
        try world.signin(witness)
        try world.subscribe(channel, witness)
        for _ in 0..<5 { world.feed.commit(stream) }
        world.settle()
        for _ in 0..<3 { world.feed.commit(stream) }
        func connected(_ slot: UInt32, at offset: Int64) throws -> LoopWorld.Wire {
            let wire = world.connect(1, slot: slot)
            try world.signin(wire)
            try world.resume(channel, "e", offset, wire)
            try world.subscribe(channel, wire)
            for _ in 0..<2 { for loop in 0..<2 { world.drain(loop) } }
            world.feedAnswers()
            world.feedReads()
            for loop in 0..<2 { world.drain(loop) }
            return wire
        }
        let wires = [try connected(1, at: 7), try connected(2, at: 8)]
        let ahead = try connected(3, at: 9)
        #expect(world.shard.readerCount == 2)
        #expect(heard(ahead).contains { $0.contains(ResumeLoss.ahead.rawValue) }, "the database is not there either")
        for wire in wires {
            #expect(!heard(wire).contains { $0.contains("sync:resumed") })
            #expect(wire.session.isBehind)
        }
        world.settle()
        #expect(world.shard.readerCount == 0)
        for (wire, replayed) in zip(wires, [0, 0]) {
            let texts = heard(wire)
            #expect(texts.first?.contains(#"\"recovered\":true,\"replayed\":\#(replayed)"#) == true, "\(texts)")
            #expect(!wire.session.isBehind)
        }
        world.feed.commit(stream)
        world.settle()
        for wire in wires { #expect(heard(wire).last?.contains("e/9") == true) }
    }

    private func heard(_ wire: LoopWorld.Wire) -> [String] {
        defer { wire.queue = [] }
        return wire.queue
    }

    // MARK: Bounds

    @Test func placesBeforeTheIdentityAreFewer() throws {
        var limits = ChannelLimits()
        limits.parkedPerSessionMax = 2
        let fixture = EngineFixture(limits: limits)
        let session = fixture.session(0)
        let positions: (Int) -> [String: (epoch: String, offset: Int64)] = { count in
            Dictionary(
                uniqueKeysWithValues: ["a", "b", "c"].prefix(count).map { ("user.u.\($0)", (epoch: "e", offset: 1)) })
        }
        let complaint = try fixture.resume(positions(3), from: session)
        #expect(complaint.count == 1 && "\(complaint)".contains("too many channels before"))
        #expect(try fixture.resume(positions(2), from: session) == [])
        _ = try fixture.signin("u", from: session)
        #expect(try fixture.resume(positions(3), from: session) == [])
    }
}
