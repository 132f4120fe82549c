/// The bounds and times of one home of ordinary channels. A hub has a home for each loop, which share what is for all
/// channels. Each is tested at the bound and one past it.
package struct HomeLimits: Sendable, Equatable {
    /// Ordinary channels of all homes together, which share it evenly among apps and connections (`ChannelCensus`); a
    /// subscribe that would make one more is refused, and nothing is kept of a cache channel that would be one more.
    package var channelsMax = 200_000
    /// Channels of one connection that are not too many as long as there is room at all: more than most clients are in.
    package var fewChannels = 20
    /// How long a user whose last connection broke is still a member, and online to who watches. Pusher's figure.
    package var leaveGrace = Duration.seconds(3)
    /// How long after the last connection's end the app's backend is told that a user or everybody has left, and is not back.
    /// Pusher's figure.
    package var webhookPause = Duration.seconds(3)
    /// Users that wait for the end of that, and channels, of each so many; with one more, the oldest goes at once of the app
    /// that has most. Also users that are watched and may be offline, of whom the oldest goes.
    package var departuresMax = 100_000
    /// Bytes of the list of a presence channel's members, as it is sent to who comes; a user with whom it would be longer is
    /// refused, as one beyond `AppLimits.presenceMembersMax` is.
    package var membersBytesMax = 2 << 20
    /// Subscribers above which their number is told only once in `countInterval`, if it has changed. Pusher's figures.
    package var promptCountsMax = 100
    package var countInterval = Duration.seconds(5)
    /// And below, once in this time: the first change at once, the last at its end.
    package var promptInterval = Duration.milliseconds(100)
    /// The app's backend is told once in this time that nothing is kept of a cache channel.
    package var missInterval = Duration.seconds(1)
    /// Channels that are silent for one of these times, of each; with one more, the oldest tells what it has to tell.
    package var silencesMax = 100_000
    /// How long a cache channel keeps its last event. Pusher's figure.
    package var cacheTime = Duration.seconds(30 * 60)
    /// Bytes of all of them, with what it costs to keep them. Each app that has some may have an equal share, one event at
    /// least, and what the others leave; with one byte more, the oldest goes of the app that has most.
    package var cacheBytesMax = 64 << 20
    /// What is due at the same moment and done in one turn; the rest waits for the next.
    package var dueAtOnceMax = 256
    /// Subscribers who are told of it in one turn: nothing further is begun when so many have been.
    package var toldAtOnceMax = 8_192

    package init() {}

    /// What is one home's, where the bounds are the hub's.
    package func share(of loops: Int) -> HomeLimits {
        var share = self
        share.departuresMax = max(1, departuresMax / loops)
        share.silencesMax = max(1, silencesMax / loops)
        share.cacheBytesMax = cacheBytesMax / loops
        return share
    }
}
