import Bytes
import Pusher

/// Who a session is in a presence channel.
package struct PresenceMember: Sendable, Equatable {
    package let id: String
    /// The JSON text of `user_info`; empty where there is none.
    package let info: [UInt8]

    package init(id: String, info: [UInt8]) {
        self.id = id
        self.info = info
    }
}

/// What a loop says to the home of an ordinary channel.
package enum ChannelRequest: Sendable {
    case enter(ChannelEntry)
    case exit(ChannelExit)
    case relay(ChannelRelay)

    /// The channel that it is about.
    package var key: ChannelKey {
        switch self {
        case .enter(let entry): entry.key
        case .exit(let exit): exit.key
        case .relay(let relay): relay.key
        }
    }
}

/// A session asks to be let in. Answered once, by `ChannelAnswer.entered` or `.refused` of the same serial.
package struct ChannelEntry: Sendable {
    package let app: App
    package let key: ChannelKey
    package let session: SessionID
    package let serial: UInt32
    /// Of a presence channel; nil where a repeated subscribe says nothing new.
    package let member: PresenceMember?
    /// It is in already, and only wants to be told so again.
    package let isRepeated: Bool
    /// How many other channels it is in, or has asked for.
    package let subscriptionCount: Int

    package init(
        app: App, key: ChannelKey, session: SessionID, serial: UInt32, member: PresenceMember? = nil,
        isRepeated: Bool = false, subscriptionCount: Int = 0
    ) {
        self.app = app
        self.key = key
        self.session = session
        self.serial = serial
        self.member = member
        self.isRepeated = isRepeated
        self.subscriptionCount = subscriptionCount
    }
}

/// A session that was let in has left: told once for each that was.
package struct ChannelExit: Sendable, Equatable {
    package let key: ChannelKey
    /// Of a presence channel: who it was.
    package let userID: String?
    /// Its connection broke, and the client may be back in a moment; else the client said that it leaves.
    package let mayReturn: Bool

    package init(key: ChannelKey, userID: String?, mayReturn: Bool) {
        self.key = key
        self.userID = userID
        self.mayReturn = mayReturn
    }
}

/// A client's event, for everybody in the channel but its sender.
package struct ChannelRelay: Sendable {
    package let app: App
    package let key: ChannelKey
    package let sender: SessionID
    package let event: String
    /// The text of a JSON value.
    package let data: [UInt8]
    /// The sender, in a presence channel.
    package let userID: String?
    /// What the app's backend is told, where it wants to be.
    package let webhook: WebhookEvent?
}

/// The one connection that does not get what is sent to a channel.
package enum Exclusion: Sendable, Hashable {
    /// As a backend names it: wherever it is.
    case socket(SocketID)
    /// The sender of a client's event.
    case session(SessionID, loop: Int)
}

/// What a home says to a loop. What it broadcasts to the channel later follows by the same mailbox.
package enum ChannelAnswer: Sendable {
    case entered(ChannelEntered)
    case refused(SessionID, serial: UInt32, SubscriptionRefusal)
}

/// The session is in, at the home.
package struct ChannelEntered: Sendable {
    package let key: ChannelKey
    package let session: SessionID
    package let serial: UInt32
    package let userID: String?
    package let isRepeated: Bool
    /// The number of subscribers, where it is told; nil in presence channels.
    package let count: Int?
    /// Of a presence channel: that it is in, and with whom.
    package let members: SharedMessages?
    package let cached: Cached

    /// What a cache channel keeps.
    package enum Cached: Sendable {
        /// It is no such channel.
        case noCache
        /// Nothing.
        case miss
        /// The last event.
        case event(SharedMessages)
    }

    /// For one that is no longer there to hear it.
    package func exit(mayReturn: Bool) -> ChannelExit? {
        isRepeated ? nil : ChannelExit(key: key, userID: userID, mayReturn: mayReturn)
    }
}
