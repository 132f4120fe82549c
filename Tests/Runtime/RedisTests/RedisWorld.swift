import Bytes
import Clock
import Logging
import RESP
import Reactor
import Redis
import TestRedis
import TestSupport
import Testing

/// A client on a loop that the test drives, and what it told its owner.
final class RedisWorld {
    let loop: EventLoop
    let lines = KeptLines()
    private(set) var client: RedisClient!
    private(set) var opened: [UInt64] = []
    private(set) var lost: [RedisTrouble] = []
    private(set) var failed: [RedisTrouble] = []
    private(set) var pushes: [[RESPValue]] = []
    /// What happened, in order: generations, `lost`, and what tests add.
    var events: [String] = []
    /// Called in `opened`.
    var whenOpened: () -> Void = {}

    init(
        _ url: String, prelude: [RedisClient.Prelude] = [], change: (inout RedisSettings) -> Void = { _ in }
    ) throws {
        loop = try EventLoop()
        var settings = RedisSettings(try RedisURL(url))
        // A busy machine is slow.
        settings.connectTimeout = .seconds(45)
        settings.replyTimeout = .seconds(45)
        settings.pauseMax = .milliseconds(500)
        change(&settings)
        client = try RedisClient(
            "client", loop: loop, settings: settings, prelude: prelude,
            log: RedisLog(Logger(label: "redis") { [lines] _ in lines }),
            handlers: RedisClient.Handlers(
                opened: { [unowned self] in
                    opened.append($0)
                    events.append("opened \($0)")
                    whenOpened()
                },
                lost: { [unowned self] in
                    lost.append($0)
                    events.append("lost")
                }, failed: { [unowned self] in failed.append($0) }, push: { [unowned self] in pushes.append($0) }))
        client.connect()
    }

    /// Waits until the connection is up.
    convenience init(
        up url: String, prelude: [RedisClient.Prelude] = [], change: (inout RedisSettings) -> Void = { _ in }
    ) throws {
        try self.init(url, prelude: prelude, change: change)
        try run { isUp }
    }

    convenience init(_ server: RedisServer, change: (inout RedisSettings) -> Void = { _ in }) throws {
        try self.init(up: "redis://127.0.0.1:\(server.port)", change: change)
    }

    deinit {
        client?.close()
    }

    var isUp: Bool { client.isUp }
    var kinds: [RedisTrouble.Kind] { failed.map(\.kind) }

    func run(until condition: () -> Bool) throws {
        let end = Instant.read().advanced(by: .seconds(100))
        while !condition() {
            try #require(
                Instant.read() < end, "not met in 100 s; lost: \(lost); failed: \(failed.suffix(2))")
            loop.tick(waitingAtMost: .milliseconds(20))
        }
    }

    /// One turn, in which what was sent is written.
    func turn() { loop.tick(waitingAtMost: .zero) }

    func send(_ text: String, _ done: @escaping (RedisReply) -> Void = { _ in }) -> RedisSending {
        client.send(bytes(text.split(separator: " ")), done)
    }

    /// Sends a command, and waits for its end.
    func call(_ parts: [String]) throws -> RedisReply {
        var reply: RedisReply?
        #expect(client.send(bytes(parts)) { reply = $0 } == .taken)
        try run { reply != nil }
        return try #require(reply)
    }

    func call(_ text: String) throws -> RedisReply { try call(text.split(separator: " ").map(String.init)) }

    func subscribe(_ channels: String...) throws -> RedisReply {
        var reply: RedisReply?
        #expect(client.subscribe(bytes(channels)) { reply = $0 } == .taken)
        try run { reply != nil }
        return try #require(reply)
    }
}

func bytes(_ texts: [some StringProtocol]) -> [[UInt8]] { texts.map { Array($0.utf8) } }

/// What a command that went well answers.
func ok(_ text: String = "OK") -> RedisReply { .value(.bytes(Array(text.utf8))) }

/// A message of a shard channel.
func message(_ channel: String, _ text: String) -> [RESPValue] {
    ["smessage", channel, text].map { .bytes(Array($0.utf8)) }
}

extension String {
    /// Its parts between spaces, as arguments of a program.
    var words: [String] { split(separator: " ").map(String.init) }
}
