import Clock
import Foundation
import Glibc
import HTTP
import Sync
import TestHub
import TestSupport
import Testing

@testable import Gateway
@testable import Reactor

/// Connections are spread evenly over the loops, also when many come at once and after many have left.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct LoopSpreadTests {
    /// Answers with the name of its thread, which is the connection's loop.
    private struct WhereAmI: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
            return HTTPResponse(.ok, body: Array((name ?? "").utf8.prefix { $0 != 0x0A }))
        }
    }

    /// An open connection, and its loop.
    private struct Settled {
        let socket: RawSocket
        let loop: String
    }

    private static func fixture(loops: Int) async throws -> GatewayFixture {
        try await GatewayFixture(loops: loops, routes: WhereAmI())
    }

    /// Makes `count` connections, all connected before any sends a byte.
    private func burst(_ count: Int, _ fixture: GatewayFixture) throws -> [Settled] {
        let sockets = try (0..<count).map { _ in try RawSocket(port: fixture.port) }
        return try sockets.map { socket in
            socket.send(Array("GET /where HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
            return Settled(socket: socket, loop: try socket.readResponse())
        }
    }

    private func counts(_ connections: [Settled], loops: Int) -> [Int] {
        (0..<loops).map { loop in connections.count { $0.loop == "loop-\(loop)" } }
    }

    @Test(arguments: [1, 2, 4, 7]) func aBurstIsSpreadEvenly(_ loops: Int) async throws {
        let fixture = try await Self.fixture(loops: loops)
        let connections = try burst(loops * 25, fixture)
        #expect(counts(connections, loops: loops) == [Int](repeating: 25, count: loops))
    }

    @Test func unevenDeparturesAreMadeUpFor() async throws {
        let loops = 4
        let fixture = try await Self.fixture(loops: loops)
        var random = SeededRandom()
        var connections = try burst(100, fixture)
        for round in 0..<8 {
            // All of one loop leave, and some of the others.
            let emptied = "loop-\(round % loops)"
            connections.removeAll { $0.loop == emptied || Int.random(in: 0..<4, using: &random) == 0 }
            while fixture.gateway.connectionCount != connections.count { sched_yield() }
            let most = counts(connections, loops: loops).max() ?? 0
            connections += try burst(loops * (most + 3) - connections.count, fixture)
            let spread = [Int](repeating: most + 3, count: loops)
            #expect(counts(connections, loops: loops) == spread, "round \(round), seed \(random.seed)")
        }
    }

    /// Shards have equal parts, and the codes of each shard's streams differ in the lowest bits, which tables may use as
    /// slots: equal bits would leave most slots empty, and make long runs.
    @Test(arguments: [1, 2, 3, 8, 64]) func aShardsStreamsAreSpreadOverItsTables(_ loops: Int) {
        var perShard = [Int](repeating: 0, count: loops)
        var slots = Set<UInt32>()
        for number in 0..<64_000 {
            let stream = StreamID(user: "u\(number)", topic: "items")
            let shard = Router.owner(of: stream, loops: loops)
            perShard[shard] += 1
            if shard == 0, perShard[0] <= 640 { slots.insert(stream.code & 63) }
        }
        let fair = 64_000 / loops
        #expect(perShard.allSatisfy { $0 > fair * 3 / 4 && $0 < fair * 5 / 4 }, "\(perShard)")
        #expect(slots.count > 56)
    }

    /// Admission alone, with random histories: a newcomer always gets a loop with the fewest connections.
    @Test(arguments: 0..<20 as Range<UInt64>) func theFewestFirst(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let loops = Int.random(in: 1...64, using: &random)
        var limits = AdmissionLimits()
        limits.connectionsPerAddressMax = nil
        limits.addressConnectsPerSecond = 0
        let admission = AdmissionControl(loops: loops, limits: limits)
        let address = PeerAddress.unix
        let now = Instant(nanoseconds: 0)
        var counts = [Int](repeating: 0, count: loops)
        for _ in 0..<2000 {
            let occupied = counts.indices.filter { counts[$0] > 0 }
            if let loop = occupied.randomElement(using: &random), Int.random(in: 0..<3, using: &random) == 0 {
                admission.left(address, loop: loop, wasRefused: false)
                counts[loop] -= 1
                continue
            }
            guard case .welcome(let loop) = admission.arrived(from: address, at: now) else {
                Issue.record("refused, seed \(seed)")
                return
            }
            try #require(counts[loop] == counts.min(), "seed \(seed)")
            counts[loop] += 1
        }
        #expect(admission.total == counts.reduce(0, +))
    }
}
