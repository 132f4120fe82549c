import HubEngine
import Pusher
import RESP
import Redis
import TestRedis
import TestSupport
import Testing

@testable import Shared

/// A master that was replaced, and does not know it: it was started again, or nobody could reach it.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct FormerMasterTests {
    private let news = LinkWorld.key("news")

    /// Sentinels name another server from now on.
    private func replace(_ world: LinkWorld) throws -> RedisServer {
        let other = try RedisServer()
        let sentinel = try BlockingRedis(port: try #require(world.sentinel).port)
        _ = try sentinel.callText("SENTINEL", "REMOVE", "hub")
        _ = try sentinel.callText("SENTINEL", "MONITOR", "hub", "127.0.0.1", "\(other.port)", "1")
        return other
    }

    private func connections(at server: RedisServer) throws -> [String] {
        guard case .bytes(let bytes) = try BlockingRedis(port: server.port).callText("CLIENT", "LIST") else {
            return []
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
            .filter { $0.contains("name=carillon ") }
    }

    private func number(_ name: String, of connection: String) -> Int {
        let words = connection.split(separator: " ")
        return words.first { $0.hasPrefix(name + "=") }.flatMap { Int($0.dropFirst(name.count + 1)) } ?? 0
    }

    /// Its replicas have left it for the new one: writes are refused, and the hub asks the sentinels.
    @Test func oneWithoutReplicasIsLeft() throws {
        let world = try LinkWorld(hubs: 1, bySentinel: true)
        _ = try world.ask(.enter(news, Entering()))
        let other = try replace(world)
        _ = try world.redis.callText("CONFIG", "SET", "min-replicas-to-write", "1")
        try world.run { try connections(at: other).count == 1 }
        guard case .entered = try world.ask(.enter(news, Entering())) else {
            Issue.record("not entered")
            return
        }
        #expect(world.hubs[0].gaps == 1)
    }

    /// Without sentinels, there is nobody to ask: what can be read is.
    @Test func aServerThatIsAloneIsKept() throws {
        let world = try LinkWorld(hubs: 1)
        _ = try world.ask(.enter(news, Entering()))
        _ = try world.redis.callText("CONFIG", "SET", "min-replicas-to-write", "1")
        while case .entered = try world.ask(.enter(news, Entering())) {}
        #expect(try world.facts(news).subscriptionCount == 1)
        #expect(world.hubs[0].gaps == 0)
    }

    /// The first loop has found the new one, and another loop has nothing to write, and hears nothing.
    @Test func aLoopThatHearsNobodyAsks() throws {
        let world = try LinkWorld(hubs: 1, loops: 2, bySentinel: true)
        _ = try world.ask(.enter(news, Entering()))
        let other = try replace(world)
        // The first loop hears of users, too.
        let first = try #require(
            connections(at: world.server).max { number("ssub", of: $0) < number("ssub", of: $1) })
        _ = try world.redis.callText("CLIENT", "KILL", "ID", "\(number("id", of: first))")
        try world.run { try connections(at: other).count == 2 }
        #expect(try connections(at: world.server).isEmpty)
    }
}
