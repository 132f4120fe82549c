import Clock
import HubEngine
import Pusher
import Testing

/// What cache channels keep, how long, and how apps share the room.
@Suite struct ChannelCacheTests: ChannelTexts {
    @Test(arguments: ["cache-", "private-cache-", "presence-cache-", "private-encrypted-cache-"])
    func aNewcomerGetsTheLastEvent(_ prefix: String) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name(prefix, onShard: 0)
        let user = prefix.hasPrefix("presence") ? "u" : nil
        let (one, two) = (world.connect(1), world.connect(1))
        try world.subscribe(name, user: user, one)
        world.settle()
        #expect(one.heard.count == 2 && one.heard[1] == miss(name))
        #expect(world.webhooks.contains(.cacheMiss(try #require(ChannelName(name)))))
        world.publish(name, "e", "1")
        world.publish(name, "f", #"{"a":2}"#)
        world.settle()
        world.advance(.seconds(60))
        try world.subscribe(name, user: user, two)
        world.look(at: 0)
        world.publish(name, "e", "3")
        world.settle()
        #expect(two.heard.dropFirst() == [event("f", name, #"{\"a\":2}"#), event("e", name, "3")])
        #expect(world.facts(name).cached == CachedEvent(name: "e", data: Array("3".utf8), secondsLeft: 1_800))
        world.advance(.milliseconds(1_799_001))
        #expect(world.facts(name).cached?.secondsLeft == 1)
        world.advance(.milliseconds(999))
        #expect(world.facts(name).cached == nil && world.cachedBytes == 0)
    }

    @Test func anEventIsKeptWithoutSubscribersAndForgottenInTime() throws {
        let world = ChannelWorld(loops: 1)
        world.publish("cache-x", "e", "1")
        world.publish("news", "e", "1")
        #expect(world.channelCount == 1 && !world.facts("cache-x").isOccupied)
        world.advance(.seconds(1_800))
        #expect(world.channelCount == 0 && world.cachedBytes == 0 && world.nextDue == nil)
    }

    @Test func clientEventsAreNotKept() throws {
        let world = ChannelWorld(loops: 1)
        let wire = world.connect(0)
        try world.subscribe("private-cache-x", wire)
        try world.send(#"{"event":"client-e","channel":"private-cache-x","data":{}}"#, wire)
        #expect(world.facts("private-cache-x").cached == nil)
    }

    @Test func theCacheIsBoundedAndItsOldestGoes() throws {
        let world = ChannelWorld(loops: 1)
        world.publish("cache-0", "e", String(repeating: "x", count: 1_000))
        let one = world.cachedBytes
        var limits = ShardLimits()
        limits.cacheBytesMax = 3 * one
        let full = ChannelWorld(loops: 1, limits: limits)
        for number in 0..<3 { full.publish("cache-\(number)", "e", String(repeating: "x", count: 1_000)) }
        #expect(full.cachedBytes == 3 * one && full.channelCount == 3)
        full.publish("cache-0", "e", String(repeating: "y", count: 1_000))
        #expect(full.cachedBytes == 3 * one && full.channelCount == 3, "replaced in its entry, the youngest now")
        full.publish("cache-3", "e", String(repeating: "x", count: 1_000))
        #expect(full.cachedBytes == 3 * one && full.facts("cache-1").cached == nil)
        #expect(full.facts("cache-0").cached != nil && full.channelCount == 3)
        full.publish("cache-4", "e", String(repeating: "x", count: 9_000))
        #expect(full.channelCount == 1 && full.facts("cache-4").cached != nil, "the only one of an app is kept")
    }

    /// A shard with events of several apps, all of one size.
    private struct SharedCache {
        var shard: ChannelShard
        let apps: [App]

        init(_ world: ChannelWorld, apps count: Int, limits: ShardLimits) {
            shard = ChannelShard(loops: 1, limits: limits)
            apps = (0..<count).map {
                App(id: "\($0)", credentials: AppCredentials(key: "k", secret: "s"), index: $0, ownsDatabase: false)
            }
        }

        mutating func publish(_ number: Int, of app: Int, bytes: Int = 1_000, now: Instant = 1) throws {
            let name = try #require(ChannelName("cache-\(100 + number)"))
            var effects = ChannelShard.Effects()
            let data = [UInt8](repeating: UInt8(ascii: "x"), count: bytes)
            _ = shard.publish(
                Publication(channel: name, event: "e", data: data), of: apps[app], now: now, &effects)
        }

        func kept(_ app: Int, of numbers: Range<Int> = 0..<20) throws -> [Int] {
            try numbers.filter { number in
                let name = try #require(ChannelName("cache-\(100 + number)"))
                return shard.facts(of: ChannelKey(app, name), now: 2).cached != nil
            }
        }
    }

    /// An app loses nothing within an equal share of the apps that have events; unused room is free for all.
    @Test func anAppsEventsPushOutItsOwn() throws {
        let world = ChannelWorld(loops: 1)
        var one = SharedCache(world, apps: 1, limits: ShardLimits())
        try one.publish(0, of: 0)
        var limits = ShardLimits()
        limits.cacheBytesMax = 8 * one.shard.cachedBytes
        var cache = SharedCache(world, apps: 2, limits: limits)
        for number in 0..<8 { try cache.publish(number, of: 0) }
        #expect(try cache.kept(0).count == 8, "alone it has all of it")
        for number in 0..<4 { try cache.publish(number, of: 1) }
        #expect(try cache.kept(0) == [4, 5, 6, 7] && cache.kept(1) == [0, 1, 2, 3])
        for number in 8..<20 { try cache.publish(number, of: 0) }
        #expect(try cache.kept(0) == [16, 17, 18, 19] && cache.kept(1) == [0, 1, 2, 3], "its own go, not another's")
        try cache.publish(4, of: 1)
        #expect(try cache.kept(0) == [16, 17, 18, 19] && cache.kept(1) == [1, 2, 3, 4], "one past its share")
        #expect(cache.shard.cachedBytes == limits.cacheBytesMax)
    }

    /// However small its share, an app keeps its last event.
    @Test func anAppKeepsItsLastEvent() throws {
        let world = ChannelWorld(loops: 1)
        var one = SharedCache(world, apps: 1, limits: ShardLimits())
        try one.publish(0, of: 0)
        var limits = ShardLimits()
        limits.cacheBytesMax = one.shard.cachedBytes
        var cache = SharedCache(world, apps: 3, limits: limits)
        for app in 0..<3 { try cache.publish(app, of: app, bytes: 3_000) }
        for app in 0..<3 {
            #expect(try cache.kept(app) == [app])
            try cache.publish(9, of: app, bytes: 3_000)
            #expect(try cache.kept(app) == [9])
        }
        var effects = ChannelShard.Effects()
        cache.shard.tick(now: 1 + 1_800_000_000_000, &effects)
        #expect(cache.shard.cachedBytes == 0 && cache.shard.channelCount == 0 && cache.shard.nextDue == nil)
    }

    /// Dropped events leave no entries in the eviction order.
    @Test func theOrderOfCachedEventsIsSwept() throws {
        var cache = SharedCache(ChannelWorld(loops: 1), apps: 2, limits: ShardLimits())
        try cache.publish(1, of: 1)
        for number in 0..<10_000 { try cache.publish(0, of: 0, now: Instant(nanoseconds: UInt64(number))) }
        #expect(cache.shard.cacheEntryCount < 4_200)
    }
}
