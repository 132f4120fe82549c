import HubEngine
import Pusher
import Testing

/// How often subscriber counts and cache misses are reported.
@Suite struct ChannelCountTests: ChannelTexts {
    private static func counting(_ limits: ShardLimits = ShardLimits()) -> ChannelWorld {
        ChannelWorld(loops: 2, limits: limits) { $0.subscriptionCounts = true }
    }

    @Test func countsAreToldAtEachChange() throws {
        let world = Self.counting()
        let name = world.name("news", onShard: 1)
        let (one, two) = (world.connect(0), world.connect(1))
        try world.subscribe(name, one)
        world.settle()
        #expect(one.heard == [succeeded(name), count(name, 1)], "behind the answer")
        world.advance(.milliseconds(100))
        try world.subscribe(name, two)
        world.settle()
        #expect(one.heard.last == count(name, 2) && two.heard == [succeeded(name), count(name, 2)])
        world.advance(.milliseconds(100))
        world.disconnect(two)
        world.settle()
        #expect(one.heard.last == count(name, 1))
        #expect(world.webhooks.filter { $0.kind == .subscriptionCount }.count == 3)
        let presence = world.name("presence-", onShard: 0)
        try world.subscribe(presence, user: "u", one)
        world.settle()
        #expect(one.heard.last?.contains("subscription_succeeded") == true, "not on presence channels")
    }

    /// Clients may come and go as fast as they can send. The first change is reported at once, then one each 100 ms, and
    /// always the last. A newcomer gets the count at once.
    @Test func aQuicklyChangingCountIsToldAtIntervals() throws {
        let world = Self.counting()
        let name = world.name("news", onShard: 0)
        let (watcher, quick) = (world.connect(0), world.connect(1))
        try world.subscribe(name, watcher)
        world.settle()
        world.advance(.seconds(1))
        watcher.heard = []
        world.webhooks = []
        for _ in 0..<50 {
            try world.subscribe(name, quick)
            world.settle()
            #expect(quick.heard.suffix(2).first == succeeded(name) && quick.heard.last == count(name, 2))
            try world.unsubscribe(name, quick)
            world.settle()
        }
        #expect(watcher.heard == [count(name, 2)])
        world.advance(.milliseconds(99))
        #expect(watcher.heard.count == 1)
        world.advance(.milliseconds(1))
        world.settle()
        #expect(watcher.heard == [count(name, 2), count(name, 1)])
        #expect(world.webhooks.count { $0.kind == .subscriptionCount } == 2)
        for _ in 0..<40 {
            try world.subscribe(name, quick)
            world.advance(.milliseconds(25))
            try world.unsubscribe(name, quick)
            world.advance(.milliseconds(25))
            world.settle()
        }
        #expect(watcher.heard.count <= 23, "twenty in two seconds, and what had to be told before and after")
        for _ in 0..<2 { world.advance(.seconds(1)) }
        world.settle()
        #expect(watcher.heard.last == count(name, 1) && world.nextDue == nil)
        #expect(world.webhooks.last == .subscriptionCount(try #require(ChannelName(name)), 1))
    }

    /// A channel without other subscribers is not forgotten so soon that its throttling starts again.
    @Test func theCountOfALoneSubscriberIsToldAtIntervals() throws {
        let world = ChannelWorld(loops: 1) {
            $0.webhooks = [.subscriptionCount, .cacheChannels]
            $0.subscriptionCounts = true
        }
        let name = try #require(ChannelName("cache-x"))
        let wire = world.connect(0)
        for _ in 0..<20 {
            try world.subscribe("cache-x", wire)
            try world.unsubscribe("cache-x", wire)
        }
        #expect(world.webhooks == [.cacheMiss(name), .subscriptionCount(name, 1)])
        #expect(wire.heard.count { $0 == miss("cache-x") } == 20, "who asks is told each time")
        world.advance(.milliseconds(999))
        #expect(world.webhooks == [.cacheMiss(name), .subscriptionCount(name, 1), .subscriptionCount(name, 0)])
        try world.subscribe("cache-x", wire)
        try world.unsubscribe("cache-x", wire)
        #expect(world.webhooks.count { $0.kind == .cacheChannels } == 1)
        world.advance(.milliseconds(1))
        try world.subscribe("cache-x", wire)
        #expect(world.webhooks.count { $0.kind == .cacheChannels } == 2)
        // A miss after a publish is new.
        world.publish("cache-x", "e", "1")
        world.advance(.seconds(1_800))
        try world.unsubscribe("cache-x", wire)
        for _ in 0..<2 { world.advance(.seconds(5)) }
        #expect(world.channelCount == 0 && world.nextDue == nil)
    }

    @Test func silencesAreBounded() throws {
        var limits = ShardLimits()
        limits.silencesMax = 2
        let world = ChannelWorld(loops: 1, limits: limits) {
            $0.webhooks = [.subscriptionCount, .cacheChannels]
            $0.subscriptionCounts = true
        }
        let wire = world.connect(0)
        func pass(_ name: String) throws {
            try world.subscribe(name, wire)
            try world.unsubscribe(name, wire)
        }
        try pass("cache-a")
        try pass("cache-b")
        #expect(world.channelCount == 2 && world.webhooks.count == 4)
        try pass("cache-c")
        #expect(world.channelCount == 2, "the oldest has told what it had to tell, and is gone")
        #expect(world.webhooks.count == 7)
        #expect(world.webhooks.contains(.subscriptionCount(try #require(ChannelName("cache-a")), 0)))
        for _ in 0..<2 { world.advance(.seconds(2)) }
        #expect(world.channelCount == 0 && world.nextDue == nil)
    }

    /// Near the bound between few and many, reports are no more frequent than among few.
    @Test func noMoreIsToldAroundTheBound() throws {
        var limits = ShardLimits()
        limits.promptCountsMax = 2
        let world = ChannelWorld(loops: 1, limits: limits) { $0.subscriptionCounts = true }
        let wires = (0..<3).map { _ in world.connect(0) }
        for wire in wires.prefix(2) { try world.subscribe("news", wire) }
        for _ in 0..<2 { world.advance(.seconds(1)) }
        wires[0].heard = []
        for _ in 0..<20 {
            try world.subscribe("news", wires[2])
            try world.unsubscribe("news", wires[2])
        }
        #expect(wires[0].heard == [count("news", 3)])
        world.advance(.milliseconds(100))
        #expect(wires[0].heard == [count("news", 3), count("news", 2)])
    }

    /// Above the bound, one report each 5 s while the count changes, and always the last. A newcomer gets it at once.
    @Test func manyAreToldNowAndThen() throws {
        var limits = ShardLimits()
        limits.promptCountsMax = 3
        let world = Self.counting(limits)
        let name = world.name("news", onShard: 0)
        let wires = (0..<7).map { world.connect($0 % 2) }
        for wire in wires.prefix(3) { try world.subscribe(name, wire) }
        world.settle()
        // The pending count is sent and is then no longer new.
        for _ in 0..<2 { world.advance(.seconds(1)) }
        world.settle()
        let first = wires[0]
        first.heard = []
        try world.subscribe(name, wires[3])
        world.settle()
        #expect(first.heard == [count(name, 4)], "the first beyond the bound is told")
        for wire in wires[4...] {
            try world.subscribe(name, wire)
            world.settle()
        }
        #expect(first.heard == [count(name, 4)])
        #expect(wires[6].heard == [succeeded(name), count(name, 7)])
        world.advance(.milliseconds(4_999))
        #expect(first.heard.count == 1)
        world.advance(.milliseconds(1))
        world.settle()
        #expect(first.heard == [count(name, 4), count(name, 7)])
        world.advance(.seconds(50))
        #expect(first.heard.count == 2 && world.nextDue == nil, "nothing has changed")
        for wire in wires[5...] { world.disconnect(wire) }
        world.settle()
        #expect(first.heard.dropFirst(2) == [count(name, 6)])
        world.advance(.milliseconds(100))
        for wire in wires[3...4] { world.disconnect(wire) }
        world.settle()
        #expect(first.heard.dropFirst(3) == [count(name, 3)], "at the bound it is told at once")
        world.advance(.seconds(50))
        #expect(first.heard.count == 4)
    }
}
