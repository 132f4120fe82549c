/// Which channels clients may be in.
enum SubscriptionSettings {
    static let channelsPerConnectionMax = Setting.count(
        "limits.channelsPerConnection", "1000", 1...10_000, "Channels one connection may subscribe to.")

    static let channelsMax = Setting.count(
        "limits.channels", "200000", 1...10_000_000,
        "Ordinary channels of the whole hub, users' channels not counted; a subscribe that would make one more is refused."
    )

    static let parkedSubscribesMax = Setting.count(
        "limits.parkedSubscribes", "20", 1...10_000,
        "Subscribes to user channels that one connection may have waiting for its identity.")

    static let streamsPerUserMax = Setting.count(
        "limits.streamsPerUser", "1000", 1...1_000_000,
        "User channels of one user, on all its connections, of published topics; of others as many on each loop, 1,000 at least."
    )

    static let rows = [channelsPerConnectionMax.row, channelsMax.row, parkedSubscribesMax.row, streamsPerUserMax.row]
}

/// What is kept of users' channels for clients that come back.
enum ReplaySettings {
    static let replayEventsMax = Setting.count(
        "limits.replayEvents", "1000", 1...1_000_000,
        "Events that a client may have missed in a channel to get them; beyond, it is told to fetch a snapshot.")

    static let windowEventsMax = Setting.count(
        "limits.windowEvents", "256", 1...100_000,
        "Recent events of a user channel kept in memory for clients that come back.")

    static let windowBytesMax = Setting.bytes(
        "limits.windowBytes", "256KiB", 1024...(64 << 20), "Bytes of them.")

    static let windowTotalBytesMax = Setting.bytes(
        "limits.windowTotalBytes", "64MiB", (1 << 20)...(1 << 40), "Bytes of those of all channels.")

    static let linger = Setting.time(
        "limits.linger", "30s", .zero ... .seconds(3600),
        "Time that a user channel nobody is in is kept so, for the client that comes back.")

    static let rows = [
        replayEventsMax.row, windowEventsMax.row, windowBytesMax.row, windowTotalBytesMax.row, linger.row,
    ]
}

/// How ordinary channels are kept.
enum ChannelSettings {
    static let leaveGrace = Setting.time(
        "presence.leaveGrace", "3s", .zero ... .seconds(300),
        "Time that a user whose connection broke is still a member, and online to those who watch.")

    static let cacheTime = Setting.time(
        "cache.ttl", "30m", .seconds(1) ... .seconds(86_400), "Time that a cache channel keeps its last event.")

    static let cacheBytesMax = Setting.bytes(
        "cache.bytes", "64MiB", 0...(1 << 40),
        "Bytes of the events that cache channels keep; with more, the app that has most loses its oldest, but none its "
            + "last one. Divided among the loops.")

    static let rows = [leaveGrace.row, cacheTime.row, cacheBytesMax.row]
}
