import Clock
import HubEngine
import RESP

/// A call about users as the script takes it, in one bucket or in each.
package struct UserCommand: Sendable, Equatable {
    /// The bucket that it is about; nil: it is for each bucket.
    package let bucket: ChannelBucket?
    /// What the script takes: `ARGV`.
    package private(set) var arguments: [[UInt8]]
    /// The time, for a script that is given it.
    package var time: Instant? {
        didSet { if let time { arguments[3] = Array("\(time.nanoseconds / 1_000_000)".utf8) } }
    }

    private init(_ sent: SentUserCall, _ caller: Int, _ bucket: ChannelBucket?, _ words: String...) {
        self.bucket = bucket
        let head = ["\(sent.hub.number)", "\(sent.hub.number).\(caller)", "0", "", ""]
        arguments = (head + words).map { Array($0.utf8) }
    }

    /// Leaves that are over end.
    package init(dueOf hub: HubID) { self.init(SentUserCall(.due, from: hub), 0, nil, "due") }

    /// What the hub tells all others. All such commands go by the first bucket.
    package init(_ command: HubCommand, from hub: HubID, _ apps: KnownApps) {
        self.init(SentUserCall(.due, from: hub), 0, nil, "command")
        arguments.append(command.encoded(apps))
    }

    /// The commands of a call. Only what is said of a part of all users takes several: one for each bucket that the
    /// part touches. They may go in any order.
    ///
    /// - Parameters:
    ///   - caller: the loop that owns the users: a hub has several.
    ///   - buckets: how many there are.
    /// - Throws: `unknownApp`, where the call is about an app that is not served here.
    package static func commands(
        _ sent: SentUserCall, caller: Int, _ apps: KnownApps, buckets: Int
    ) throws(SharedProblem) -> [UserCommand] {
        func one(_ asked: String, _ user: UserKey, _ more: String...) throws(SharedProblem) -> [UserCommand] {
            guard let app = apps[user.app] else { throw .unknownApp }
            let place = UInt64(UserPlace(user, ofApp: app.id).number)
            var command = UserCommand(sent, caller, ChannelBucket(ofUserAt: place, of: buckets), asked)
            command.add("\(app.id):\(user.id)", "\(Self.place(place, caller))")
            for word in more { command.add(word) }
            return [command]
        }
        switch sent.call {
        case .arrived(let user): return try one("arrived", user)
        case .departed(let user, let mayReturn): return try one("departed", user, mayReturn ? "1" : "0")
        case .watch(let user, let serial): return try one("watch", user, "\(serial)")
        case .unwatch(let user): return try one("unwatch", user)
        case .only(let part, let users): return only(part, users, sent, caller, apps, buckets)
        case .reap(let hub): return [UserCommand(sent, caller, nil, "reap", "\(hub.number)")]
        case .due: return [UserCommand(sent, caller, nil, "due")]
        }
    }

    private static func only(
        _ part: UserPart, _ users: [UserKey], _ sent: SentUserCall, _ caller: Int, _ apps: KnownApps, _ buckets: Int
    ) -> [UserCommand] {
        let all = part.places
        let first = ChannelBucket(ofUserAt: all.lowerBound, of: buckets).number
        let last = ChannelBucket(ofUserAt: all.upperBound - 1, of: buckets).number
        var commands = (first...last).map { number in
            let places = UserPart(number, of: buckets).places.clamped(to: all)
            let (from, to) = (place(places.lowerBound, caller), place(places.upperBound, caller))
            let bucket = ChannelBucket(ofUserAt: places.lowerBound, of: buckets)
            return UserCommand(sent, caller, bucket, "only", "\(from)", "\(to)")
        }
        for user in users {
            // Of an app that is not served any more the hub has nobody.
            guard let app = apps[user.app] else { continue }
            let place = UInt64(UserPlace(user, ofApp: app.id).number)
            guard all.contains(place) else { continue }
            let number = ChannelBucket(ofUserAt: place, of: buckets).number
            commands[number - first].add("\(app.id):\(user.id)", "\(Self.place(place, caller))")
        }
        return commands
    }

    /// A user's place in the order of all that a hub has: first by the loop, so that a loop speaks of its own users
    /// only. Redis orders by doubles, which know each integer below 2^53.
    private static func place(_ place: UInt64, _ caller: Int) -> UInt64 { UInt64(caller) << 32 + place }

    private mutating func add(_ words: String...) {
        for word in words { arguments.append(Array(word.utf8)) }
    }

    /// The command in which a server is asked.
    ///
    /// - Parameters:
    ///   - hash: of the script `user`, as the server has said.
    ///   - prefix: of the bucket's keys.
    package func evaluated(_ hash: [UInt8], _ prefix: [UInt8]) -> [[UInt8]] {
        [Array("EVALSHA".utf8), hash, [UInt8(ascii: "1")], prefix] + arguments
    }

    /// The shard channel by which the hub is told of a bucket's users: encoded `SharedUserNews`.
    ///
    /// - Parameter prefix: of the bucket's keys.
    package static func channel(to hub: HubID, _ prefix: [UInt8]) -> [UInt8] { prefix + Array("to:\(hub.number)".utf8) }
}

/// What the script of users replies.
package enum UserReply: Sendable, Equatable {
    /// It was carried out. `UserCall.due` has work in the bucket in that time; nil: nothing waits.
    case done(due: Duration?)
    /// The hub was reaped: nothing of it is taken any more.
    case reaped

    /// Reads what a server has replied.
    ///
    /// - Throws: `malformed`, for what the script does not return.
    package init(_ value: RESPValue) throws(SharedProblem) {
        switch value {
        case .integer(let milliseconds) where milliseconds >= -1:
            self = .done(due: milliseconds < 0 ? nil : .milliseconds(milliseconds))
        case .error(let error) where error.code == "FENCED": self = .reaped
        default: throw .malformed
        }
    }
}
