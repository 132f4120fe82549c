import Bytes
import Pusher

/// Who a session is in a presence channel.
package struct PresenceMember: Sendable, Equatable {
    /// The user's id.
    package let id: String
    /// The JSON text of `user_info`; empty if there is none.
    package let info: [UInt8]

    /// `info` is JSON text, or empty.
    package init(id: String, info: [UInt8]) {
        self.id = id
        self.info = info
    }
}

/// A loop's message to the shard of an ordinary channel.
package enum ChannelRequest: Sendable {
    case enter(ChannelEntry)
    /// A session that has not been answered asks no more: nobody waits for it. It may be answered all the same.
    case withdraw(ChannelWithdrawal)
    case exit(ChannelExit)
    case relay(ChannelRelay)

    /// The channel that it is about.
    package var key: ChannelKey {
        switch self {
        case .enter(let entry): entry.key
        case .withdraw(let withdrawal): withdrawal.key
        case .exit(let exit): exit.key
        case .relay(let relay): relay.key
        }
    }
}

/// A session asks to be let in. Answered once, by `ChannelAnswer.entered` or `.refused` with the same serial.
package struct ChannelEntry: Sendable {
    /// The session's app.
    package let app: App
    /// The channel.
    package let key: ChannelKey
    /// The session that asks.
    package let session: SessionID
    /// Repeated in the answer.
    package let serial: UInt32
    /// In a presence channel; nil if a repeated subscribe says nothing new.
    package let member: PresenceMember?
    /// The session is in already, and asks for the answer again.
    package let isRepeated: Bool
    /// Other channels that the session is in, or has asked for.
    package let subscriptionCount: Int
    /// The session, as backends name it.
    package let socketID: SocketID

    /// By default the first subscribe of a session, to a channel without members.
    package init(
        app: App, key: ChannelKey, session: SessionID, socketID: SocketID = SocketID(random: 0), serial: UInt32,
        member: PresenceMember? = nil, isRepeated: Bool = false, subscriptionCount: Int = 0
    ) {
        self.app = app
        self.key = key
        self.session = session
        self.socketID = socketID
        self.serial = serial
        self.member = member
        self.isRepeated = isRepeated
        self.subscriptionCount = subscriptionCount
    }
}

/// A session leaves a channel before it was answered.
package struct ChannelWithdrawal: Sendable, Equatable {
    /// The channel.
    package let key: ChannelKey
    /// The session.
    package let session: SessionID
    /// That of its entry.
    package let serial: UInt32

    /// Of the entry of that session with that serial.
    package init(key: ChannelKey, session: SessionID, serial: UInt32) {
        (self.key, self.session, self.serial) = (key, session, serial)
    }
}

/// A session that was let in has left. Sent once for each.
package struct ChannelExit: Sendable, Equatable {
    /// The channel.
    package let key: ChannelKey
    /// Who it was, in a presence channel.
    package let userID: String?
    /// True if the connection broke, so that the client may be back in a moment; false if the client left by request.
    package let mayReturn: Bool

    /// `userID` is nil except in a presence channel.
    package init(key: ChannelKey, userID: String?, mayReturn: Bool) {
        self.key = key
        self.userID = userID
        self.mayReturn = mayReturn
    }
}

/// A client's event, for everybody in the channel except its sender.
package struct ChannelRelay: Sendable {
    /// The sender's app.
    package let app: App
    /// The channel.
    package let key: ChannelKey
    /// The session that does not get it.
    package let sender: SessionID
    /// The event.
    package let event: RelayedEvent
    /// What the app's backend is told; nil if it wants nothing.
    package let webhook: WebhookEvent?
}

/// The one connection that does not get a broadcast.
package enum Exclusion: Sendable, Hashable {
    /// As a backend names it, on any loop.
    case socket(SocketID)
    /// The sender of a client event.
    case session(SessionID, loop: Int)
}

/// A shard's answer to a loop. Later broadcasts to the channel follow by the same mailbox.
package enum ChannelAnswer: Sendable {
    case entered(ChannelEntered)
    case refused(SessionID, serial: UInt32, SubscriptionRefusal)
}

/// The session is in, at the shard.
package struct ChannelEntered: Sendable {
    /// The channel.
    package let key: ChannelKey
    /// The session that asked.
    package let session: SessionID
    /// The serial of its `ChannelEntry`.
    package let serial: UInt32
    /// The member's id, in a presence channel.
    package let userID: String?
    /// The session was in already, and asked again.
    package let isRepeated: Bool
    /// The number of subscribers, where it is told; nil in presence channels.
    package let count: Int?
    /// In a presence channel: the success message with the member list.
    package let members: SharedMessages?
    /// What a cache channel has for the new subscriber.
    package let cached: Cached
    /// What the others were told meanwhile, since the answer was decided.
    package let missed: ContiguousArray<SharedMessages>

    /// What a cache channel keeps.
    package enum Cached: Sendable {
        /// It is no cache channel.
        case noCache
        case miss
        /// The last event.
        case event(SharedMessages)
    }

    /// What a newcomer is told, as its channel was when it was let in.
    init(
        _ entry: ChannelEntry, _ entered: Entered, _ local: LocalSubscribers, missed: ContiguousArray<SharedMessages>
    ) {
        (key, session, serial, isRepeated) = (entry.key, entry.session, entry.serial, entry.isRepeated)
        (userID, count) = (entry.member?.id, entered.count)
        members = entered.members.map { local.messages($0) }
        cached =
            switch entered.cached {
            case .noCache: .noCache
            case .miss: .miss
            case .event(let publication, let messages): .event(messages ?? SharedMessages(.published(publication)))
            }
        self.missed = missed
    }

    /// The leave to report for a session that is gone by now; nil for a repeated subscribe.
    package func exit(mayReturn: Bool) -> ChannelExit? {
        isRepeated ? nil : ChannelExit(key: key, userID: userID, mayReturn: mayReturn)
    }
}
