import Clock
import HubEngine
import RESP
import Shared
import TestRedis
import Testing

/// The shared state of users in a real Redis, asked one call after the other: the script alone, without what sends it.
final class RedisUsers {
    private let redis: BlockingRedis
    /// Hears what the script tells.
    private let hearer: BlockingRedis
    private let apps: KnownApps
    private let prefixes: [[UInt8]]
    private let name: String
    private let hash: [UInt8]
    private var heard: Set<HubID> = []
    /// When each bucket has work, as it has said.
    private var dues: [Int: Instant] = [:]
    /// What one command took at most, in users told of.
    private(set) var toldAtOnceMax = 0

    init(_ limits: ShardLimits, _ apps: KnownApps, buckets: Int = 2) throws {
        self.apps = apps
        let port = try RedisChannels.server.get().port
        redis = try BlockingRedis(port: port)
        hearer = try BlockingRedis(port: port)
        guard case .integer(let number) = try redis.callText("INCR", "states"),
            case .bytes(let hash) = try redis.callText(
                "SCRIPT", "LOAD", SharedScript.user.text(limits, isTimeGiven: true))
        else { throw CancellationError() }
        self.hash = hash
        name = "s\(number)"
        prefixes = BucketKeys(count: buckets, of: name).prefixes.map { Array($0.utf8) }
    }

    /// Carries out the call, and gives what hubs were told. A hub hears from when it was first heard of.
    @discardableResult
    func call(_ call: UserCall, from hub: HubID, caller: Int = 0, now: Instant) throws -> MemoryUsers.News {
        try listen(hub)
        var news = MemoryUsers.News()
        let sent = SentUserCall(call, from: hub)
        for var command in try SharedCommand.commands(sent, caller: caller, apps, buckets: prefixes.count) {
            command.time = now
            for (number, prefix) in prefixes.enumerated() where command.bucket.map({ $0.number == number }) ?? true {
                let value = try redis.call(command.evaluated(hash, prefix))
                if case .error(let error) = value, error.code != "FENCED" {
                    Issue.record("\(String(decoding: error.message, as: UTF8.self))")
                }
                if case .done(let due) = try UserReply(value) { dues[number] = due.map { now.advanced(by: $0) } }
                let told = news.count
                try collect(&news)
                toldAtOnceMax = max(toldAtOnceMax, news.count - told)
            }
        }
        return news
    }

    private func listen(_ hub: HubID) throws {
        guard heard.insert(hub).inserted else { return }
        for prefix in prefixes {
            try hearer.tell([Array("SSUBSCRIBE".utf8), SharedCommand.channel(to: hub, prefix)])
        }
        _ = try hearer.callText("PING")
    }

    private func collect(_ news: inout MemoryUsers.News) throws {
        // What a script tells is on its way before its reply, and so before the answer to this.
        _ = try hearer.callText("PING")
        while let push = hearer.nextPush(within: .zero) {
            guard push.count == 3, push[0] == .bytes(Array("smessage".utf8)), case .bytes(let channel) = push[1],
                case .bytes(let bytes) = push[2]
            else { continue }
            let hub = heard.first { hub in prefixes.contains { SharedCommand.channel(to: hub, $0) == channel } }
            news.append((try #require(hub), try SharedUserNews(bytes, apps)))
        }
    }

    /// When `UserCall.due` has work, as the last replies have said.
    var nextDue: Instant? { dues.values.min() }

    /// The keys that are there beside those that each bucket has.
    var leftovers: [String] {
        get throws {
            guard case .array(let keys) = try redis.callText("KEYS", name + ":*") else { return [] }
            return keys.compactMap { key in
                guard case .bytes(let bytes) = key else { return nil }
                let text = String(decoding: bytes, as: UTF8.self)
                return ["bucket", "callers", "hubs"].contains { text.hasSuffix(":\($0)") } ? nil : text
            }
        }
    }
}
