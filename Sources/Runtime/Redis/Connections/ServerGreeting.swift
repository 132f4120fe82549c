import Bytes
import RESP

/// What is said first on a connection, and what the answers mean.
enum ServerGreeting {
    /// `HELLO 3` (Redis docs, HELLO): the protocol, the credentials and the name in one command.
    static func hello(
        _ credentials: RedisURL.Credentials?, name: String, judge: @escaping (RESPValue) -> RedisTrouble?
    ) -> RedisConnection.Greeting {
        var parts: [[UInt8]] = [Array("HELLO".utf8), Array("3".utf8)]
        if let credentials { parts += [Array("AUTH".utf8), credentials.user, credentials.password] }
        if !name.isEmpty { parts += [Array("SETNAME".utf8), Array(name.utf8)] }
        return RedisConnection.Greeting(parts: parts, judge: judge)
    }

    /// A master of Redis 7 or later. The answer says what `ROLE` would, for which a user may lack the right.
    static func ofMaster(_ answer: RESPValue) -> RedisTrouble? {
        if case .error(let error) = answer { return RedisTrouble(greeting: error) }
        // A sentinel says no role.
        if text("mode", in: answer) == "sentinel" {
            return RedisTrouble(.notMaster, "it is a sentinel: write redis+sentinel://")
        }
        guard let role = text("role", in: answer), let version = text("version", in: answer) else {
            return RedisTrouble(.malformed, "HELLO")
        }
        // Shard channels came with 7.0.
        let major = version.prefix { $0.isASCII && $0.isNumber }
        guard let major = Int(major), major >= 7 else { return RedisTrouble(.tooOld, String(major.prefix(4))) }
        return role == "master" ? nil : RedisTrouble(.notMaster, "it is a replica")
    }

    static func ofSentinel(_ answer: RESPValue) -> RedisTrouble? {
        if case .error(let error) = answer { return RedisTrouble(greeting: error) }
        return text("mode", in: answer) == "sentinel" ? nil : RedisTrouble(.refused, "it is not a sentinel")
    }

    /// `SENTINEL GET-MASTER-ADDR-BY-NAME` (Redis docs, Guidelines for clients with Redis Sentinel, step 2).
    static func masterAddress(
        of service: [UInt8], found: @escaping (RedisURL.Place) -> Void
    ) -> RedisConnection.Greeting {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME"].map { Array($0.utf8) }
        return RedisConnection.Greeting(parts: words + [service]) { answer in
            switch answer {
            case .array(let parts):
                guard parts.count == 2, case .bytes(let host) = parts[0], case .bytes(let digits) = parts[1],
                    !host.isEmpty, host.count <= RedisLimits.hostBytesMax, !host.contains(0),
                    let port = UInt16(String(decoding: digits, as: UTF8.self)), port > 0
                else { return RedisTrouble(.malformed, "an address") }
                found(RedisURL.Place(host: String(decoding: host, as: UTF8.self), port: port))
                return nil
            case .null: return RedisTrouble(.noMaster)
            case .error(let error): return RedisTrouble(greeting: error)
            default: return RedisTrouble(.malformed, "an address")
            }
        }
    }

    private static func text(_ key: String, in answer: RESPValue) -> String? {
        guard case .map(let pairs) = answer else { return nil }
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            if case .bytes(let name) = pairs[index], name.elementsEqual(key.utf8),
                case .bytes(let value) = pairs[index + 1]
            {
                return String(decoding: value, as: UTF8.self)
            }
        }
        return nil
    }
}

/// Which sentinel is asked next. Each is asked once in a round; the next round begins with the one that knew the master,
/// or behind it where that master was not one.
struct SentinelRound {
    private let places: [RedisURL.Place]
    private var next = 0
    private var left = 0
    /// Why the round has not led to a master so far: that a sentinel knows none, or else the latest reason.
    private(set) var trouble = RedisTrouble(.noMaster)
    private var isTold = false

    /// - Parameter places: at least one.
    init(_ places: [RedisURL.Place]) { self.places = places }

    mutating func begin() {
        left = places.count
        isTold = false
    }

    /// The sentinel to ask; nil where all were asked.
    mutating func take() -> RedisURL.Place? {
        guard left > 0 else { return nil }
        left -= 1
        defer { next = (next + 1) % places.count }
        return places[next]
    }

    mutating func failed(_ reason: RedisTrouble, at place: RedisURL.Place) {
        if isTold, trouble.kind == .noMaster { return }
        isTold = true
        let detail = reason.detail.isEmpty ? "" : ": \(reason.detail)"
        trouble = RedisTrouble(reason.kind, "sentinel \(place)\(detail)")
    }

    /// The one asked last told the truth: it comes first next time.
    mutating func succeeded() { next = (next + places.count - 1) % places.count }
}
