import HubEngine
import TestSupport
import Testing

@testable import Shared

/// Commands to all hubs, when connections break, hubs come later or were taken for dead, and Redis keeps nothing.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct LinkCommandTests {
    private func terminate(_ user: String) -> HubCommand { .terminate(app: 0, user: user) }

    private func tell(_ world: LinkWorld, _ command: HubCommand) { world.hubs[0].link?.send(.command(command)) }

    private func hears(_ world: LinkWorld, _ command: HubCommand, _ hub: LinkWorld.Hub) throws -> UInt64 {
        var heard: [HubCommand] = []
        try world.run {
            heard = hub.commands.filter { $0.aged(by: 0) == command }
            return !heard.isEmpty
        }
        #expect(heard.count == 1)
        guard case .terminate(_, _, let age)? = heard.first else { return 0 }
        return age
    }

    @Test func eachHubHearsEachOnceAndNotItsOwn() throws {
        let world = try LinkWorld(hubs: 3)
        for number in 0..<300 { tell(world, terminate("\(number)")) }
        try world.run { world.hubs[1...].allSatisfy { $0.commands.count >= 300 } }
        try world.run(for: .milliseconds(100))
        for hub in world.hubs[1...] {
            #expect(hub.commands.map { $0.aged(by: 0) } == (0..<300).map { terminate("\($0)").aged(by: 0) })
        }
        #expect(world.hubs[0].commands.isEmpty)
    }

    @Test func aHubThatComesLaterHearsThemWithTheirAge() throws {
        let world = try LinkWorld(hubs: 2)
        // Several pages.
        for number in 0..<300 { tell(world, terminate("\(number)")) }
        try world.run { world.hubs[1].commands.count == 300 }
        try world.run(for: .milliseconds(300))
        try world.join()
        let late = world.hubs[2]
        try world.run { late.commands.count >= 300 }
        // Those that waited for their sender's connection were told with an age.
        #expect(late.commands.map { $0.aged(by: 0) } == world.hubs[1].commands.map { $0.aged(by: 0) })
        #expect(late.commands.allSatisfy { if case .terminate(_, _, 300...) = $0 { true } else { false } })
    }

    @Test func nothingIsLostWithConnections() throws {
        let world = try LinkWorld(hubs: 3)
        for number in 0..<20 {
            _ = try world.redis.callText("CLIENT", "KILL", "TYPE", "pubsub")
            // Some find the way broken, others do not know it yet.
            if number % 2 == 0 { try world.run { world.hubs[0].shared.metrics.connections.level == 0 } }
            tell(world, terminate("\(number)"))
            for hub in world.hubs[1...] { _ = try hears(world, terminate("\(number)"), hub) }
        }
        #expect(world.hubs[1].commands.count == 20)
    }

    /// It goes on as another hub, and reads what was told while it was dead.
    @Test func aHubThatWasTakenForDeadHearsThem() throws {
        let world = try LinkWorld(hubs: 2)
        let hub = world.hubs[1]
        tell(world, terminate("before"))
        _ = try hears(world, terminate("before"), hub)
        // Deaf and dead, and nobody has told it so.
        for prefix in hub.shared.keys {
            let callers = String(decoding: prefix, as: UTF8.self) + "callers"
            _ = try world.redis.callText("HSET", callers, "\(hub.shared.presentHub.number)", "1")
        }
        _ = try world.redis.callText("CLIENT", "KILL", "TYPE", "pubsub")
        try world.run { world.hubs[0].shared.metrics.connections.level == 0 }
        try world.run { world.hubs[0].shared.metrics.connections.level == 1 }
        tell(world, terminate("meanwhile"))
        _ = try hears(world, terminate("meanwhile"), hub)
        #expect(hub.shared.presentHub != hub.shared.hub)
        #expect(hub.commands.count == 2)
    }

    /// Told, passed on, and told again until it is kept: who comes later hears of it, and others once.
    @Test func aFullRedisPassesThemOn() throws {
        let world = try LinkWorld(hubs: 2)
        _ = try world.redis.callText("CONFIG", "SET", "maxmemory", "1")
        tell(world, terminate("u"))
        #expect(try hears(world, terminate("u"), world.hubs[1]) == 0)
        _ = try world.redis.callText("CONFIG", "SET", "maxmemory", "0")
        try world.run {
            let told = String(decoding: world.hubs[0].shared.keys[0], as: UTF8.self) + "told"
            return try world.redis.callText("XLEN", told) != .integer(0)
        }
        try world.join()
        #expect(try hears(world, terminate("u"), world.hubs[2]) > 0)
        #expect(world.hubs[1].commands.count == 1)
    }
}
