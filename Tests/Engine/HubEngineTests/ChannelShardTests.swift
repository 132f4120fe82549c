import Bytes
import Clock
import HubEngine
import Pusher
import Testing

/// Ordinary channels over several loops: entering and leaving, events and answers.
@Suite struct ChannelShardTests: ChannelTexts {
    // MARK: Entering and leaving

    @Test(arguments: [0, 1, 2]) func whatIsPublishedReachesEveryLoopOnce(_ shard: Int) throws {
        let world = ChannelWorld(loops: 3)
        let name = world.name("news", onShard: shard)
        let wires = (0..<6).map { world.connect($0 % 3) }
        for wire in wires { try world.subscribe(name, wire) }
        world.settle()
        #expect(world.facts(name).subscriptionCount == 6)
        world.publish(name, "e", "one", except: wires[4].session.socketID, by: 2)
        world.settle()
        for (number, wire) in wires.enumerated() {
            #expect(wire.heard == [succeeded(name)] + (number == 4 ? [] : [event("e", name, "one")]))
        }
        for wire in wires { world.disconnect(wire) }
        world.settle()
        world.advance(.seconds(3))
        #expect(world.channelCount == 0)
    }

    /// Events after the shard's answer arrive after it; earlier ones do not arrive.
    @Test func aPublishBesideASubscribe() throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("news", onShard: 0)
        let (old, new) = (world.connect(0), world.connect(1))
        try world.subscribe(name, old)
        try world.subscribe(name, new)
        world.publish(name, "e", "before")
        world.look(at: 0)
        world.publish(name, "e", "behind")
        #expect(new.heard.isEmpty)
        world.settle()
        #expect(new.heard == [succeeded(name), event("e", name, "behind")])
        #expect(old.heard == [succeeded(name), event("e", name, "before"), event("e", name, "behind")])
    }

    @Test func aSubscribeTakenBackIsTakenBackAtShard() throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: 0)
        let (one, two) = (world.connect(1), world.connect(1))
        for (wire, user) in [(one, "a"), (two, "b")] { try world.subscribe(name, user: user, wire) }
        try world.unsubscribe(name, one)
        world.disconnect(two)
        world.settle()
        #expect(one.heard.isEmpty && world.facts(name).subscriptionCount == 0)
        #expect(world.users(name) == ["b"], "an end leaves a grace, an unsubscribe none")
        world.advance(.seconds(3))
        #expect(world.channelCount == 0)
    }

    /// pusher-js does this when a component is mounted, unmounted and mounted again.
    @Test(arguments: [0, 1]) func subscribeUnsubscribeSubscribe(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: shard)
        let (watcher, wire) = (world.connect(0), world.connect(1))
        try world.subscribe(name, user: "w", watcher)
        world.settle()
        for _ in 0..<3 {
            try world.subscribe(name, user: "u", wire)
            try world.unsubscribe(name, wire)
        }
        try world.subscribe(name, user: "u", wire)
        world.settle()
        #expect(wire.heard.count { $0.contains("subscription_succeeded") } == (shard == 0 ? 1 : 4))
        #expect(world.facts(name).subscriptionCount == 2 && world.users(name) == ["w", "u"])
        #expect(world.subscriberCount(name) == 2)
        world.publish(name, "e", "x")
        world.settle()
        #expect(wire.heard.last == event("e", name, "x"))
        world.advance(.seconds(3))
        try world.unsubscribe(name, wire)
        world.settle()
        #expect(world.facts(name).subscriptionCount == 1 && world.users(name) == ["w"])
    }

    /// Two loops with a connection each: both in a presence channel, the second also in a cache channel; answers in flight.
    private func twoMembers() throws -> (
        ChannelWorld, presence: String, cache: String, ChannelWorld.Wire, ChannelWorld.Wire
    ) {
        let world = ChannelWorld(loops: 2)
        let presence = world.name("presence-", onShard: 0)
        let cache = world.name("cache-", onShard: 0)
        let (one, two) = (world.connect(0), world.connect(1))
        try world.subscribe(presence, user: "a", one)
        try world.subscribe(presence, user: "b", two)
        try world.subscribe(cache, two)
        return (world, presence, cache, one, two)
    }

    @Test func aRepeatedSubscribeIsAnsweredAgainAndCountsOnce() throws {
        let (world, presence, cache, _, two) = try twoMembers()
        world.publish(cache, "e", "x")
        world.settle()
        two.heard = []
        try world.subscribe(presence, user: "b", two)
        try world.subscribe(cache, two)
        world.settle()
        #expect(two.heard.count == 3 && two.heard[0].contains(#"\"count\":2"#))
        #expect(two.heard.dropFirst() == [succeeded(cache), event("e", cache, "x")])
        #expect(world.facts(presence).subscriptionCount == 2 && world.facts(cache).subscriptionCount == 1)
        // The answer to a repeated subscribe comes after the session has left.
        two.heard = []
        try world.subscribe(presence, user: "b", two)
        try world.unsubscribe(presence, two)
        world.settle()
        #expect(two.heard.isEmpty && world.facts(presence).subscriptionCount == 1)
        try world.subscribe(cache, two)
        world.disconnect(two)
        world.settle()
        #expect(world.facts(cache).subscriptionCount == 0)
    }

    /// A repeated subscribe needs no signature, and the member list is long: it is written once, sent once for all requests
    /// meanwhile, and not sent while much is queued to the connection.
    @Test func repeatedSubscribesAreCheap() throws {
        let (world, presence, cache, one, two) = try twoMembers()
        world.settle()
        two.heard = []
        for _ in 0..<50 {
            try world.subscribe(presence, user: "b", two)
            try world.subscribe(cache, two)
        }
        world.settle()
        #expect(two.heard.count == 3 && two.heard[0].contains(#"\"count\":2"#) && two.heard[2] == miss(cache))
        try world.subscribe(presence, user: "c", one)
        try world.unsubscribe(presence, one)
        world.settle()
        two.heard = []
        try world.subscribe(presence, user: "b", two)
        world.settle()
        #expect(two.heard.count == 1 && two.heard[0].contains(#"\"count\":1"#), "as it is now")
        world.hasRoom = false
        try world.subscribe(presence, user: "b", two)
        world.settle()
        world.hasRoom = true
        #expect(two.heard.count == 1)
        try world.subscribe(presence, user: "b", two)
        world.settle()
        #expect(two.heard.count == 2 && two.heard[1] == two.heard[0])
    }

    @Test func aListOfMembersIsWrittenOnce() throws {
        let world = ChannelWorld(loops: 1)
        var shard = ChannelShard(loops: 1)
        let key = world.key("presence-x")
        func ask(_ user: String, _ isRepeated: Bool) throws -> SharedMessages? {
            var effects = ChannelShard.Effects()
            let entry = ChannelEntry(
                app: world.app, key: key, session: SessionID(slot: 0, generation: 1), serial: 1,
                member: PresenceMember(id: user, info: []), isRepeated: isRepeated)
            shard.received(.enter(entry), from: 0, now: 1, &effects)
            for case .answer(_, .entered(let entered)) in effects { return entered.members }
            throw CancellationError()
        }
        _ = try ask("a", false)
        let first = try ask("a", true)
        #expect(try first != nil && ask("a", true) === first)
        // Another connection of a user who is already a member changes nothing.
        #expect(try ask("a", false) === first)
        _ = try ask("b", false)
        #expect(try ask("a", true) !== first)
    }

    @Test func channelsAreFoundByAppAndPrefixAndNotBeyondABound() throws {
        let world = ChannelWorld(loops: 1)
        let other = App(
            id: "2", credentials: AppCredentials(key: "k", secret: "s"), index: 1, ownsDatabase: false)
        var shard = ChannelShard(loops: 1)
        func enter(_ name: String, _ app: App) {
            var effects = ChannelShard.Effects()
            let entry = ChannelEntry(
                app: app, key: ChannelKey(app.index, world.key(name).name),
                session: SessionID(slot: 0, generation: 1), serial: 1)
            shard.received(.enter(entry), from: 0, now: 1, &effects)
        }
        for number in 0..<5 { enter("news-\(number)", world.app) }
        enter("other", world.app)
        enter("news-9", other)
        func found(_ prefix: String, _ max: Int, _ app: App) -> Int {
            shard.channels(of: app, prefix: prefix, max: max, now: 1).count
        }
        #expect(found("", 10, world.app) == 6 && found("news-", 10, world.app) == 5 && found("o", 10, world.app) == 1)
        #expect(found("news-", 5, world.app) == 5 && found("news-", 4, world.app) == 5 && found("", 3, world.app) == 4)
        #expect(found("", 10, other) == 1 && shard.channelCount == 7)
    }

    /// Membership messages are never throttled: only published events and client events count as events.
    @Test func onlyEventsAreEvents() throws {
        let world = ChannelWorld(loops: 1)
        var shard = ChannelShard(loops: 2)
        var effects = ChannelShard.Effects()
        let key = ChannelKey(world.app.index, try #require(ChannelName("presence-a")))
        let session = { SessionID(slot: $0, generation: 1) }
        for number in 0..<2 as Range<UInt32> {
            let entry = ChannelEntry(
                app: world.app, key: key, session: session(number), serial: 1,
                member: PresenceMember(id: "u\(number)", info: []))
            shard.received(.enter(entry), from: 1, now: 1, &effects)
        }
        _ = shard.publish(Publication(channel: key.name, event: "e", data: []), of: world.app, now: 1, &effects)
        let exit = ChannelExit(key: key, userID: "u1", mayReturn: false)
        shard.received(.exit(exit), from: 1, now: 1_000_000_000_000, &effects)
        let events = effects.compactMap { effect -> Bool? in
            if case .broadcast(_, _, _, _, let isEvent) = effect { isEvent } else { nil }
        }
        #expect(events == [false, true, false])
    }

    @Test func aChannelIsVacatedWhenNobodyComesBack() throws {
        let world = ChannelWorld(loops: 1)
        let name = try #require(ChannelName("news"))
        let wire = world.connect(0)
        try world.subscribe("news", wire)
        try world.unsubscribe("news", wire)
        world.advance(.milliseconds(2_999))
        try world.subscribe("news", wire)
        world.advance(.seconds(3))
        #expect(world.webhooks == [.channelOccupied(name)])
        try world.unsubscribe("news", wire)
        world.advance(.seconds(3))
        #expect(world.webhooks == [.channelOccupied(name), .channelVacated(name)])
        try world.subscribe("news", wire)
        #expect(world.webhooks.count == 3)
    }

    @Test func webhooksAreForWhoWantsThem() throws {
        let world = ChannelWorld(loops: 1) {
            $0.webhooks = []
            $0.subscriptionCounts = true
        }
        let wire = world.connect(0)
        try world.subscribe("presence-cache-x", user: "u", wire)
        try world.subscribe("private-x", wire)
        try world.send(#"{"event":"client-e","channel":"private-x","data":1}"#, wire)
        world.disconnect(wire)
        world.advance(.seconds(3))
        #expect(world.webhooks.isEmpty && world.channelCount == 0)
    }

    // MARK: Client events

    @Test(arguments: [0, 1]) func clientEventsGoToTheOthers(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let plain = world.name("private-", onShard: shard)
        let presence = world.name("presence-", onShard: shard)
        let wires = (0..<3).map { world.connect($0 % 2) }
        for (number, wire) in wires.enumerated() {
            try world.subscribe(plain, wire)
            try world.subscribe(presence, user: "u\(number)", wire)
        }
        world.settle()
        for wire in wires { wire.heard = [] }
        world.webhooks = []
        try world.send(#"{"event":"client-a","channel":"\#(plain)","data":{"x": "y"}}"#, wires[0])
        try world.send(#"{"event":"client-b","channel":"\#(presence)","data":"t\"\u00e9"}"#, wires[0])
        try world.send(#"{"event":"client-c","channel":"\#(plain)"}"#, wires[0])
        world.settle()
        let expected = [
            event("client-a", plain, #"{\"x\": \"y\"}"#),
            #"{"event":"client-b","channel":"\#(presence)","data":"t\"\u00e9","user_id":"u0"}"#,
            event("client-c", plain, "null"),
        ]
        #expect(wires[0].heard.isEmpty && wires[1].heard == expected && wires[2].heard == expected)
        #expect(
            world.webhooks == [
                .clientEvent(
                    try #require(ChannelName(plain)), name: "client-a", data: Array(#"{"x": "y"}"#.utf8),
                    socketID: wires[0].session.socketID, userID: nil),
                .clientEvent(
                    try #require(ChannelName(presence)), name: "client-b", data: Array("t\"é".utf8),
                    socketID: wires[0].session.socketID, userID: "u0"),
                .clientEvent(
                    try #require(ChannelName(plain)), name: "client-c", data: Array("null".utf8),
                    socketID: wires[0].session.socketID, userID: nil),
            ])
    }

    @Test(arguments: ["news", "cache-x", "private-encrypted-x", "private-encrypted-cache-x", "#server-to-user-u"])
    func clientEventsAreForPrivateAndPresenceChannels(_ name: String) throws {
        let world = ChannelWorld(loops: 1)
        let (one, two) = (world.connect(0), world.connect(0))
        for wire in [one, two] {
            try world.signin("u", wire)
            try world.subscribe(name, wire)
        }
        let before = two.heard
        try world.send(#"{"event":"client-a","channel":"\#(name)","data":{}}"#, one)
        #expect(one.heard.last?.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#) == true)
        #expect(two.heard == before)
    }

    @Test func clientEventsAreForMembersAndWhereTheAppAllowsThem() throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("private-", onShard: 1)
        let wire = world.connect(0)
        let text = #"{"event":"client-a","channel":"\#(name)","data":{}}"#
        try world.send(text, wire)
        try world.subscribe(name, wire)
        try world.send(text, wire)
        #expect(wire.heard.count == 2, "not in it yet either time")
        world.settle()
        try world.send(text, wire)
        #expect(wire.heard.count == 3 && wire.heard[2] == succeeded(name))
        let other = ChannelWorld(loops: 1) { $0.clientEvents = false }
        let refused = other.connect(0)
        try other.subscribe("private-x", refused)
        try other.send(#"{"event":"client-a","channel":"private-x","data":{}}"#, refused)
        #expect(refused.heard.count == 2 && refused.heard[1].contains(#""code":null"#))
    }

    @Test func clientEventsAreBoundedInNumberAndSize() throws {
        var limits = AppLimits()
        limits.clientEventsPerSecond = 3
        limits.eventBytesMax = 5
        let world = ChannelWorld(loops: 1, appLimits: limits)
        let (one, two) = (world.connect(0), world.connect(0))
        for wire in [one, two] { try world.subscribe("private-x", wire) }
        func send(_ data: String) throws {
            try world.send(#"{"event":"client-a","channel":"private-x","data":\#(data)}"#, one)
        }
        try send(#""\u00e9abc""#)
        try send("[1,2]")
        #expect(two.heard.count == 3 && one.heard.count == 1)
        try send("[1,23]")
        #expect(two.heard.count == 3 && one.heard.count == 2, "one byte too many")
        world.advance(.milliseconds(400))
        try send("1")
        try send("1")
        #expect(two.heard.count == 4 && one.heard.count == 3, "what is refused for its size is one of three")
        #expect(one.heard[2].contains(#""code":4301"#))
        world.advance(.seconds(1))
        for _ in 0..<4 { try send("1") }
        #expect(two.heard.count == 7 && one.heard.count == 4)
    }
}
