import Clock
import Logging
import RESP
import Reactor
import Redis
import TestRedis
import TestSupport
import Testing

/// What ends connections, and what keeps them from being made.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RedisTroubleTests {
    private func url(_ server: RedisServer, _ credentials: String = "") -> String {
        "redis://\(credentials)127.0.0.1:\(server.port)"
    }

    // MARK: Losses

    @Test func eachEndsOnceWhenTheServerDies() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        server.pause()
        var ends: [Int] = []
        for number in 0..<1_000 {
            let sending = world.send("INCR n") { [unowned world] reply in
                #expect(reply == .lost)
                ends.append(number)
                if number == 999 { world.events.append("all") }
            }
            #expect(sending == .taken)
            if number % 100 == 0 { world.turn() }
        }
        server.kill()
        try world.run { !world.lost.isEmpty }
        #expect(ends == Array(0..<1_000))
        #expect(world.send("PING") == .away)
        try server.restart()
        try world.run { world.isUp }
        #expect(world.events == ["opened 1", "all", "lost", "opened 2"])
        #expect(world.lost.map(\.kind) == [.lost])
        #expect(world.client.generation == 2)
        #expect(try world.call("ECHO a") == ok("a"))
        #expect(ends.count == 1_000)
    }

    @Test func aHandlerMaySendWhenItsCommandIsLost() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        server.pause()
        var sendings: [RedisSending] = []
        var ends = 0
        for _ in 0..<5 {
            let sending = world.send("INCR n") { [unowned world] _ in
                ends += 1
                sendings.append(world.send("INCR n") { _ in ends += 100 })
            }
            #expect(sending == .taken)
        }
        world.turn()
        server.kill()
        try world.run { !world.lost.isEmpty }
        #expect(sendings == Array(repeating: .away, count: 5) && ends == 5)
    }

    @Test func aServerThatHangsIsLeft() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server) {
            $0.replyTimeout = .milliseconds(200)
            $0.connectTimeout = .seconds(1)
        }
        server.pause()
        var replies: [RedisReply] = []
        #expect(world.send("ECHO a") { replies.append($0) } == .taken)
        #expect(world.send("ECHO b") { replies.append($0) } == .taken)
        try world.run { !world.lost.isEmpty }
        #expect(world.lost == [RedisTrouble(.overdue)] && replies == [.lost, .lost])
        // The kernel takes connections for it, and it does not answer them.
        try world.run { !world.failed.isEmpty }
        #expect(world.kinds.first == .timeout)
        server.resume()
        try world.run { world.opened == [1, 2] }
    }

    /// A connection without commands asks by itself.
    @Test func aSilentServerIsFound() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server) {
            $0.pingAfter = .milliseconds(100)
            $0.replyTimeout = .milliseconds(500)
        }
        let other = try BlockingRedis(port: server.port)
        func pings() throws -> Int {
            guard case .bytes(let info) = try other.callText("INFO", "commandstats") else { return 0 }
            let text = String(decoding: info, as: UTF8.self)
            let count = text.firstMatch(of: /cmdstat_ping:calls=(\d+)/)?.1
            return count.flatMap { Int($0) } ?? 0
        }
        let before = try pings()
        try world.run { (try? pings()).map { $0 >= before + 3 } ?? false }
        let losses = world.lost.count
        server.pause()
        try world.run { world.lost.count > losses }
        #expect(world.lost.last == RedisTrouble(.overdue))
        server.resume()
    }

    @Test func aConnectionThatTheServerClosesIsMadeAgain() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        let other = try BlockingRedis(port: server.port)
        for generation in 2...4 {
            _ = try other.callText("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            try world.run { world.opened.last == UInt64(generation) }
        }
        #expect(world.lost.map(\.kind) == [.lost, .lost, .lost])
    }

    /// A reply that belongs to no command: what follows cannot be told apart.
    @Test func aReplyTooManyIsALoss() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        // Two commands where one is allowed.
        var replies: [RedisReply] = []
        let sending = world.client.send(
            encoding: { $0.append("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n") }, { replies.append($0) })
        #expect(sending == .taken)
        try world.run { world.opened == [1, 2] }
        #expect(replies == [ok("PONG")] && world.lost.map(\.kind) == [.malformed])
    }

    @Test func aLoadingServerIsLeft() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        // Redis gives the code of an error that a script returns.
        var replies: [RedisReply] = []
        let script = "return redis.error_reply('LOADING Redis is loading the dataset in memory')"
        #expect(world.client.send(bytes(["EVAL", script, "0"])) { replies.append($0) } == .taken)
        #expect(world.send("PING") { replies.append($0) } == .taken)
        try world.run { world.opened == [1, 2] }
        #expect(world.lost == [RedisTrouble(.unfit, "LOADING")])
        guard case .refused(let error)? = replies.first else {
            Issue.record("\(replies)")
            return
        }
        #expect(error.code == "LOADING" && replies.dropFirst() == [.lost])
    }

    @Test func aDemotedMasterIsLeft() throws {
        let (server, other) = (try RedisServer(), try RedisServer())
        let world = try RedisWorld(server)
        let admin = try BlockingRedis(port: server.port)
        _ = try admin.callText("REPLICAOF", "127.0.0.1", "\(other.port)")
        guard case .refused(let error) = try world.call("SET k v") else {
            Issue.record("a replica was written to")
            return
        }
        #expect(error.code == "READONLY")
        #expect(world.lost == [RedisTrouble(.unfit, "READONLY")])
        try world.run { !world.failed.isEmpty }
        #expect(world.failed.first == RedisTrouble(.notMaster, "it is a replica"))
        _ = try admin.callText("REPLICAOF", "NO", "ONE")
        try world.run { world.opened == [1, 2] }
    }

    /// A server whose replicas come and go by the second fills no log: it is well once it has taken all for a while.
    @Test func refusalsThatComeAndGoAreToldOnce() {
        let lines = KeptLines()
        let log = RedisLog(Logger(label: "redis") { _ in lines })
        var now = Instant(nanoseconds: 1_000_000_000)
        for _ in 0..<30 {
            log.isRefused(RESPError(Array("NOREPLICAS few".utf8)), at: now)
            now = now.advanced(by: .seconds(1))
            log.isTaken(at: now)
        }
        #expect(lines.all.count == 1, "\(lines.all)")
        now = now.advanced(by: .seconds(10))
        log.isTaken(at: now)
        log.isTaken(at: now)
        #expect(lines.all.count == 2)
        log.isRefused(RESPError(Array("NOREPLICAS few".utf8)), at: now)
        #expect(lines.all.count == 3)
    }

    // MARK: No connection

    @Test func nobodyAnswers() throws {
        let server = try RedisServer()
        server.stop()
        let world = try RedisWorld(url(server))
        #expect(world.send("PING") == .away)
        #expect(world.client.subscribe(bytes(["a"])) { _ in } == .away)
        try world.run { world.failed.count >= 3 }
        #expect(Set(world.kinds) == [.connecting])
        #expect(world.lines.all.count == 1, "told once")
        #expect(world.lost.isEmpty)
        try server.restart()
        try world.run { world.opened == [1] }
    }

    @Test func aNameWithoutAddressIsTold() throws {
        let world = try RedisWorld("redis://nowhere.invalid")
        try world.run { !world.failed.isEmpty }
        #expect(world.kinds.first == .hostNotFound)
    }

    /// The loop goes on while a name is resolved, and each address is tried.
    @Test func namesAreResolvedBesideTheLoop() throws {
        let server = try RedisServer()
        let world = try RedisWorld(up: "redis://localhost:\(server.port)")
        #expect(try world.call("PING") == ok("PONG"))
    }

    @Test func anAttemptMayBeClosed() throws {
        let server = try RedisServer()
        server.pause()
        for turns in 0..<6 {
            let world = try RedisWorld("redis://localhost:\(server.port)")
            for _ in 0..<turns { world.loop.tick(waitingAtMost: .milliseconds(5)) }
            world.client.close()
            world.turn()
            #expect(world.loop.sourceCount == 0 && world.failed.isEmpty)
        }
        server.resume()
    }

    // MARK: Credentials

    @Test func credentialsAreJudged() throws {
        let server = try RedisServer(["--requirepass", "s3cret", "--user"] + "u on >p@ss ~* &* +@all".words)
        _ = try RedisWorld(up: url(server, ":s3cret@"))
        let world = try RedisWorld(up: url(server, "u:p%40ss@"))
        #expect(try world.call("ACL WHOAMI") == ok("u"))
        for credentials in ["", ":s3cret-not@", "u:s3cret@", "nobody:s3cret@"] {
            let world = try RedisWorld(url(server, credentials))
            try world.run { world.failed.count == 2 }
            #expect(world.kinds == [.credentials, .credentials], "\(credentials)")
            #expect(world.lines.all.count == 1 && !world.lines.all[0].contains("s3cret"))
        }
    }

    @Test func aUserWithFewRightsIsEnough() throws {
        let server = try RedisServer(
            "--user default off --user u on >p ~k:* resetchannels &c:* +get +ssubscribe".words)
        let world = try RedisWorld(up: url(server, "u:p@"))
        #expect(try world.call("GET k:1") == .value(.null))
        guard case .value = try world.subscribe("c:1"), case .refused(let error) = try world.call("GET x") else {
            Issue.record("rights are not as given")
            return
        }
        #expect(error.code == "NOPERM" && world.lost.isEmpty)
    }

    // MARK: The prelude

    @Test func thePreludeComesBeforeAll() throws {
        let server = try RedisServer()
        let prelude = (0..<3).map { number in
            RedisClient.Prelude(bytes(["APPEND", "k", "\(number)"])) { reply in
                reply == .integer(Int64(number + 1)) ? nil : "the length is wrong"
            }
        }
        let world = try RedisWorld(up: url(server), prelude: prelude)
        #expect(try world.call("GET k") == ok("012"))
    }

    @Test func aRefusedPreludeIsNoConnection() throws {
        let server = try RedisServer()
        let prelude = RedisClient.Prelude(bytes(["SETNX", "k", "hidden"])) { $0 == .integer(0) ? nil : "it is new" }
        let world = try RedisWorld(url(server), prelude: [prelude])
        try world.run { world.isUp }
        #expect(world.failed == [RedisTrouble(.prelude, "it is new")])
        #expect(world.lines.all.count == 2 && !world.lines.all[0].contains("hidden"))
        let broken = RedisClient.Prelude(bytes(["NO", "hidden"])) { reply in
            if case .error(let error) = reply { return "refused: \(error.code)" }
            return nil
        }
        let other = try RedisWorld(url(server), prelude: [broken])
        try other.run { other.failed.count == 2 }
        #expect(other.failed.first == RedisTrouble(.prelude, "refused: ERR") && other.opened.isEmpty)
    }

    @Test func anOwnerMayLeave() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        var reply: RedisReply?
        #expect(world.send("PING") { reply = $0 } == .taken)
        world.client.leave("something is missing")
        #expect(reply == .lost && world.lost == [RedisTrouble(.prelude, "something is missing")])
        try world.run { world.opened == [1, 2] }
    }

    @Test func everyKindHasWords() {
        let texts = Set(RedisTrouble.Kind.allCases.map { RedisTrouble($0).description })
        #expect(texts.count == RedisTrouble.Kind.allCases.count)
        #expect(RedisTrouble(.unfit, "READONLY").description == "it cannot be written to (READONLY)")
    }
}
