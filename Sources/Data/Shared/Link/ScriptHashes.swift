import RESP
import Redis

/// What a server says before calls are sent to it: the hashes of the scripts, and whether it is fit.
final class ScriptHashes {
    private var hashes = [[UInt8]](repeating: [], count: SharedScript.allCases.count)
    /// The server's replication id: another one may lack the last writes.
    private(set) var replica: [UInt8] = []

    subscript(script: SharedScript) -> [UInt8] { hashes[script.rawValue] }

    /// The commands, and what makes of a server one that the hub does not use.
    func prelude(_ settings: SharedSettings) -> [RedisClient.Prelude] {
        let loads = zip(SharedScript.allCases, settings.scripts).map { script, text in
            RedisClient.Prelude(["SCRIPT", "LOAD", text].map { Array($0.utf8) }) { [weak self] reply in
                guard case .bytes(let hash) = reply else { return Self.problem("SCRIPT LOAD", reply) }
                self?.hashes[script.rawValue] = hash
                return nil
            }
        }
        let count = ["SET", "\(settings.name):\(BucketKeys.schema):buckets", "\(settings.buckets)", "NX", "GET"]
        let buckets = RedisClient.Prelude(count.map { Array($0.utf8) }) { reply in
            switch reply {
            case .null: return nil
            case .bytes(let known) where known.elementsEqual("\(settings.buckets)".utf8): return nil
            case .bytes: return "it was filled with another number of buckets"
            default: return Self.problem("SET", reply)
            }
        }
        let info = RedisClient.Prelude(["INFO", "replication"].map { Array($0.utf8) }) { [weak self] reply in
            guard case .bytes(let bytes) = reply else { return Self.problem("INFO", reply) }
            let facts = Self.facts(bytes)
            self?.replica = Array((facts["master_replid"] ?? "").utf8)
            if facts["connected_slaves"] ?? "0" != "0", facts["min_slaves_good_slaves"] == nil {
                return "it has replicas: set min-replicas-to-write to 1, or a failover loses what was answered"
            }
            return nil
        }
        let memory = RedisClient.Prelude(["INFO", "memory"].map { Array($0.utf8) }) { reply in
            guard case .bytes(let bytes) = reply else { return Self.problem("INFO", reply) }
            let policy = Self.facts(bytes)["maxmemory_policy"] ?? "noeviction"
            return policy == "noeviction" ? nil : "set maxmemory-policy to noeviction: it is \(policy)"
        }
        let server = RedisClient.Prelude(["INFO", "server"].map { Array($0.utf8) }) { reply in
            guard case .bytes(let bytes) = reply else { return Self.problem("INFO", reply) }
            let facts = Self.facts(bytes)
            guard facts["redis_mode"] ?? facts["server_mode"] == "cluster" else { return nil }
            return "it is a node of a cluster: name one server, or sentinels"
        }
        return [server] + loads + [buckets, info, memory]
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

    private static func problem(_ command: String, _ reply: RESPValue) -> String {
        if case .error(let error) = reply { "it refuses \(command): \(error.code)" } else { "\(command) went wrong" }
    }
}
