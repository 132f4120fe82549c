/// The bounds and times of one shard of ordinary channels, one shard for each loop; the shards divide what is for all
/// channels. Each is tested at the bound and one past it.
package struct ShardLimits: Sendable, Equatable {
    /// Ordinary channels of all shards, shared evenly by apps and connections (`ChannelQuota`). A subscribe that would make
    /// one more is refused. A cache channel that would be one more keeps no event.
    package var channelsMax = 200_000
    /// Channels that one connection may always make while there is any room. Most clients are in fewer.
    package var fewChannels = 20
    /// How long a user whose last connection broke stays a member, and online for watchers. Pusher's figure.
    package var leaveGrace = Duration.seconds(3)
    /// How long after the last connection's end the app's backend is told that a user has left, or that a channel is vacant,
    /// unless somebody is back. Pusher's figure.
    package var webhookPause = Duration.seconds(3)
    /// Users, and channels, that wait for the end of those times; one more ends the oldest of the app that has most. Also
    /// users signed in to watchlists apps who wait for the end of the grace.
    package var departuresMax = 100_000
    /// Bytes of a presence channel's member list as sent to a newcomer. A user who would exceed them is refused.
    package var membersBytesMax = 2 << 20
    /// Above this number of subscribers, a changed count is told once in `countInterval`. Pusher's figures.
    package var promptCountsMax = 100
    /// The least time between two counts of a channel with more subscribers.
    package var countInterval = Duration.seconds(5)
    /// At or below it, once in this time: the first change at once, the last at the end.
    package var promptInterval = Duration.milliseconds(100)
    /// The app's backend is told of misses of a cache channel once in this time.
    package var missInterval = Duration.seconds(1)
    /// Channels in a quiet period, for each of these three times. With one more, the oldest of the app
    /// that has most tells what it owes.
    package var silencesMax = 100_000
    /// How long a cache channel keeps its last event. Pusher's figure.
    package var cacheTime = Duration.seconds(30 * 60)
    /// Bytes of all kept events, including what keeping them costs. Each app that has some may have an equal share (at least
    /// one event) and what the others leave. Beyond it, the app that has most loses its oldest.
    package var cacheBytesMax = 64 << 20
    /// Due entries handled in one turn. The rest waits for the next turn.
    package var dueAtOnceMax = 256
    /// Subscribers told of them in one turn. Once reached, no further entry is begun.
    package var toldAtOnceMax = 8_192

    /// The defaults: Pusher's figures where it names them.
    package init() {}

    /// The limits of one shard, where the bounds here are the hub's.
    package func share(of loops: Int) -> ShardLimits {
        var share = self
        share.departuresMax = max(1, departuresMax / loops)
        share.silencesMax = max(1, silencesMax / loops)
        share.cacheBytesMax = cacheBytesMax / loops
        return share
    }
}
