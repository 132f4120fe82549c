import HubEngine
import Pusher
import TestSupport
import Testing

/// How many ordinary channels a hub holds, and for which apps and connections.
@Suite struct ChannelBoundTests: ChannelTexts {
    private func world(_ loops: Int, _ most: Int, ofApp: Int? = nil) -> ChannelWorld {
        var limits = ShardLimits()
        limits.channelsMax = most
        var appLimits = AppLimits()
        appLimits.channelsMax = ofApp
        return ChannelWorld(loops: loops, limits: limits, appLimits: appLimits)
    }

    private func isRefused(_ wire: ChannelWorld.Wire, _ name: String) -> Bool {
        wire.heard.last?.hasPrefix(#"{"event":"pusher:subscription_error","channel":"\#(name)","#) == true
            && wire.heard.last?.contains(#"\"type\":\"LimitReached\""#) == true
            && wire.heard.last?.contains(#"\"status\":503"#) == true
    }

    /// The bounds of a hub and of an app hold exactly, on whichever loops the channels' shards are.
    @Test(arguments: [1, 3], [true, false]) func soManyChannelsAndNoMore(_ loops: Int, ofApp: Bool) throws {
        let world = ofApp ? world(loops, 1_000, ofApp: 7) : world(loops, 7)
        let wire = world.connect(0)
        for number in 0..<7 {
            try world.subscribe("c\(number)", wire)
            world.settle()
            #expect(wire.heard.last == succeeded("c\(number)"))
        }
        for _ in 0..<2 {
            try world.subscribe("c7", wire)
            world.settle()
            #expect(isRefused(wire, "c7"))
        }
        #expect(world.heldCount == 7 && world.metrics.channels.count == 7 && world.app.counts.channels.count == 7)
        // Existing channels can be joined, by anyone and any number of times.
        let other = world.connect(loops - 1)
        for name in ["c0", "c6"] {
            try world.subscribe(name, other)
            world.settle()
            #expect(other.heard.last == succeeded(name))
        }
        // A channel that was left keeps its slot until its end is reported: a returning client finds it.
        try world.unsubscribe("c3", wire)
        world.settle()
        try world.subscribe("c7", wire)
        world.settle()
        #expect(isRefused(wire, "c7"))
        try world.subscribe("c3", wire)
        world.settle()
        #expect(wire.heard.last == succeeded("c3"))
        try world.unsubscribe("c3", wire)
        world.settle()
        world.advance(.seconds(3))
        try world.subscribe("c7", wire)
        world.settle()
        #expect(wire.heard.last == succeeded("c7") && world.metrics.channels.count == 7)
        try world.subscribe("c3", other)
        world.settle()
        #expect(isRefused(other, "c3"))
        for wire in [wire, other] { world.disconnect(wire) }
        world.settle()
        world.advance(.seconds(3))
        #expect(world.channelCount == 0 && world.metrics.channels.count == 0 && world.app.counts.channels.count == 0)
    }

    /// A presence channel that refuses its first member takes no slot.
    @Test func aRefusedChannelTakesNoSlot() throws {
        var limits = ShardLimits()
        limits.channelsMax = 1
        limits.membersBytesMax = 1
        let world = ChannelWorld(loops: 1, limits: limits)
        let wire = world.connect(0)
        try world.subscribe("presence-x", user: "a", wire)
        #expect(wire.heard.last?.contains(#"\"status\":403"#) == true && world.metrics.channels.count == 0)
        try world.subscribe("c", wire)
        #expect(wire.heard.last == succeeded("c"))
    }

    @Test func whatIsKeptForNewcomersCounts() throws {
        let world = world(1, 2)
        world.publish("cache-a", "e", "1")
        world.publish("cache-b", "e", "1")
        world.publish("cache-c", "e", "1")
        #expect(world.metrics.channels.count == 2 && world.facts("cache-c").cached == nil)
        let wire = world.connect(0)
        try world.subscribe("c", wire)
        #expect(isRefused(wire, "c"))
        try world.subscribe("cache-a", wire)
        #expect(wire.heard.suffix(2) == [succeeded("cache-a"), event("e", "cache-a", "1")])
        world.publish("cache-a", "e", "2")
        #expect(wire.heard.last == event("e", "cache-a", "2"))
        world.advance(.seconds(1_801))
        #expect(world.metrics.channels.count == 1)
        try world.subscribe("c", wire)
        #expect(wire.heard.last == succeeded("c"))
    }

    /// In any history, the count equals what is held.
    @Test(arguments: 0..<20) func theCountIsTrue(_ seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        var limits = ShardLimits()
        limits.channelsMax = 12
        // So small that even the newest entry may be evicted.
        if seed % 3 == 0 { (limits.departuresMax, limits.silencesMax) = (1, 1) }
        var appLimits = AppLimits()
        appLimits.channelsMax = seed % 2 == 0 ? 9 : nil
        let world = ChannelWorld(loops: 3, limits: limits, appLimits: appLimits) { $0.subscriptionCounts = true }
        var wires = (0..<6).map { world.connect($0 % 3) }
        for _ in wires { _ = world.app.counts.connections.enter(most: nil) }
        for _ in 0..<400 {
            let index = Int.random(in: 0..<6, using: &random)
            let kinds = ["", "cache-", "presence-"]
            let name = kinds[Int.random(in: 0..<3, using: &random)] + "n\(Int.random(in: 0..<12, using: &random))"
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5: try world.subscribe(name, user: name.hasPrefix("p") ? "u\(index)" : nil, wires[index])
            case 5..<7: try world.unsubscribe(name, wires[index])
            case 7: world.publish(name, "e", "x")
            case 8:
                world.disconnect(wires[index])
                wires[index] = world.connect(index % 3)
            default: world.advance(.milliseconds(Int.random(in: 0..<2_000, using: &random)))
            }
            for _ in 0..<Int.random(in: 0..<4, using: &random) { world.look(at: Int.random(in: 0..<3, using: &random)) }
            #expect(world.metrics.channels.count == world.heldCount)
            #expect(world.app.counts.channels.count == world.heldCount)
            #expect(world.heldCount <= (world.app.limits.channelsMax ?? 12))
        }
        for wire in wires { world.disconnect(wire) }
        world.settle()
        // The last count is sent at the end of a throttle interval, which starts another.
        for _ in 0..<2 { world.advance(.seconds(1_801)) }
        #expect(world.metrics.channels.count == 0 && world.channelCount == 0)
    }

    // MARK: Shares

    private func app(_ index: Int, connections: Int, most: Int? = nil) -> App {
        var limits = AppLimits()
        limits.channelsMax = most
        let app = App(
            id: "\(index)", credentials: AppCredentials(key: "k\(index)", secret: "s"), index: index,
            ownsDatabase: false, limits: limits)
        for _ in 0..<connections { _ = app.counts.connections.enter(most: nil) }
        return app
    }

    /// How many channels the app's connection gets when it asks for all.
    private func flood(_ quota: ChannelQuota, _ app: App, by subscriptions: Int? = 0, most: Int, few: Int = 0) -> Int {
        var count = 0
        while count <= most,
            (try? quota.enter(app, subscriptions: subscriptions.map { $0 + count }, most: most, few: few)) != nil
        {
            count += 1
        }
        return count
    }

    /// The first half is free for any app; beyond it an app gets only its share, so that every app gets some.
    @Test func appsHaveEvenShares() {
        let (first, second, third) = (app(0, connections: 1), app(1, connections: 1), app(2, connections: 1))
        let alone = ChannelQuota()
        #expect(flood(alone, first, most: 100) == 100, "the only app has all of it")
        for _ in 0..<100 { alone.leave(first) }
        let quota = ChannelQuota()
        quota.serves(3)
        #expect(flood(quota, first, most: 100) == 50)
        #expect(flood(quota, second, most: 100) == 25)
        #expect(flood(quota, third, most: 100) == 25)
        #expect(quota.count == 100)
        for _ in 0..<30 { quota.leave(first) }
        #expect(flood(quota, first, most: 100) == 5, "up to its share")
        #expect(flood(quota, second, most: 100) == 0 && flood(quota, third, most: 100) == 0)
        let crowd = ChannelQuota()
        crowd.serves(4)
        let shares = (0..<4).map { flood(crowd, app($0, connections: 1), most: 120) }
        #expect(shares == [60, 20, 20, 20], "the last has one, too")
    }

    /// However many channels others ask for, the next connection gets some, also when many come in turn.
    @Test(arguments: [nil, 500]) func connectionsHaveEvenShares(_ ofApp: Int?) throws {
        let most = ofApp ?? 10_000
        let app = app(0, connections: 0, most: ofApp)
        let quota = ChannelQuota()
        var taken: [Int] = []
        for _ in 0..<30 {
            _ = app.counts.connections.enter(most: nil)
            taken.append(flood(quota, app, most: 10_000))
        }
        #expect(taken[0] == most, "alone, it has all")
        for _ in 0..<most { quota.leave(app) }
        let refused = ofApp == nil ? EntryRefusal.channelsFull : .appChannelsFull
        // Again, with other connections present.
        let shares = (0..<30).map { _ in flood(quota, app, most: 10_000) }
        #expect(shares[0] == most / 2 && shares[1] < shares[0] / 10, "\(shares)")
        #expect(shares.allSatisfy { $0 > 0 }, "\(shares)")
        #expect(quota.count < most)
        do throws(EntryRefusal) {
            try quota.enter(app, subscriptions: most, most: 10_000, few: 0)
            Issue.record("more than a share was given")
        } catch {
            #expect(error == refused)
        }
        // Channels kept by the backend count for no connection's share.
        #expect(flood(quota, app, by: nil, most: 10_000) > 0 && quota.count == most)
    }

    /// A few channels are never too many for one connection: otherwise a hub used evenly would be full at half of its bound.
    @Test func fewChannelsAreNotTooMany() {
        let app = app(0, connections: 10)
        let quota = ChannelQuota()
        let shares = (0..<12).map { _ in flood(quota, app, most: 100, few: 5) }
        #expect(shares == [50] + Array(repeating: 5, count: 10) + [0])
        for _ in 0..<100 { quota.leave(app) }
        // All alike; each one's share of the total is ten.
        var subscriptions = Array(repeating: 0, count: 10)
        for turn in 0..<10 {
            for index in subscriptions.indices {
                let isIn = (try? quota.enter(app, subscriptions: subscriptions[index], most: 100, few: 10)) != nil
                #expect(isIn, "\(turn) \(index)")
                subscriptions[index] += 1
            }
        }
        #expect(quota.count == 100)
    }
}
