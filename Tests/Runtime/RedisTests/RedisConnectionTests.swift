import Bytes
import Clock
import RESP
import Reactor
import Redis
import TestRedis
import TestSupport
import Testing

/// Commands, replies and pushes on a connection that is up.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RedisConnectionTests {
    @Test func repliesComeInOrder() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        var replies: [Int64] = []
        for _ in 0..<10_000 {
            let sending = world.send("INCR n") { reply in
                if case .value(.integer(let number)) = reply { replies.append(number) }
            }
            #expect(sending == .taken)
        }
        #expect(world.client.unansweredCount == 10_000)
        try world.run { world.client.unansweredCount == 0 }
        #expect(replies == Array(1...10_000))
        #expect(world.client.waitingBytes == 0)
    }

    @Test func repliesAreWhatTheServerSays() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        let value = (0..<3 << 20).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var reply: RedisReply?
        #expect(world.client.send(bytes(["SET", "k"]) + [value]) { reply = $0 } == .taken)
        try world.run { reply != nil }
        #expect(reply == ok())
        #expect(try world.call("GET k") == .value(.bytes(value)))
        #expect(try world.call("GET none") == .value(.null))
        #expect(
            try world.call("LPUSH k x")
                == .refused(
                    RESPError(
                        Array(
                            "WRONGTYPE Operation against a key holding the wrong kind of value".utf8))))
        #expect(try world.call("CLIENT GETNAME") == ok("carillon"))
    }

    /// Between replies, before the reply of the command that leads to them, and within scripts.
    @Test func pushesTakeNoRepliesPlace() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        guard case .value(.push(let last)) = try world.subscribe("{c}a", "{c}b") else {
            Issue.record("no confirmation")
            return
        }
        #expect(last == [.bytes(Array("ssubscribe".utf8)), .bytes(Array("{c}b".utf8)), .integer(2)])
        #expect(world.pushes.count == 2)
        let script = "redis.call('spublish', KEYS[1], ARGV[1]) return ARGV[1]"
        var replies: [RedisReply] = []
        for number in 0..<200 {
            #expect(world.send("SPUBLISH {c}a p\(number)") { replies.append($0) } == .taken)
            #expect(world.send("ECHO e\(number)") { replies.append($0) } == .taken)
            let sending = world.client.send(bytes(["EVAL", script, "1", "{c}b", "s\(number)"])) { replies.append($0) }
            #expect(sending == .taken)
        }
        try world.run { world.client.unansweredCount == 0 && world.pushes.count == 402 }
        #expect(replies == (0..<200).flatMap { [.value(.integer(1)), ok("e\($0)"), ok("s\($0)")] })
        #expect(
            Array(world.pushes.dropFirst(2))
                == (0..<200).flatMap { [message("{c}a", "p\($0)"), message("{c}b", "s\($0)")] })
        var ended: RedisReply?
        #expect(world.client.unsubscribe(bytes(["{c}a"])) { ended = $0 } == .taken)
        try world.run { ended != nil }
        #expect(
            ended == .value(.push([.bytes(Array("sunsubscribe".utf8)), .bytes(Array("{c}a".utf8)), .integer(1)])))
        #expect(try world.call("SPUBLISH {c}a x") == .value(.integer(0)))
    }

    /// The message is in the socket when the command is lined up.
    @Test func onlyItsConfirmationEndsASubscription() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        _ = try world.subscribe("a")
        let other = try BlockingRedis(port: server.port)
        #expect(try other.callText("SPUBLISH", "a", "m") == .integer(1))
        var ends: [RedisReply] = []
        #expect(world.client.subscribe(bytes(["b"])) { ends.append($0) } == .taken)
        #expect(world.send("ECHO x") { ends.append($0) } == .taken)
        try world.run { ends.count == 2 }
        let confirmation: [RESPValue] = [.bytes(Array("ssubscribe".utf8)), .bytes(Array("b".utf8)), .integer(2)]
        #expect(ends == [.value(.push(confirmation)), ok("x")])
        #expect(Array(world.pushes.dropFirst()) == [message("a", "m"), confirmation])
    }

    @Test func aRefusedSubscriptionKeepsTheOrder() throws {
        let server = try RedisServer("--user u on >p ~* +@all resetchannels &mine".words)
        let world = try RedisWorld(up: "redis://u:p@127.0.0.1:\(server.port)")
        var replies: [RedisReply] = []
        #expect(world.send("ECHO a") { replies.append($0) } == .taken)
        #expect(world.client.subscribe(bytes(["other"])) { replies.append($0) } == .taken)
        #expect(world.send("ECHO b") { replies.append($0) } == .taken)
        #expect(world.client.subscribe(bytes(["mine"])) { replies.append($0) } == .taken)
        #expect(world.send("ECHO c") { replies.append($0) } == .taken)
        try world.run { replies.count == 5 }
        guard case .refused(let error) = replies[1] else {
            Issue.record("\(replies)")
            return
        }
        #expect(error.code == "NOPERM")
        #expect([replies[0], replies[2], replies[4]] == [ok("a"), ok("b"), ok("c")])
        #expect(world.pushes.count == 1)
    }

    // MARK: Bounds

    @Test func commandsWithoutAnswerAreBounded() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server) { $0.unansweredMax = 3 }
        var replies: [RedisReply] = []
        for number in 0..<3 { #expect(world.send("ECHO \(number)") { replies.append($0) } == .taken) }
        let waiting = world.client.waitingBytes
        #expect(world.send("ECHO 3") { replies.append($0) } == .full)
        #expect(world.client.subscribe(bytes(["c"])) { replies.append($0) } == .full)
        #expect(world.client.waitingBytes == waiting)
        try world.run { replies.count == 3 }
        #expect(world.send("ECHO 3") { replies.append($0) } == .taken)
        try world.run { replies.count == 4 }
        #expect(replies == (0..<4).map { ok("\($0)") })
    }

    @Test func bytesThatWaitAreBounded() throws {
        let server = try RedisServer()
        var writer = ByteWriter()
        writer.append(command: bytes(["ECHO", "0123456789"]))
        let size = writer.count
        let world = try RedisWorld(server) { $0.waitingBytesMax = 2 * size }
        var replies: [RedisReply] = []
        #expect(world.send("ECHO 0123456789") { replies.append($0) } == .taken)
        #expect(world.send("ECHO 0123456789A") { replies.append($0) } == .full)
        #expect(world.send("ECHO 0123456789") { replies.append($0) } == .taken)
        #expect(world.client.waitingBytes == 2 * size)
        #expect(world.send("PING") { replies.append($0) } == .full)
        #expect(world.client.waitingBytes == 2 * size)
        let long = String(repeating: "x", count: 2 * size + 1)
        #expect(world.send("ECHO \(long)") { replies.append($0) } == .full)
        try world.run { world.client.unansweredCount == 0 }
        #expect(replies == [ok("0123456789"), ok("0123456789")])
    }

    /// `$<length>\r\n`, the string, and the line's end.
    @Test func aValueHasABound() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server) { $0.valueBytesMax = 1_007 + 2 }
        #expect(try world.call("SET fits " + String(repeating: "x", count: 1_000)) == ok())
        #expect(try world.call("SET long " + String(repeating: "x", count: 1_001)) == ok())
        #expect(try world.call("GET fits") == ok(String(repeating: "x", count: 1_000)))
        var replies: [RedisReply] = []
        #expect(world.send("ECHO a") { replies.append($0) } == .taken)
        #expect(world.send("GET long") { replies.append($0) } == .taken)
        #expect(world.send("ECHO b") { replies.append($0) } == .taken)
        try world.run { world.opened == [1, 2] }
        #expect(replies == [ok("a"), .lost, .lost])
        #expect(world.lost == [RedisTrouble(.tooLong)])
    }

    // MARK: Writing and reading in parts

    /// The server does not read, so the socket takes a part only.
    @Test func whatASocketTakesInPartsArrivesWhole() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server) { $0.waitingBytesMax = 64 << 20 }
        server.pause()
        let part = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 20)
        var replies: [RedisReply] = []
        var sent = 0
        while world.client.waitingBytes < 4 << 20 {
            #expect(world.client.send(bytes(["APPEND", "k"]) + [part]) { replies.append($0) } == .taken)
            sent += 1
            world.turn()
        }
        server.resume()
        while sent < 60 {
            #expect(world.client.send(bytes(["APPEND", "k"]) + [part]) { replies.append($0) } == .taken)
            sent += 1
            world.turn()
        }
        try world.run { replies.count == sent }
        #expect(replies == (1...sent).map { .value(.integer(Int64($0 << 20))) })
        #expect(try world.call("STRLEN k") == .value(.integer(Int64(sent << 20))))
    }

    /// More than a socket holds, so that the server could not send all of it.
    @Test func aLoopThatWasHeldUpReadsFirst() throws {
        let server = try RedisServer()
        let other = try BlockingRedis(port: server.port)
        _ = try other.callText("SET", "k", String(repeating: "x", count: 64 << 10))
        let patience = Duration.seconds(3)
        let world = try RedisWorld(server) { $0.replyTimeout = patience }
        var replies = 0
        for _ in 0..<400 {
            #expect(world.send("GET k") { if case .value = $0 { replies += 1 } } == .taken)
        }
        let sent = Instant.read()
        world.turn()
        // The loop hangs, until more time has passed than a reply may take.
        #expect(eventually { Instant.read() > sent.advanced(by: patience + .milliseconds(50)) })
        try world.run { world.client.unansweredCount == 0 }
        #expect(replies == 400 && world.lost.isEmpty)
    }

    // MARK: Closing

    @Test func aHandlerMayClose() throws {
        let server = try RedisServer()
        let world = try RedisWorld(server)
        var replies: [RedisReply] = []
        for number in 0..<10 {
            let sending = world.send("ECHO \(number)") { [unowned world] in
                replies.append($0)
                if number == 4 { world.client.close() }
                if number > 4 { #expect(world.send("PING") == .away) }
            }
            #expect(sending == .taken)
        }
        try world.run { replies.count == 10 }
        #expect(replies == (0..<5).map { ok("\($0)") } + Array(repeating: .lost, count: 5))
        #expect(world.events == ["opened 1"] && world.loop.sourceCount == 0)
        world.client.connect()
        world.turn()
        #expect(world.opened == [1] && world.loop.sourceCount == 0)
    }

    @Test func anOwnerMayCloseInItsCalls() throws {
        let server = try RedisServer()
        let pushed = try RedisWorld(server)
        _ = try pushed.subscribe("c")
        let opening = try RedisWorld("redis://127.0.0.1:\(server.port)")
        opening.whenOpened = { [unowned opening] in opening.client.close() }
        try opening.run { opening.events == ["opened 1"] }
        opening.turn()
        #expect(opening.loop.sourceCount == 0)
    }
}
