import HubEngine
import Pusher
import RESP
import TestRedis
import TestSupport
import Testing

@testable import Shared

/// Hubs that do not serve the same apps, as while an app is new and hubs get it one after the other: what backends are to be
/// told waits for a hub that serves its app, and is dropped only if none does.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct UnservedAppTests {
    /// In the same bucket, so that one hub has to tell of both.
    private let room: ChannelKey
    private let others: [ChannelKey]

    private static let other = App(
        id: "2", credentials: AppCredentials(key: "k2", secret: "s2"), index: 1, ownsDatabase: false,
        features: LinkWorld.app.features)

    init() throws {
        let apps = KnownApps()
        for app in [LinkWorld.app, Self.other] { apps.replace(app) }
        func bucket(_ key: ChannelKey) throws -> Int? {
            try SharedCommand(SentChannelCall(.facts(key), 1, from: HubID(1)), caller: 0, apps, buckets: 4).bucket?
                .number
        }
        let room = LinkWorld.key("presence-room")
        let wanted = try bucket(room)
        self.room = room
        others = try (0..<100).map { ChannelKey(1, try #require(ChannelName("presence-\($0)"))) }
            .filter { try bucket($0) == wanted }
    }

    private func enter(_ key: ChannelKey, _ user: String, _ world: LinkWorld, by hub: Int) throws {
        guard case .entered = try world.ask(.enter(key, LinkWorld.entering(user)), by: hub) else {
            Issue.record("\(user) is not in")
            return
        }
    }

    private func waiting(_ world: LinkWorld) throws -> Bool {
        try BucketKeys(count: 4).prefixes.contains {
            try world.redis.call([Array("XLEN".utf8), Array(($0 + "webhooks").utf8)]) != .integer(0)
        }
    }

    /// The first hub tells, and does not serve the other app. The second one goes on, in the order of the events.
    @Test func anotherHubTells() throws {
        let world = try LinkWorld(hubs: 1)
        world.hubs[0].isSlow = true
        try enter(room, "first", world, by: 0)
        try world.run { world.hubs[0].webhooks.count == 2 }
        try world.join(serving: [LinkWorld.app, Self.other])
        try enter(room, "second", world, by: 1)
        for (number, key) in others.prefix(5).enumerated() {
            try enter(key, "x\(number)", world, by: 1)
            try enter(room, "y\(number)", world, by: 1)
        }
        try world.run { world.hubs[0].webhooks.count >= 3 }
        // Nobody goes on before what came first was told.
        try world.run(for: .milliseconds(2_500))
        #expect(world.hubs[1].webhooks.isEmpty)
        world.hubs[0].backendsAnswer()
        world.hubs[0].isSlow = false
        try world.run { world.hubs.reduce(0) { $0 + $1.webhooks.count } >= 18 }
        try world.run { try !waiting(world) }
        #expect(world.hubs.map(\.unserved) == [0, 0])
        let all = world.hubs[0].webhooks + world.hubs[1].webhooks
        #expect(all.count == 18 && Set(all.map { "\($0)" }).count == 18)
        let joined = all.compactMap {
            if case .memberAdded(let channel, let user) = $0 { "\(channel.string) \(user)" } else { nil }
        }
        #expect(
            joined.filter { $0.hasPrefix("presence-room ") }.map { $0.split(separator: " ")[1] }
                == ["first", "second", "y0", "y1", "y2", "y3", "y4"])
    }

    private func told(_ world: LinkWorld, _ user: String) -> Bool {
        world.hubs.contains { $0.webhooks.contains { if case .memberAdded(_, user) = $0 { true } else { false } } }
    }

    /// Those of an app that no hub serves any more are dropped and counted, many at a time, and hold nothing up.
    @Test func whatNobodyCanTellIsDropped() throws {
        let world = try LinkWorld(hubs: 2) { $0.lease = .seconds(5) }
        for hub in world.hubs { hub.isSlow = true }
        try world.join(serving: [LinkWorld.app, Self.other])
        world.hubs[2].isSlow = true
        for number in 0..<300 {
            world.hubs[2].send(.enter(others[number % 3], LinkWorld.entering("x\(number)")))
        }
        try enter(room, "y", world, by: 2)
        world.hubs[2].dies()
        for hub in world.hubs {
            hub.isSlow = false
            hub.backendsAnswer()
        }
        try enter(room, "z", world, by: 0)
        try world.run { told(world, "y") && told(world, "z") }
        try world.run { try !waiting(world) }
        #expect(world.hubs[0].unserved + world.hubs[1].unserved >= 303)
    }

    /// A hub that has got the app by then tells it, though it has had nothing else to do.
    @Test func aHubThatLearnsOfTheAppTells() throws {
        let world = try LinkWorld(hubs: 2) { $0.lease = .seconds(5) }
        for hub in world.hubs { hub.isSlow = true }
        world.hubs[1].serve([LinkWorld.app, Self.other])
        try enter(others[0], "x", world, by: 1)
        world.hubs[0].serve([LinkWorld.app, Self.other])
        world.hubs[1].dies()
        try world.run { world.hubs[0].webhooks.count >= 2 }
        // It has told it, and did not get what was dropped.
        #expect(try world.hubs[0].unserved == 0 && waiting(world))
        world.hubs[0].backendsAnswer()
        try world.run { try !waiting(world) }
    }

    /// It learns of the app while it tells what stands before: it goes on, and nobody drops anything.
    @Test func aHubThatLearnsMeanwhileGoesOn() throws {
        let world = try LinkWorld(hubs: 1)
        world.hubs[0].isSlow = true
        try enter(room, "first", world, by: 0)
        try world.run { world.hubs[0].webhooks.count == 2 }
        // That one never serves the other app.
        try world.join()
        try world.join(serving: [LinkWorld.app, Self.other])
        for (number, key) in others.prefix(3).enumerated() { try enter(key, "x\(number)", world, by: 2) }
        try world.run(for: .milliseconds(1_500))
        world.hubs[0].serve([LinkWorld.app, Self.other])
        _ = try world.ask(.reap(world.hubs[2].shared.hub), by: 0)
        world.hubs[2].dies()
        try world.run { told(world, "x0") && told(world, "x1") && told(world, "x2") }
        world.hubs[0].isSlow = false
        world.hubs[0].backendsAnswer()
        try enter(others[3], "x3", world, by: 0)
        try world.run { told(world, "x3") }
        try world.run { try !waiting(world) }
        #expect(world.hubs.map(\.unserved) == [0, 0, 0])
    }

    /// A hub whose configuration has lost the app leaves its events to one that still has it.
    @Test func aHubThatHasLostTheAppLeavesIt() throws {
        let world = try LinkWorld(hubs: 1)
        world.hubs[0].serve([LinkWorld.app, Self.other])
        world.hubs[0].isSlow = true
        try enter(room, "first", world, by: 0)
        try enter(others[0], "second", world, by: 0)
        try world.run { told(world, "first") && told(world, "second") }
        try world.join(serving: [LinkWorld.app, Self.other])
        world.hubs[0].serve([LinkWorld.app])
        try world.run(for: .milliseconds(600))
        try enter(others[1], "third", world, by: 1)
        world.hubs[0].isSlow = false
        world.hubs[0].backendsAnswer()
        try world.run { told(world, "third") }
        try world.run { try !waiting(world) }
        #expect(world.hubs.map(\.unserved) == [0, 0])
        #expect(world.hubs[1].webhooks.contains { if case .memberAdded(_, "third") = $0 { true } else { false } })
    }
}
