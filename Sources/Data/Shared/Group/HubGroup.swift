import Clock
import Logging
import RESP
import Reactor
import Redis

/// The hubs that share a state, as Redis knows them: for operators.
package struct HubGroup: Sendable {
    /// A run of a hub.
    package struct Member: Sendable {
        /// Its number in this run.
        package let number: String
        /// What it says of itself (`SharedSettings.about`); empty until it has.
        package var about = ""
        /// Since it last said that it lives: the longest of all buckets.
        package var silence = Duration.zero
        /// Whether it has not for so long that it is taken for dead.
        package fileprivate(set) var isLate = false
    }

    /// Whether those that live serve the same apps, with the same secrets, limits and switches.
    package var servesTheSame: Bool {
        Set(members.filter { !$0.isLate }.compactMap { AppsDigest.read($0.about) }).count < 2
    }

    /// As the server says.
    package private(set) var serverVersion = ""
    /// Bytes that it uses, and may use; 0: all that there are.
    package private(set) var memory = (used: 0, most: 0)
    /// The hubs, by their numbers.
    package private(set) var members: [Member] = []
    /// Of all apps.
    package private(set) var channelCount = 0
    /// Events that backends have not been told yet.
    package private(set) var waitingWebhooks = 0
    /// Since the last beat of the bucket that is most behind; nil: no hub was ever there.
    package private(set) var beatAge: Duration?
    /// Why hubs would not use the server, and what to do.
    package private(set) var faults: [String] = []

    /// Asks Redis. Blocks the thread.
    ///
    /// - Throws: `RedisTrouble`; `TLSError`, `ReactorError`.
    package static func ask(_ settings: SharedSettings, patience: Duration = .seconds(5)) throws -> HubGroup {
        // What is wrong is said once, by who has asked.
        let log = RedisLog(Logger(label: "redis") { _ in SwiftLogNoOpLogHandler() })
        let loop = try EventLoop()
        var group = HubGroup()
        var trouble: RedisTrouble? = RedisTrouble(.timeout)
        var hasEnded = false
        var client: RedisClient?
        func end(_ reason: RedisTrouble?) {
            // The reason why it refuses something.
            guard !hasEnded else { return }
            hasEnded = true
            trouble = reason.map { reason in group.faults.first.map { RedisTrouble(.prelude, $0) } ?? reason }
            loop.handle.stop()
        }
        let prefixes = BucketKeys(count: settings.buckets, of: settings.name).prefixes
        client = try RedisClient(
            "the command", loop: loop, settings: settings.redis, log: log,
            handlers: RedisClient.Handlers(
                opened: { _ in
                    let questions = ServerFitness.questions(settings) + [ServerFitness.output]
                    var left = questions.count + 2 + 4 * prefixes.count
                    func send(_ question: RedisClient.Prelude, _ take: @escaping (RedisReply) -> Void) {
                        let done: (RedisReply) -> Void = { reply in
                            take(reply)
                            left -= 1
                            if left == 0 { end(nil) }
                        }
                        let sending =
                            question.isSubscription
                            ? client?.subscribe(Array(question.parts[1...]), done) : client?.send(question.parts, done)
                        if sending != .taken { end(RedisTrouble(.lost)) }
                    }
                    func send(_ words: [String], _ take: @escaping (RESPValue, inout HubGroup) -> Void) {
                        send(RedisClient.Prelude(words.map { Array($0.utf8) }) { _ in nil }) { reply in
                            switch reply {
                            case .value(let value): take(value, &group)
                            case .refused(let error):
                                group.faults.append(ServerFitness.problem(words[0], .error(error), settings))
                                end(RedisTrouble(.refused))
                            case .lost: end(RedisTrouble(.lost))
                            }
                        }
                    }
                    for question in questions {
                        send(question) { reply in
                            switch reply {
                            case .value(let value): if let fault = question.judge(value) { group.faults.append(fault) }
                            case .refused(let error):
                                if let fault = question.judge(.error(error)) { group.faults.append(fault) }
                            case .lost: break
                            }
                        }
                    }
                    var now: UInt64 = 0
                    send(["INFO"]) { $1.take(info: $0) }
                    send(["TIME"]) { time, _ in now = Self.milliseconds(time) }
                    for prefix in prefixes {
                        send(["HGETALL", prefix + "hubs"]) { $1.take(hubs: $0, now: now) }
                        send(["HGETALL", prefix + "about"]) { $1.take(about: $0) }
                        send(["HGETALL", prefix + "bucket"]) { $1.take(bucket: $0, now: now) }
                        send(["XLEN", prefix + "webhooks"]) {
                            if case .integer(let count) = $0 { $1.waitingWebhooks += Int(count) }
                        }
                    }
                },
                lost: { end($0) }, failed: { end($0) }))
        let clock = try Alarm(loop) { loop.handle.stop() }
        clock.set(after: patience)
        client?.connect()
        loop.run()
        client?.close()
        loop.remove(clock)
        if let trouble { throw trouble }
        group.members.sort { $0.number < $1.number }
        for index in group.members.indices {
            group.members[index].isLate = group.members[index].silence > settings.lease
        }
        return group
    }

    // MARK: Replies

    private static func milliseconds(_ time: RESPValue) -> UInt64 {
        guard case .array(let parts) = time, parts.count == 2, let seconds = number(parts[0]),
            let rest = number(parts[1])
        else { return 0 }
        return seconds * 1_000 + rest / 1_000
    }

    private static func text(_ value: RESPValue) -> String {
        if case .bytes(let bytes) = value { String(decoding: bytes, as: UTF8.self) } else { "" }
    }

    private static func number(_ value: RESPValue) -> UInt64? { UInt64(text(value)) }

    /// Of a hash.
    private static func pairs(_ value: RESPValue) -> [(String, RESPValue)] {
        guard case .map(let turns) = value else { return [] }
        return stride(from: 0, to: turns.count - 1, by: 2).map { (text(turns[$0]), turns[$0 + 1]) }
    }

    private static func age(_ value: RESPValue, _ now: UInt64) -> Duration {
        .milliseconds(Int64(clamping: now - min(now, number(value) ?? 0)))
    }

    private mutating func take(info: RESPValue) {
        guard case .bytes(let bytes) = info else { return }
        let facts = ServerFitness.facts(bytes)
        // Valkey also tells a version of Redis that it is like.
        serverVersion = facts["valkey_version"].map { "Valkey \($0)" } ?? "Redis \(facts["redis_version"] ?? "")"
        memory = (Int(facts["used_memory"] ?? "") ?? 0, Int(facts["maxmemory"] ?? "") ?? 0)
        if let fault = ServerFitness.refusesWrites(facts) { faults.append(fault) }
    }

    private mutating func take(hubs: RESPValue, now: UInt64) {
        for (number, time) in Self.pairs(hubs) {
            change(number) { $0.silence = max($0.silence, Self.age(time, now)) }
        }
    }

    private mutating func take(about: RESPValue) {
        for (number, text) in Self.pairs(about) { change(number) { $0.about = Self.text(text) } }
    }

    private mutating func change(_ number: String, _ change: (inout Member) -> Void) {
        let known = members.firstIndex { $0.number == number }
        if known == nil { members.append(Member(number: number)) }
        change(&members[known ?? members.count - 1])
    }

    private mutating func take(bucket: RESPValue, now: UInt64) {
        for (field, value) in Self.pairs(bucket) {
            if field == "beatAt" { beatAge = max(beatAge ?? .zero, Self.age(value, now)) }
            if field.hasPrefix("channels:") { channelCount += Int(Self.number(value) ?? 0) }
        }
    }
}
