import RESP
import Redis
import TestRedis
import TestSupport
import Testing

/// The master, found by sentinels.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RedisSentinelTests {
    private static func url(_ sentinels: [RedisServer], _ service: String = "hub", tail: String = "") -> String {
        let list = sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
        return "redis+sentinel://\(list)/\(service)\(tail)"
    }

    @Test func theMasterIsFoundAfterAFailover() throws {
        let master = try RedisServer()
        let replica = try RedisServer(["--replicaof", "127.0.0.1", "\(master.port)"])
        let sentinel = try RedisServer(sentinelOf: master, service: "hub")
        let world = try RedisWorld(up: Self.url([sentinel]))
        #expect(try world.call("SET k v") == ok())
        // The sentinel promotes only a replica that it knows, and that has followed.
        let asking = try BlockingRedis(port: sentinel.port)
        let following = try BlockingRedis(port: replica.port)
        #expect(
            try eventually {
                guard case .array(let found) = try asking.callText("SENTINEL", "REPLICAS", "hub") else { return false }
                return try !found.isEmpty && following.callText("GET", "k") == .bytes(Array("v".utf8))
            })
        master.kill()
        try world.run { world.opened == [1, 2] }
        #expect(try world.call("GET k") == ok("v"))
        #expect(try world.call("SET k w") == ok())
        #expect(world.lines.all.last?.contains("\(replica.port)") == true)
    }

    @Test func aSentinelThatIsDownIsSkipped() throws {
        let master = try RedisServer()
        let down = try RedisServer(sentinelOf: master, service: "hub")
        let hanging = try RedisServer(sentinelOf: master, service: "hub")
        let other = try RedisServer(sentinelOf: master, service: "another")
        let well = try RedisServer(sentinelOf: master, service: "hub")
        down.stop()
        hanging.pause()
        let world = try RedisWorld(up: Self.url([down, hanging, master, other, well]))
        #expect(try world.call("SET k v") == ok())
        #expect(world.failed.isEmpty)
        hanging.resume()
    }

    @Test func aServiceThatNobodyKnowsIsTold() throws {
        let master = try RedisServer()
        let sentinel = try RedisServer(sentinelOf: master, service: "hub")
        let down = try RedisServer(sentinelOf: master, service: "hub")
        down.stop()
        let world = try RedisWorld(Self.url([sentinel, down], "other"))
        try world.run { world.failed.count >= 3 }
        #expect(Set(world.kinds) == [.noMaster] && world.opened.isEmpty)
    }

    /// A sentinel that still names a server which is a replica by now.
    @Test func aReplicaIsNoMaster() throws {
        let (master, former) = (try RedisServer(), try RedisServer())
        let behind = try RedisServer(sentinelOf: former, service: "hub")
        let well = try RedisServer(sentinelOf: master, service: "hub")
        _ = try BlockingRedis(port: former.port).callText("REPLICAOF", "127.0.0.1", "\(master.port)")
        let world = try RedisWorld(up: Self.url([behind, well]))
        #expect(world.kinds.allSatisfy { $0 == .notMaster })
        #expect(try world.call("SET k v") == ok())
        #expect(try BlockingRedis(port: master.port).callText("GET", "k") == .bytes(Array("v".utf8)))
    }

    @Test func sentinelsHaveTheirOwnCredentials() throws {
        let master = try RedisServer(["--requirepass", "of-master"])
        let sentinel = try RedisServer(
            sentinelOf: master, service: "hub",
            lines: ["requirepass of-sentinel", "sentinel auth-pass hub of-master"])
        let way = "127.0.0.1:\(sentinel.port)/hub"
        let world = try RedisWorld(up: "redis+sentinel://:of-master@\(way)?sentinel_password=of-sentinel")
        #expect(try world.call("PING") == ok("PONG"))
        let wrong = try RedisWorld("redis+sentinel://:of-master@\(way)")
        try wrong.run { !wrong.failed.isEmpty }
        #expect(wrong.kinds.first == .credentials)
        #expect(wrong.failed.first?.detail.hasPrefix("sentinel 127.0.0.1:\(sentinel.port)") == true)
    }

    @Test func aSentinelIsNoServer() throws {
        let master = try RedisServer()
        let sentinel = try RedisServer(sentinelOf: master, service: "hub")
        let world = try RedisWorld("redis://127.0.0.1:\(sentinel.port)")
        try world.run { !world.failed.isEmpty }
        #expect(world.failed.first?.kind == .notMaster)
    }
}
