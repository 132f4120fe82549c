import Pusher

/// What a hub asks of the state of ordinary channels, which all hubs share. A value, so that it may leave the process.
///
/// Each call is answered once, by a `ChannelReply`. One whose answer was lost may have been carried out: the hub then
/// asserts what it has in the channel. Only a connection that waits to be let in is asked for again, behind that.
package enum ChannelCall: Sendable, Equatable {
    /// A connection asks to be let in. `.entered` or `.refused`.
    case enter(ChannelKey, Entering)
    /// A connection that was let in has left. `.done`.
    case exit(ChannelExit)
    /// A backend publishes. A cache channel keeps the event. `.facts`, as they are afterwards.
    case publish(ChannelKey, Publication)
    /// A client's event for the others. `.done`.
    ///
    /// With what the app's backend is told of it; nil if it wants nothing.
    case relay(ChannelKey, RelayedEvent, WebhookEvent? = nil)
    /// What is known of a channel. `.facts`.
    case facts(ChannelKey)
    /// The ids of a presence channel's users. `.users`.
    case users(ChannelKey)
    /// The app's occupied channels whose names begin with `prefix`; stops above `most`. `.list`.
    case list(app: Int, prefix: String, most: Int)
    /// All that the hub has in the channel, whatever the state had of it. `.entered`.
    case assert(ChannelKey, Attending)
    /// The hub is dead: its connections have broken. Nothing of it is taken any more. `.done`.
    case reap(HubID)
    /// Graces and pauses that are over end. Any hub may ask, however often: each ends once. `.done`.
    case due

    /// The channel that it is about; nil if it is not about one.
    package var key: ChannelKey? {
        switch self {
        case .enter(let key, _), .publish(let key, _), .relay(let key, _, _), .facts(let key), .users(let key),
            .assert(let key, _):
            key
        case .exit(let exit): exit.key
        case .list, .reap, .due: nil
        }
    }
}

/// Who asks to be let in.
package struct Entering: Sendable, Equatable {
    /// In a presence channel; nil if a repeated subscribe says nothing new.
    package var member: PresenceMember?
    /// The connection is in already, and asks for the answer again.
    package var isRepeated = false
    /// The hub has no copy of the members.
    package var asksMembers = true
    /// Other channels that the connection is in, or has asked for.
    package var subscriptions = 0

    /// The first subscribe of a connection, by default to a channel without members.
    package init(member: PresenceMember? = nil, isRepeated: Bool = false, subscriptions: Int = 0) {
        (self.member, self.isRepeated, self.subscriptions) = (member, isRepeated, subscriptions)
    }

    init(_ entry: ChannelEntry, asksMembers: Bool = true) {
        self.init(member: entry.member, isRepeated: entry.isRepeated, subscriptions: entry.subscriptionCount)
        self.asksMembers = asksMembers
    }
}

/// What one hub has in one channel.
package struct Attending: Sendable, Equatable {
    /// Its connections.
    package var connections = 0
    /// In a presence channel: their users, each with its connections.
    package var members: [Member] = []

    /// A user with connections to one hub.
    package struct Member: Sendable, Equatable {
        /// Who it is, as its newest subscription says.
        package var member: PresenceMember
        /// At least 1.
        package var connections: Int

        /// A user with that many connections.
        package init(_ member: PresenceMember, connections: Int) {
            (self.member, self.connections) = (member, connections)
        }
    }

    /// Nobody.
    package init() {}
}

/// A client's event on its way to the others.
package struct RelayedEvent: Sendable, Equatable {
    /// The event's name.
    package let event: String
    /// The text of a JSON value.
    package let data: [UInt8]
    /// The sender, in a presence channel.
    package let userID: String?
    /// The connection that does not get it.
    package let sender: SocketID

    /// `userID` is nil except in a presence channel.
    package init(event: String, data: [UInt8], userID: String?, sender: SocketID) {
        (self.event, self.data, self.userID, self.sender) = (event, data, userID, sender)
    }
}

/// Why the state lets a connection not in.
package enum EntryRefusal: UInt8, Error, Sendable, CaseIterable {
    /// There is no room for one more channel: of the hub's, or of the app's.
    case channelsFull, appChannelsFull
    /// The presence channel has as many users as it may have.
    case tooManyMembers
    /// No answer came in time.
    case unavailable

    var told: SubscriptionRefusal {
        switch self {
        case .channelsFull: .channelsFull
        case .appChannelsFull: .appChannelsFull
        case .tooManyMembers: .tooManyMembers
        case .unavailable: .unavailable
        }
    }
}

/// What is known of a call that the state has not carried out for its caller.
package enum StateFault: UInt8, Sendable, CaseIterable {
    /// It was not done.
    case notDone = 7
    /// It may have been done.
    case unknown = 8
    /// It was not done: hubs still tell the state what they hold.
    case settling = 9
}

/// The answer to a call.
package enum ChannelReply: Sendable {
    // Indirect, because others are passed about more often, and would take its room.
    indirect case entered(Entered)
    case refused(EntryRefusal)
    case facts(ChannelFacts)
    case users([String])
    case list([String: ChannelFacts])
    case done
    /// It did not come, or what it is about is not served there.
    case unavailable(StateFault)

    /// Why nobody was let in.
    var refusal: EntryRefusal { if case .refused(let refusal) = self { refusal } else { .unavailable } }
}

/// The channel as it was when a connection was let in.
package struct Entered: Sendable {
    /// The channel's last change by then. The connection gets what is above it, and nothing else.
    package var sequence: UInt64 = 0
    /// The number of connections, where the newcomer is told of it now; nil where all are told next, or nobody.
    package var count: Int?
    /// In a presence channel.
    package var members: Members?
    /// What a cache channel has for the newcomer.
    package var cached = Cached.noCache

    /// The users in a presence channel.
    package struct Members: Sendable {
        /// As clients are told.
        package let list: MemberList
        /// Of the list. Another one has another number, also in a channel that was made again.
        package let version: UInt64
        /// One by one; nil where the hub is the state's own, and asks for none.
        package var each: [PresenceMember]?
    }

    /// What a cache channel keeps.
    package enum Cached: Sendable {
        /// It is not a cache channel.
        case noCache
        case miss
        /// The last event.
        case event(Publication, SharedMessages?)
    }
}

/// What the state tells hubs, in its order.
package enum ChannelNews: Sendable {
    /// To each hub with connections in the channel, the caller's too.
    case change(ChannelChange)
    /// To one hub: have the backend of the app with that index told.
    case webhook(app: Int, WebhookEvent)
    /// To the caller: the answer to the call of that number, if it could not be returned.
    case reply(UInt64, ChannelReply)
    /// To hubs with connections in the channel: its last change so far, again, for that may have been lost. And to a hub
    /// that is counted in it, with 0: it may have left already.
    case latest(ChannelKey, UInt64)

    /// That of a change; for what has no place in the order, 0.
    var sequence: UInt64 { if case .change(let change) = self { change.sequence } else { 0 } }
}

/// One change of a channel. All that clients are sent of a channel comes from changes, in the order of their sequence.
package struct ChannelChange: Sendable {
    /// The channel.
    package let key: ChannelKey
    /// The change before it. A hub that has not had that one has missed something.
    package let follows: UInt64
    /// Above those of all earlier changes of the channel.
    package let sequence: UInt64
    /// What has happened.
    package let what: What

    /// What has happened in a channel.
    package enum What: Sendable {
        /// A backend's event. One that this process keeps for newcomers comes with what all of them are sent: it is written
        /// and compressed once.
        case published(Publication, SharedMessages?)
        case relayed(RelayedEvent)
        case memberAdded(PresenceMember)
        case memberRemoved(String)
        /// What is known of a member is this from now on. Newcomers are told of it, and nobody else.
        case memberSays(PresenceMember)
        /// The number of connections is told.
        case count(Int)
    }

    /// Whether a backend or a client sent it; otherwise it tells of subscribers coming and going.
    package var isEvent: Bool {
        switch what {
        case .published, .relayed: true
        case .memberAdded, .memberRemoved, .memberSays, .count: false
        }
    }
}
