import Clock
import HubEngine
import RESP

// Calls about users.
extension SharedCommand {
    /// Leaves that are over end.
    package init(userDueOf hub: HubID) { self.init(.user, nil, from: hub, "due") }

    /// What the hub tells all others. All such commands go by the first bucket.
    ///
    /// - Parameters:
    ///   - serial: below 2^53; another command has another, and the same one told again the same.
    ///   - age: how long it has waited, in milliseconds.
    package init(_ command: HubCommand, serial: UInt64, age: UInt64, from hub: HubID, _ apps: KnownApps) {
        self.init(.user, nil, from: hub, "command")
        add(command.encoded(apps))
        add("\(serial)", "\(age)")
    }

    /// What other hubs have told: the next page.
    ///
    /// - Parameters:
    ///   - last: the last of the page before, as Redis names it; nil: there was none.
    ///   - time: when the first may have been told, in milliseconds by Redis's clock.
    package init(missedBy hub: HubID, after last: [UInt8]?, since time: UInt64) {
        self.init(.user, nil, from: hub, "missed")
        add(last ?? [])
        add("\(time)")
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
    ) throws(SharedProblem) -> [SharedCommand] {
        func one(_ asked: String, _ user: UserKey, _ more: String...) throws(SharedProblem) -> [SharedCommand] {
            guard let app = apps[user.app] else { throw .unknownApp }
            let place = UInt64(UserPlace(user, ofApp: app.id).number)
            var command = SharedCommand(
                .user, ChannelBucket(ofUserAt: place, of: buckets), from: sent.hub, caller: caller, asked)
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
        case .reap(let hub): return [SharedCommand(.user, nil, from: sent.hub, caller: caller, "reap", "\(hub.number)")]
        case .due: return [SharedCommand(.user, nil, from: sent.hub, caller: caller, "due")]
        }
    }

    private static func only(
        _ part: UserPart, _ users: [UserKey], _ sent: SentUserCall, _ caller: Int, _ apps: KnownApps, _ buckets: Int
    ) -> [SharedCommand] {
        let all = part.places
        let first = ChannelBucket(ofUserAt: all.lowerBound, of: buckets).number
        let last = ChannelBucket(ofUserAt: all.upperBound - 1, of: buckets).number
        var commands = (first...last).map { number in
            let places = UserPart(number, of: buckets).places.clamped(to: all)
            let (from, to) = (place(places.lowerBound, caller), place(places.upperBound, caller))
            let bucket = ChannelBucket(ofUserAt: places.lowerBound, of: buckets)
            return SharedCommand(.user, bucket, from: sent.hub, caller: caller, "only", "\(from)", "\(to)")
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
