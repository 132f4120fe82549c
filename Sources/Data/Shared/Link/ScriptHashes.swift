import RESP
import Redis

/// What a server says before calls are sent to it: the hashes of the scripts, and whether it is fit.
final class ScriptHashes {
    private var hashes = [[UInt8]](repeating: [], count: SharedScript.allCases.count)
    /// The server's replication id: another one may lack the last writes.
    private(set) var replica: [UInt8] = []

    /// Why a server is left that does not know a script, or a call before.
    static let areLost = "it has lost writes, or scripts: all is said again"

    subscript(script: SharedScript) -> [UInt8] { hashes[script.rawValue] }

    /// The commands, and what makes of a server one that the hub does not use.
    func prelude(_ settings: SharedSettings) -> [RedisClient.Prelude] {
        let loads = zip(SharedScript.allCases, settings.scripts).map { script, text in
            RedisClient.Prelude(["SCRIPT", "LOAD", text].map { Array($0.utf8) }) { [weak self] reply in
                guard case .bytes(let hash) = reply else {
                    return ServerFitness.problem("SCRIPT LOAD", reply, settings)
                }
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
            default: return ServerFitness.problem("SET", reply, settings)
            }
        }
        let questions = ServerFitness.questions(settings) { [weak self] in self?.replica = $0 }
        return questions + loads + [buckets]
    }
}
