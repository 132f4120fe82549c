import Reactor
import TestSupport
import Testing

@testable import Shared

/// Signed calls that come to one hub, and again to another.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct SeenCallTests {
    private func see(_ world: LinkWorld, _ call: SeenCall, by hub: Int = 0) throws -> SeenVerdict {
        let found = Locked<SeenVerdict?>(nil)
        world.hubs[hub].shared.see(call) { verdict in found.withLock { $0 = verdict } }
        try world.run { found.withLock { $0 != nil } }
        return try #require(found.withLock { $0 })
    }

    /// A while after the server began.
    private func call(
        _ number: UInt8, _ world: LinkWorld, app: String = "1", after seconds: Int64 = 60
    ) throws -> SeenCall {
        let reply = try world.redis.callText("TIME")
        guard case .array(let parts) = reply, case .bytes(let now) = parts[0] else { throw CancellationError() }
        let time = try #require(Int64(String(decoding: now, as: UTF8.self)))
        return SeenCall(app: app, mark: Array(repeating: number, count: 16), timestamp: time + seconds)
    }

    @Test func eachIsNewOnce() throws {
        let world = try LinkWorld(hubs: 2)
        let one = try call(1, world)
        #expect(try see(world, one) == .new)
        for hub in 0...1 { #expect(try see(world, one, by: hub) == .seen) }
        #expect(try see(world, call(2, world), by: 1) == .new)
        #expect(try see(world, call(1, world, app: "2")) == .new)
        world.hubs[1].shared.forget(one)
        _ = try world.facts(LinkWorld.key("behind"), by: 1)
        #expect(try see(world, one) == .new)
        // It may have come before anything was remembered.
        #expect(try see(world, call(3, world, after: -60)) == .early)
    }

    @Test func anAppsCallsOfAMinuteAreBounded() throws {
        let world = try LinkWorld(hubs: 1) { $0.buckets = 1 }
        let one = try call(1, world)
        #expect(try see(world, one) == .new)
        guard case .array(let keys) = try world.redis.callText("KEYS", "*seen:1:*"), case .bytes(let key)? = keys.first
        else {
            Issue.record("nothing is remembered")
            return
        }
        let others = (0..<4_095).map { Array("\($0)".utf8) }
        _ = try world.redis.call([Array("SADD".utf8), key] + others)
        #expect(
            try see(world, SeenCall(app: "1", mark: Array("another one of them".utf8), timestamp: one.timestamp))
                == .full)
        #expect(try see(world, one) == .seen)
        #expect(try see(world, call(1, world, app: "2")) == .new)
    }

}
