import RESP
import Redis

/// What makes of a server one that hubs do not use. A hub asks when it connects, and `HubGroup` does for operators.
enum ServerFitness {
    /// The questions, and what is wrong by their answers.
    ///
    /// - Parameter replicated: is told the server's replication id.
    static func questions(
        _ settings: SharedSettings, replicated: @escaping ([UInt8]) -> Void = { _ in }
    ) -> [RedisClient.Prelude] {
        [
            info("server", settings) { facts in
                guard facts["redis_mode"] ?? facts["server_mode"] == "cluster" else { return nil }
                return "it is a node of a cluster: name one server, or sentinels"
            },
            info("replication", settings) { facts in
                replicated(Array((facts["master_replid"] ?? "").utf8))
                guard facts["connected_slaves"] ?? "0" != "0", facts["min_slaves_good_slaves"] == nil else {
                    return nil
                }
                return "it has replicas: set min-replicas-to-write to 1, or a failover loses what was answered"
            },
            info("memory", settings) { facts in
                let policy = facts["maxmemory_policy"] ?? "noeviction"
                return policy == "noeviction" ? nil : "set maxmemory-policy to noeviction: it is \(policy)"
            },
        ] + channels(settings)
    }

    /// What `INFO` tells, by name.
    static func facts(_ info: [UInt8]) -> [String: String] {
        var facts: [String: String] = [:]
        for line in String(decoding: info, as: UTF8.self).split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { facts[String(parts[0])] = String(parts[1]) }
        }
        return facts
    }

    /// Why the server answers a command like that.
    static func problem(_ command: String, _ reply: RESPValue, _ settings: SharedSettings) -> String {
        guard case .error(let error) = reply else { return "\(command) went wrong" }
        return error.code == "NOPERM"
            ? lacks(all(settings), command) : "it refuses \(command): \(error.code)"
    }

    private static func info(
        _ section: String, _ settings: SharedSettings, _ judge: @escaping ([String: String]) -> String?
    ) -> RedisClient.Prelude {
        RedisClient.Prelude(["INFO", section].map { Array($0.utf8) }) { reply in
            guard case .bytes(let bytes) = reply else { return problem("INFO", reply, settings) }
            return judge(facts(bytes))
        }
    }

    // MARK: Rights

    /// Whether the user may use the hubs' channels. Nobody listens to this one. Keys and scripts are asked for by what comes
    /// behind; `redis.acl_check_cmd` would tell more, but Redis 7.0 may crash of it.
    private static func channels(_ settings: SharedSettings) -> [RedisClient.Prelude] {
        let prefix = BucketKeys(count: settings.buckets, of: settings.name).prefixes[0]
        let channel = Array("\(prefix)rights".utf8)
        func judge(_ reply: RESPValue, _ command: String) -> String? {
            guard case .error(let error) = reply else { return nil }
            guard error.code == "NOPERM" else { return problem(command, reply, settings) }
            return lacks("&\(settings.name):* +ssubscribe +sunsubscribe +spublish", command)
        }
        return [
            RedisClient.Prelude(subscribing: channel) { judge($0, "SSUBSCRIBE") },
            RedisClient.Prelude([Array("SPUBLISH".utf8), channel, []]) { judge($0, "SPUBLISH") },
        ]
    }

    /// As the operator's page gives them.
    private static func all(_ settings: SharedSettings) -> String {
        "~\(settings.name):* &\(settings.name):* +@all -@dangerous +info"
    }

    private static func lacks(_ rights: String, _ command: String) -> String {
        "its user lacks the right to \(command); give it what hubs need, in Redis: ACL SETUSER NAME \(rights)"
    }

    // MARK: For operators only

    /// Why the server takes no writes, by all that `INFO` tells: hubs then cannot say that they live.
    static func refusesWrites(_ facts: [String: String]) -> String? {
        if facts["min_slaves_good_slaves"] == "0" {
            return "it takes no writes: min-replicas-to-write wants more replicas than there are"
        }
        guard let used = Int(facts["used_memory"] ?? ""), let most = Int(facts["maxmemory"] ?? ""), most > 0,
            used > most
        else { return nil }
        return "it is full, and takes no writes: raise maxmemory"
    }

    /// Bytes by which a hub may be behind before Redis cuts its connection.
    private static let behindMin = 256 << 20

    /// Hubs' users may not ask this: what they cannot see is not judged.
    static var output: RedisClient.Prelude {
        RedisClient.Prelude(
            ["CONFIG", "GET", "client-output-buffer-limit"].map { Array($0.utf8) }, judge: judge(output:))
    }

    private static func judge(output reply: RESPValue) -> String? {
        guard case .map(let pairs) = reply, pairs.count == 2, case .bytes(let bytes) = pairs[1] else { return nil }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard let index = words.firstIndex(of: "pubsub"), words.count > index + 1, let most = Int(words[index + 1]),
            most > 0, most < behindMin
        else { return nil }
        return "set client-output-buffer-limit to pubsub 256mb 64mb 60: it cuts hubs that are \(most >> 20) MiB behind"
    }
}
