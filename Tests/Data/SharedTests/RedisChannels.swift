import Clock
import HubEngine
import Pusher
import RESP
import Shared
import TestRedis
import Testing

/// The shared state in a real Redis, asked one call after the other: the scripts alone, without what sends them.
final class RedisChannels: SharedChannels {
    /// One for all tests: each state has keys of its own.
    static let server = Result { try RedisServer() }
    nonisolated(unsafe) private static var lastState = 0

    private let redis: BlockingRedis
    /// Hears what the scripts tell.
    private let hearer: BlockingRedis
    private let apps = KnownApps()
    private let prefixes: [[UInt8]]
    private let name: String
    private var hashes: [SharedScript: [UInt8]] = [:]
    private var heard: Set<ChannelKey> = []
    private var lastWebhook = 0

    init(_ limits: ShardLimits, _ app: App, buckets: Int = 2) throws {
        apps.replace(app)
        let port = try Self.server.get().port
        redis = try BlockingRedis(port: port)
        hearer = try BlockingRedis(port: port)
        guard case .integer(let number) = try redis.callText("INCR", "states") else { throw CancellationError() }
        name = "s\(number)"
        prefixes = BucketKeys(count: buckets, of: name).prefixes.map { Array($0.utf8) }
        for script in SharedScript.allCases {
            let text = script.text(limits, isTimeGiven: true)
            guard case .bytes(let hash) = try redis.callText("SCRIPT", "LOAD", text) else {
                throw CancellationError()
            }
            hashes[script] = hash
        }
        // As if beats had gone on for a while.
        for prefix in prefixes {
            let words = ["settledAt", "0"].map { Array($0.utf8) }
            _ = try redis.call([Array("HSET".utf8), prefix + Array("callers".utf8)] + words)
        }
    }

    func call(
        _ call: ChannelCall, _ number: UInt64, from hub: HubID, now: Instant, _ news: inout ContiguousArray<ChannelNews>
    ) -> ChannelReply? {
        do {
            return try reply(to: SentChannelCall(call, number, from: hub), now, &news)
        } catch SharedProblem.unknownApp {
            return .unavailable(.notDone)
        } catch {
            Issue.record(error)
            return nil
        }
    }

    private func reply(
        to sent: SentChannelCall, _ now: Instant, _ news: inout ContiguousArray<ChannelNews>
    ) throws -> ChannelReply? {
        var command = try SharedCommand(sent, caller: 0, apps, buckets: prefixes.count)
        command.time = now
        if let key = sent.call.key, heard.insert(key).inserted, let bucket = command.bucket, let app = apps[key.app] {
            let channel = prefixes[bucket.number] + Array("c:\(app.id):\(key.name.string)".utf8)
            try hearer.tell([Array("SSUBSCRIBE".utf8), channel])
            _ = try hearer.callText("PING")
        }
        var last: ChannelReply?
        for (number, prefix) in prefixes.enumerated() where command.bucket.map({ $0.number == number }) ?? true {
            let answer = try evaluate(command, prefix)
            try collect(prefix, &news)
            guard case .reply(_, let reply) = try ChannelNews(answer, apps) else { throw CancellationError() }
            last = last.map { Self.both($0, reply) } ?? reply
        }
        return last
    }

    private static func both(_ one: ChannelReply, _ other: ChannelReply) -> ChannelReply {
        guard case .list(let some) = one, case .list(let more) = other else { return other }
        return .list(some.merging(more) { first, _ in first })
    }

    private func evaluate(_ command: SharedCommand, _ prefix: [UInt8]) throws -> [UInt8] {
        let value = try run(command, prefix)
        if var pages = MemberPages(value) {
            var cursor: [UInt8]? = [UInt8(ascii: "0")]
            while let next = cursor {
                cursor = try pages.add(run(SharedCommand(membersFor: command, from: next), prefix))
            }
            return pages.answer
        }
        if case .array(let parts) = value, parts.count == 6, case .bytes(let bytes) = parts[0] { return bytes }
        if case .error(let error) = value, error.code == "FENCED" {
            return ChannelNews.reply(0, .unavailable(.notDone)).encoded(apps)
        }
        guard case .bytes(let bytes) = value else {
            Issue.record("\(value)")
            throw CancellationError()
        }
        return bytes
    }

    private func run(_ command: SharedCommand, _ prefix: [UInt8]) throws -> RESPValue {
        let value = try redis.call(command.evaluated(try #require(hashes[command.script]), prefix))
        if case .error(let error) = value, error.code != "FENCED" {
            Issue.record("\(String(decoding: error.message, as: UTF8.self))")
        }
        return value
    }

    /// What has been told by now, of either kind.
    private func collect(_ prefix: [UInt8], _ news: inout ContiguousArray<ChannelNews>) throws {
        // What a script tells is on its way before its reply, and so before the answer to this.
        _ = try hearer.callText("PING")
        while let push = hearer.nextPush(within: .zero) {
            if push.count == 3, push[0] == .bytes(Array("smessage".utf8)), case .bytes(let bytes) = push[2] {
                news.append(try ChannelNews(bytes, apps))
            }
        }
        let stream = prefix + Array("webhooks".utf8)
        guard
            case .array(let entries) = try redis.call([Array("XRANGE".utf8), stream, Array("-".utf8), Array("+".utf8)])
        else { return }
        for entry in entries {
            if case .array(let parts) = entry, case .array(let pair) = parts[1], case .bytes(let bytes) = pair[1] {
                news.append(try ChannelNews(bytes, apps))
            }
        }
        _ = try redis.call([Array("DEL".utf8), stream])
    }

    var nextDue: Instant? {
        let times = prefixes.compactMap { prefix -> Int? in
            let due = try? redis.call(
                [Array("ZRANGE".utf8), prefix + Array("due".utf8)] + ["0", "0", "WITHSCORES"].map { Array($0.utf8) })
            guard case .array(let first) = due, let first = first.first, case .array(let pair) = first,
                case .double(let score) = pair[1]
            else { return nil }
            return Int(score)
        }
        return times.min().map { Instant(nanoseconds: UInt64($0) * 1_000_000) }
    }

    /// The keys that are there beside those that each bucket has.
    var leftovers: [String] {
        get throws {
            guard case .array(let keys) = try redis.callText("KEYS", name + ":*") else { return [] }
            return keys.compactMap { key in
                guard case .bytes(let bytes) = key else { return nil }
                let text = String(decoding: bytes, as: UTF8.self)
                return ["bucket", "callers", "hubs", "webhooks"].contains { text.hasSuffix(":\($0)") } ? nil : text
            }
        }
    }
}
