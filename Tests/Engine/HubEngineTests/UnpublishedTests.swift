import HubEngine
import Pusher
import Sync
import Testing

/// Streams of topics that no table is published for, and streams that the feed does not watch.
@Suite struct UnpublishedTests {
    private let engine = EngineFixture()
    private let channel = "user.u.weights"

    private func publish(_ topics: String..., epoch: String = "e") -> [SessionID] {
        engine.core.streams.published(PublishedTopics(epoch: epoch, topics: topics))
    }

    private func member(_ slot: UInt32) throws -> Session {
        let session = engine.session(slot)
        _ = try engine.signin("u", from: session)
        return session
    }

    private func unpublished(_ channel: String, epoch: String = "e") -> Heard {
        let data = #"{\"sync\":{\"epoch\":\"\#(epoch)\",\"offset\":0,\"published\":false}}"#
        return .text(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"\#(data)"}"#)
    }

    // MARK: Before it is published

    @Test func aSubscribeIsAnsweredAtOnceAndAsksNobody() throws {
        #expect(publish("adherence").isEmpty)
        let session = try member(0)
        #expect(try engine.subscribe(channel, from: session) == [unpublished(channel)])
        #expect(try engine.subscribe(channel, from: session) == [unpublished(channel)], "again")
        #expect(engine.subscribers(channel) == [0])
        let other = try member(1)
        #expect(try engine.subscribe(channel, from: other) == [unpublished(channel)])
        #expect(try engine.subscribe("user.u.adherence", from: session) == [.join("user.u.adherence", serial: 2)])
        #expect(try engine.unsubscribe(channel, from: session).isEmpty, "no shard is told")
        #expect(engine.close(other).isEmpty)
        #expect(engine.core.channels.count(of: engine.app) == 1)
    }

    @Test func aParkedSubscribeIsToldToo() throws {
        _ = publish("adherence")
        let session = engine.session(0)
        #expect(try engine.subscribe(channel, from: session).isEmpty)
        #expect(try engine.signin("u", from: session).last == unpublished(channel))
    }

    @Test func itCountsAmongTheChannelsOfItsConnection() throws {
        var limits = ChannelLimits()
        limits.subscriptionsPerSessionMax = 2
        let engine = EngineFixture(limits: limits)
        _ = engine.core.streams.published(PublishedTopics(epoch: "e", topics: []))
        let session = engine.session(0)
        _ = try engine.signin("u", from: session)
        for topic in ["a", "b"] {
            #expect(try engine.subscribe("user.u.\(topic)", from: session) == [unpublished("user.u.\(topic)")])
        }
        let heard = try engine.subscribe("user.u.c", from: session)
        #expect(heard.first?.description.contains("LimitReached") == true)
    }

    @Test func aUserHasAShareOfThem() throws {
        var limits = ChannelLimits()
        limits.unpublishedPerUserMax = 2
        let engine = EngineFixture(limits: limits)
        _ = engine.core.streams.published(PublishedTopics(epoch: "e", topics: ["z"]))
        let sessions = [engine.session(0), engine.session(1)]
        for session in sessions { _ = try engine.signin("u", from: session) }
        for topic in ["a", "b"] {
            #expect(try engine.subscribe("user.u.\(topic)", from: sessions[0]) == [unpublished("user.u.\(topic)")])
        }
        let heard = try engine.subscribe("user.u.c", from: sessions[1])
        #expect(heard.count == 1 && heard.first?.description.contains("LimitReached") == true)
        #expect(engine.core.metrics.stopped(by: "limits.streamsPerUser") == 1)
        #expect(try engine.subscribe("user.u.b", from: sessions[1]) == [unpublished("user.u.b")], "it is there already")
        #expect(try engine.subscribe("user.u.z", from: sessions[1]) == [.join("user.u.z", serial: 2)])
        let other = engine.session(2)
        _ = try engine.signin("v", from: other)
        #expect(try engine.subscribe("user.v.c", from: other) == [unpublished("user.v.c")], "another user's share")
        // When it is empty, or watched, there is room for another.
        #expect(try engine.unsubscribe("user.u.a", from: sessions[0]).isEmpty)
        #expect(try engine.subscribe("user.u.c", from: sessions[1]) == [unpublished("user.u.c")])
        _ = engine.core.streams.published(PublishedTopics(epoch: "e", topics: ["z", "b"]))
        #expect(try engine.subscribe("user.u.d", from: sessions[1]) == [unpublished("user.u.d")])
        for session in sessions { _ = engine.close(session) }
        _ = engine.close(other)
        #expect(engine.core.streams.unpublished.userCount == 0)
    }

    @Test func aPlaceInItIsAnsweredAtOnce() throws {
        _ = publish("adherence")
        let session = try member(0)
        _ = try engine.subscribe(channel, from: session)
        #expect(try engine.resume([channel: ("e", 0)], from: session) == [resumed(channel, at: 0, replayed: 0)])
        #expect(try engine.resume([channel: ("e", 3)], from: session) == [resumed(channel, at: 0, lost: .ahead)])
        #expect(
            try engine.resume([channel: ("d", 0)], from: session) == [resumed(channel, at: 0, lost: .streamReset)])
        let early = try member(1)
        #expect(try engine.resume([channel: ("d", 7)], from: early).isEmpty)
        #expect(
            try engine.subscribe(channel, from: early)
                == [unpublished(channel), resumed(channel, at: 0, lost: .streamReset)])
    }

    /// Until the database has been reached, all streams are watched: their number is bounded for each user.
    @Test func beforeTopicsAreKnownAllAreWatched() throws {
        let session = try member(0)
        #expect(try engine.subscribe(channel, from: session) == [.join(channel, serial: 1)])
        _ = engine.joined(StreamJoin(channel, session, 1), at: 5, session)
        #expect(publish("adherence").isEmpty)
        #expect(try engine.subscribe(channel, from: session) == [succeeded(channel, at: 5)], "it has a shard")
        let other = try member(1)
        #expect(try engine.subscribe(channel, from: other) == [.join(channel, serial: 1)])
    }

    @Test func allTopicsMayBePublished() throws {
        _ = engine.core.streams.published(PublishedTopics(epoch: "e", topics: nil))
        #expect(try engine.subscribe(channel, from: try member(0)) == [.join(channel, serial: 1)])
    }

    // MARK: Once it is published

    @Test func aSubscriberAsksForWhatFollows() throws {
        _ = publish("adherence")
        let session = try member(0)
        let idle = try member(1)
        for one in [session, idle] { _ = try engine.subscribe(channel, from: one) }
        _ = try engine.subscribe("private-\(channel)", from: session)
        #expect(publish("adherence", "other").isEmpty)
        #expect(publish("adherence", "weights").map(\.slot).sorted() == [0, 0, 1])
        let start = StreamPosition(epoch: "e", offset: 0)
        #expect(engine.drained(session) == [.join(channel, serial: 3, .next(after: start))])
        // The stream has no event yet: nothing more is requested.
        #expect(engine.joined(StreamJoin(channel, session, 3), at: 0, session).isEmpty)
        #expect(engine.subscribers(channel) == [0])
        #expect(engine.drained(session) == [.join("private-\(channel)", serial: 4, .next(after: start))])
        #expect(engine.joined(StreamJoin("private-\(channel)", session, 4), at: 0, session).isEmpty)
        #expect(!session.isBehind)
        #expect(publish("adherence", "weights").isEmpty, "told once")
        #expect(engine.close(idle).isEmpty, "it had asked nothing")
        #expect(try engine.unsubscribe(channel, from: session) == [.leave(channel)])
    }

    /// Two loops, and a device that is in a channel since before the first event.
    private func world() throws -> (LoopWorld, LoopWorld.Wire, StreamID) {
        let world = LoopWorld(loops: 2, limits: StreamLimits())
        let stream = StreamID(user: "u", topic: "weights")
        world.feed.logs[stream] = ModelFeed.Log()
        for loop in 0..<2 { world.publish(["adherence"], at: loop) }
        let wire = world.connect(1, slot: 0)
        try world.signin(wire)
        try world.subscribe(channel, wire)
        _ = world.read(100, wire)
        return (world, wire, stream)
    }

    /// What it reads: the offsets of events, and the reasons of losses.
    private func read(_ world: LoopWorld, _ wire: LoopWorld.Wire) -> [String] {
        var read: [String] = []
        while true {
            world.settle()
            let texts = world.read(100, wire)
            if texts.isEmpty { return read }
            for text in texts {
                if let reason = text.firstMatch(of: /\\"reason\\":\\"([a-z_]+)/) { read.append(String(reason.1)) }
                if let offset = text.firstMatch(of: /"event":"x".*"data":"[a-z]+\/([0-9]+)"/) {
                    read.append(String(offset.1))
                }
            }
        }
    }

    @Test func nothingIsMissedFromPublishingOn() throws {
        let (world, wire, stream) = try world()
        for _ in 0..<3 { world.feed.commit(stream) }
        world.publish(["adherence", "weights"], at: 1)
        // The request is in flight when the fourth is committed, and answered when the fifth is.
        world.feed.commit(stream)
        world.drain(0)
        world.feed.commit(stream)
        world.feedAnswers()
        #expect(read(world, wire) == ["1", "2", "3", "4", "5"])
        world.feed.commit(stream)
        #expect(read(world, wire) == ["6"])
        #expect(!wire.session.isBehind)
    }

    @Test func anOldStreamIsReplayed() throws {
        let (world, wire, stream) = try world()
        world.feed.logs[stream]?.top = 9
        world.publish(["adherence", "weights"], at: 1)
        #expect(read(world, wire) == (1...9).map(String.init))

        let (shorter, late, other) = try self.world()
        shorter.feed.logs[other]?.top = 9
        shorter.feed.logs[other]?.floor = 4
        shorter.publish(["adherence", "weights"], at: 1)
        #expect(read(shorter, late) == ["position_expired"])
        shorter.feed.commit(other)
        #expect(read(shorter, late) == ["10"])
    }

    @Test func anotherEpochIsAReset() throws {
        let (world, wire, stream) = try world()
        world.feed.lose(stream, epoch: "f", top: 2)
        world.publish(["adherence", "weights"], at: 1)
        #expect(read(world, wire) == ["stream_reset"])
        world.feed.commit(stream)
        #expect(read(world, wire) == ["3"])
    }

    /// A position that the client sends after the publishing and before the shard's answer is answered.
    @Test func aPlaceNamedMeanwhileIsAnswered() throws {
        let (world, wire, stream) = try world()
        for _ in 0..<3 { world.feed.commit(stream) }
        world.publish(["adherence", "weights"], at: 1)
        try world.resume(channel, "e", 2, wire)
        #expect(read(world, wire) == ["3"])
        #expect(!wire.session.isBehind)
    }

    // MARK: Not watched

    private func refused(_ refusal: StreamRefusal, _ session: Session, serial: UInt32) -> [Heard] {
        var effects = SessionEngine.Effects()
        engine.core.streams.joinRefused(session, serial: serial, refusal, &effects)
        return effects.flatMap(Heard.all)
    }

    /// pusher-js reconnects after 4100 and asks again; after a refusal it never does.
    @Test func aClientThatFindsTheHubFullComesBack() throws {
        let session = try member(0)
        _ = try engine.subscribe(channel, from: session)
        #expect(refused(.hubFull, session, serial: 1) == [.close(4100)])
    }

    @Test func aUserWithTooManyStreamsIsRefused() throws {
        let session = try member(0)
        _ = try engine.resume([channel: ("e", 3)], from: session)
        _ = try engine.subscribe(channel, from: session)
        let heard = refused(.userFull, session, serial: 1)
        #expect(heard.count == 3 && heard.first == .leave(channel))
        #expect(heard[1].description.contains("LimitReached"))
        #expect(heard[2] == resumed(channel, at: 3, lost: .storeUnavailable))
        #expect(engine.core.channels.count(of: engine.app) == 0)
        #expect(refused(.userFull, session, serial: 1).isEmpty, "told once")
    }

    @Test func oneThatWasLetInBeforeIsRefusedToo() throws {
        _ = publish("adherence")
        let session = try member(0)
        _ = try engine.subscribe(channel, from: session)
        _ = publish("adherence", "weights")
        _ = engine.drained(session)
        let heard = refused(.userFull, session, serial: 2)
        #expect(heard.first == .leave(channel) && heard.count == 2)
        #expect(!session.isBehind)
        #expect(engine.core.channels.count(of: engine.app) == 0)
    }

    /// A position that the client sends while the shard is asked is answered, too.
    @Test func aPositionNamedMeanwhileIsAnswered() throws {
        _ = publish("adherence")
        let session = try member(0)
        _ = try engine.subscribe(channel, from: session)
        _ = publish("adherence", "weights")
        _ = engine.drained(session)
        #expect(try engine.resume([channel: ("e", 3)], from: session).isEmpty)
        let heard = refused(.userFull, session, serial: 2)
        #expect(heard.count == 3 && heard.last == resumed(channel, at: 3, lost: .storeUnavailable))
    }
}

extension StreamJoin {
    fileprivate init(_ channel: String, _ session: Session, _ serial: UInt32) {
        let name = (try? StreamName.parse(channel)) ?? StreamName(form: .user, stream: StreamID(user: "", topic: ""))
        self.init(name: name, session: session.id, serial: serial)
    }
}
