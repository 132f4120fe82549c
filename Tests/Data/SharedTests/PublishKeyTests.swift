import Clock
import HubEngine
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Shared

/// Publishes under an `Idempotency-Key`, which come to one hub and again to another.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PublishKeyTests {
    private let news = LinkWorld.key("news")

    private func key(_ text: String = "k", call: String = "call") -> PublishKey {
        PublishKey(Array(text.utf8), of: LinkWorld.app, call: Array(call.utf8))
    }

    private func begin(_ world: LinkWorld, _ key: PublishKey, by hub: Int = 0) throws -> PublishKeyVerdict {
        let found = Locked<PublishKeyVerdict?>(nil)
        world.hubs[hub].shared.begin(key) { verdict in found.withLock { $0 = verdict } }
        try world.run { found.withLock { $0 != nil } }
        return try #require(found.withLock { $0 })
    }

    private func settle(_ world: LinkWorld, _ key: PublishKey, _ answer: String?, by hub: Int = 0) throws {
        let isDone = Locked(false)
        world.hubs[hub].shared.settle(key, answer.map { Array($0.utf8) }) { isDone.withLock { $0 = true } }
        try world.run { isDone.withLock { $0 } }
    }

    @Test func aRepeatGetsTheFirstAnswerAtAnyHub() throws {
        let world = try LinkWorld(hubs: 2)
        let first = key()
        #expect(try begin(world, first) == .new)
        #expect(try begin(world, key(), by: 1) == .underWay)
        try settle(world, first, "{}")
        for hub in 0...1 {
            #expect(try begin(world, key(), by: hub) == .kept(Array("{}".utf8)))
            #expect(try begin(world, key(call: "other"), by: hub) == .otherCall)
            #expect(try begin(world, key("other\(hub)"), by: hub) == .new)
        }
        // Another attempt does not change the answer.
        try settle(world, key(), "late")
        #expect(try begin(world, key()) == .kept(Array("{}".utf8)))
    }

    @Test func aCallThatWasNotCarriedOutLeavesItsKeyFree() throws {
        let world = try LinkWorld(hubs: 2)
        let first = key()
        #expect(try begin(world, first) == .new)
        try settle(world, first, nil)
        #expect(try begin(world, key(call: "other"), by: 1) == .new)
        #expect(try world.costs() == [Self.cost, Self.cost])
    }

    /// The hub that has begun is dead: another one goes on, and each channel gets the event once.
    @Test(arguments: ["news", "cache-news"]) func whatADeadHubHasBegunIsCompleted(_ name: String) throws {
        let world = try LinkWorld(hubs: 2)
        let (one, two) = (LinkWorld.key(name), LinkWorld.key(name + "-2"))
        for key in [one, two] {
            world.hubs[1].link?.send(.follow(key))
            _ = try world.ask(.enter(key, Entering()), by: 1)
        }
        func publish(_ key: ChannelKey, _ index: UInt64, by hub: Int) throws {
            var publication = Publication(channel: key.name, event: "e", data: [])
            publication.once = self.key().once &+ index
            guard case .facts = try world.ask(.publish(key, publication), by: hub) else {
                Issue.record("not published")
                return
            }
        }
        #expect(try begin(world, key()) == .new)
        try publish(one, 0, by: 0)
        _ = try world.ask(.reap(world.hubs[0].shared.hub), by: 1)
        #expect(try begin(world, key(), by: 1) == .new)
        try publish(one, 0, by: 1)
        try publish(two, 1, by: 1)
        // Another call is another event.
        try publish(one, 7, by: 1)
        try world.run { world.hubs[1].changes.count { $0.isEvent } >= 3 }
        _ = try world.facts(one, by: 1)
        #expect(world.hubs[1].changes.filter(\.isEvent).map(\.key) == [one, two, one])
    }

    /// Their bytes are bounded: the app that has most loses its oldest.
    @Test func keysAreBounded() throws {
        let world = try LinkWorld(hubs: 1) { $0.buckets = 1 }
        let answer = String(repeating: "a", count: 300_000)
        for number in 0..<5 {
            let one = key("k\(number)")
            #expect(try begin(world, one) == .new)
            try settle(world, one, answer)
        }
        let costs = try world.costs()
        #expect(costs == [3 * (Self.cost + answer.utf8.count), 3 * (Self.cost + answer.utf8.count)])
        #expect(try begin(world, key("k0")) == .new)
        #expect(try begin(world, key("k4")) == .kept(Array(answer.utf8)))
    }

    /// A call under way is not the one that goes.
    @Test func aCallUnderWayKeepsItsKey() throws {
        let world = try LinkWorld(hubs: 1) { $0.buckets = 1 }
        let answer = String(repeating: "a", count: 523_200)
        let first = key("first")
        #expect(try begin(world, first) == .new)
        for number in 0..<2 {
            let one = key("k\(number)")
            #expect(try begin(world, one) == .new)
            try settle(world, one, answer)
        }
        #expect(try begin(world, key("more")) == .full)
        try settle(world, first, "{}")
        #expect(try begin(world, key("more")) == .new)
        #expect(try begin(world, key("k1")) == .kept(Array(answer.utf8)))
    }

    /// Also where the way to Redis is broken when it ends.
    @Test(arguments: [nil, "{}"]) func whatAPublishCameToArrives(_ answer: String?) throws {
        let world = try LinkWorld(hubs: 2)
        let first = key()
        #expect(try begin(world, first) == .new)
        _ = try world.redis.callText("CLIENT", "KILL", "TYPE", "pubsub")
        try world.run { world.hubs[0].shared.metrics.connections.level == 0 }
        try settle(world, first, answer)
        var verdict = PublishKeyVerdict.underWay
        let start = Instant.read()
        while verdict == .underWay || verdict == .unavailable { verdict = try begin(world, key(), by: 1) }
        #expect(verdict == answer.map { .kept(Array($0.utf8)) } ?? .new)
        // Before the key would be another's anyway.
        #expect(Instant.read().duration(since: start) < .seconds(9))
    }

    /// Ids of events are bounded by app: beyond it nothing is published, for it could not be told once.
    @Test func idsOfEventsAreBounded() throws {
        let world = try LinkWorld(hubs: 1)
        _ = try world.ask(.enter(news, Entering()))
        func publish(_ once: UInt64) throws -> Bool {
            var publication = Publication(channel: news.name, event: "e", data: [])
            publication.once = once
            if case .facts = try world.ask(.publish(news, publication)) { return true }
            return false
        }
        #expect(try publish(1))
        guard case .array(let keys) = try world.redis.callText("KEYS", "*}:i:1:*"), case .bytes(let key)? = keys.first
        else {
            Issue.record("nothing is remembered")
            return
        }
        _ = try world.redis.call([Array("SADD".utf8), key] + (2..<16_385).map { Array("\($0)".utf8) })
        #expect(try !publish(20_000))
        #expect(try publish(1) && publish(0))
    }

    @Test func withoutRedisNobodyKnows() throws {
        let world = try LinkWorld(hubs: 1)
        world.hubs[0].dies()
        #expect(try begin(world, key()) == .unavailable)
    }

    private static let cost = 600
}

extension LinkWorld {
    /// What the keys of its app cost, and those of all apps.
    fileprivate func costs() throws -> [Int] {
        var sums = [0, 0]
        for prefix in hubs[0].shared.keys {
            let name = String(decoding: prefix, as: UTF8.self)
            if case .double(let cost) = try redis.callText("ZSCORE", name + "costs", "1") { sums[0] += Int(cost) }
            if case .bytes(let cost) = try redis.callText("GET", name + "cost") {
                sums[1] += Int(String(decoding: cost, as: UTF8.self)) ?? 0
            }
        }
        return sums
    }
}
