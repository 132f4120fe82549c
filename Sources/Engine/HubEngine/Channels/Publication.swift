import Pusher

/// An event that an app's backend publishes to one channel.
package struct Publication: Sendable, Equatable {
    /// The channel that gets it.
    package let channel: ChannelName
    /// The event's name.
    package let event: String
    /// What the publisher's `data` string holds. Clients get it unchanged.
    package let data: [UInt8]
    /// The connection that does not get it: the one on whose behalf the backend publishes.
    package let except: SocketID?
    /// Its id, of a publish that may be repeated at another hub; 0 without one.
    package var once: UInt64 = 0

    /// For all subscribers, or all but one connection.
    package init(channel: ChannelName, event: String, data: [UInt8], except: SocketID? = nil) {
        self.channel = channel
        self.event = event
        self.data = data
        self.except = except
    }
}

/// What the hub knows of one channel, over all loops.
package struct ChannelFacts: Sendable, Equatable {
    /// Connections in it.
    package var subscriptionCount = 0
    /// Users in it; nil except for presence channels.
    package var userCount: Int?
    /// The last event of a cache channel; nil if there is none.
    package var cached: CachedEvent?

    /// A channel that nobody is in, with nothing asked.
    package init() {}

    /// Somebody is in it, or still counts as a member.
    package var isOccupied: Bool { subscriptionCount > 0 || (userCount ?? 0) > 0 }
}

/// The last event of a cache channel.
package struct CachedEvent: Sendable, Equatable {
    /// The event's name.
    package let name: String
    /// Its data, as it was published.
    package let data: [UInt8]
    /// Whole seconds, at least one.
    package let secondsLeft: Int

    /// `secondsLeft` is at least 1.
    package init(name: String, data: [UInt8], secondsLeft: Int) {
        self.name = name
        self.data = data
        self.secondsLeft = secondsLeft
    }
}
