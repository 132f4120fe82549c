/// What a hub tells the state of the users that all hubs share: who is online, and which hubs have watchers of whom. A
/// value, so that it may leave the process. Each says what is so; said twice, it changes nothing.
package enum UserCall: Sendable, Equatable {
    /// The hub has connections that are signed in as the user.
    case arrived(UserKey)
    /// It has none any more. `mayReturn`: see `UserRequest`.
    case departed(UserKey, mayReturn: Bool)
    /// The hub has watchers of the user. Answered by `UserNews` with that serial; then it is told of each change.
    case watch(UserKey, serial: UInt32)
    /// It has none any more.
    case unwatch(UserKey)
    /// Of the users of that part that the calling loop owns, the hub has these and no others, and watches nobody until
    /// it says so again.
    case only(UserPart, [UserKey])
    /// The hub is dead: its connections have broken. Nothing of it is taken any more.
    case reap(HubID)
    /// Graces that are over end. Any hub may ask, however often: each ends once.
    case due
}

/// What the state tells a hub.
package struct SharedUserNews: Sendable {
    /// Whether a user is online.
    package let news: UserNews
    /// Above those of all that was decided before.
    package let version: UInt64
}

/// A call as it leaves the process.
package struct SentUserCall: Sendable, Equatable {
    /// The caller.
    package let hub: HubID
    /// What is told.
    package let call: UserCall

    /// A call of that hub.
    package init(_ call: UserCall, from hub: HubID) { (self.call, self.hub) = (call, hub) }

    /// As bytes, which name apps by their ids.
    package func encoded(_ apps: KnownApps) -> [UInt8] {
        var writer = SharedWriter(.users, apps)
        writer.write(hub.number)
        switch call {
        case .arrived(let user):
            writer.write(1)
            writer.write(user)
        case .departed(let user, let mayReturn):
            writer.write(2)
            writer.write(user)
            writer.write(mayReturn)
        case .watch(let user, let serial):
            writer.write(3)
            writer.write(user)
            writer.write(UInt64(serial))
        case .unwatch(let user):
            writer.write(4)
            writer.write(user)
        case .only(let part, let users):
            writer.write(5)
            writer.write(part.number)
            writer.write(part.count)
            writer.write(users) { $0.write($1) }
        case .reap(let hub):
            writer.write(6)
            writer.write(hub.number)
        case .due: writer.write(7)
        }
        return writer.bytes
    }

    /// Reads the bytes. Any may come; of a wrong one the kind is told.
    package init(_ bytes: [UInt8], _ apps: KnownApps) throws(SharedProblem) {
        var reader = try SharedReader(bytes, .users, apps)
        hub = HubID(try reader.number())
        switch try reader.byte() {
        case 1: call = .arrived(try reader.user())
        case 2:
            let user = try reader.user()
            call = .departed(user, mayReturn: try reader.flag())
        case 3:
            let user = try reader.user()
            call = .watch(user, serial: try reader.serial())
        case 4: call = .unwatch(try reader.user())
        case 5:
            let part = UserPart(try reader.count(), of: try reader.count())
            guard part.number < part.count else { throw .malformed }
            call = .only(part, try reader.list { (reader) throws(SharedProblem) in try reader.user() })
        case 6: call = .reap(HubID(try reader.number()))
        case 7: call = .due
        default: throw .malformed
        }
        try reader.end()
    }
}

extension SharedUserNews {
    /// As bytes, which name apps by their ids.
    package func encoded(_ apps: KnownApps) -> [UInt8] {
        var writer = SharedWriter(.users, apps)
        writer.write(news.user)
        writer.write(news.isOnline)
        writer.write(news.serial) { $0.write(UInt64($1)) }
        writer.write(version)
        return writer.bytes
    }

    /// Reads the bytes. Any may come; of a wrong one the kind is told.
    package init(_ bytes: [UInt8], _ apps: KnownApps) throws(SharedProblem) {
        var reader = try SharedReader(bytes, .users, apps)
        let (user, isOnline) = (try reader.user(), try reader.flag())
        let serial = try reader.optional { (reader) throws(SharedProblem) in try reader.serial() }
        news = UserNews(user: user, isOnline: isOnline, serial: serial)
        version = try reader.number()
        try reader.end()
    }
}
