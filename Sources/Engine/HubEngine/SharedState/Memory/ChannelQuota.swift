import Synchronization

/// Counts the ordinary channels of all shards, and decides who may make one more. A channel is held while somebody is in it,
/// its event is cached, or something about it must still be reported. Anybody may join a held channel. Any thread.
///
/// The bound is exact: loops that make channels at the same moment count one after the other. Scarce room is shared:
/// - Once half of the bound is held, an app may make a channel only below its share. The other half covers the shares of
///   all apps but one.
/// - Once an app holds at least as many channels as remain for it, a connection in `few` channels or more makes another
///   only below the app's remaining room divided by its connections. So neither one client nor a crowd from one address
///   takes others' room.
package final class ChannelQuota: Sendable {
    private let all = BoundedCount()
    private let apps = Atomic<Int>(1)

    /// No channels, and one app.
    package init() {}

    /// Channels of all apps.
    package var count: Int { all.count }

    /// Sets how many apps are served.
    package func serves(_ count: Int) { apps.store(count, ordering: .relaxed) }

    /// Counts in a channel that the app does not have yet.
    ///
    /// - Parameters:
    ///   - subscriptions: channels that the asking connection is in; nil if the app's backend asks.
    ///   - most: the bound over all apps.
    ///   - few: a connection in fewer channels than this may always make one while there is room.
    /// - Throws: why the channel is not made.
    package func enter(_ app: App, subscriptions: Int?, most: Int, few: Int) throws(EntryRefusal) {
        let own = app.counts.channels
        let held = own.count
        let total = all.count
        let others = apps.load(ordering: .relaxed) - 1
        let share = others > 0 ? most / 2 / others : most
        let hubRoom = min(max(share - held, most / 2 - total), most - total)
        let appRoom = app.limits.channelsMax.map { $0 - held } ?? .max
        let room = min(hubRoom, appRoom)
        let refusal = appRoom <= hubRoom ? EntryRefusal.appChannelsFull : .channelsFull
        guard room > 0 else { throw refusal }
        let connections = app.counts.connections.count
        if let subscriptions, subscriptions >= few, held >= room, connections > 1,
            subscriptions >= (room - 1) / connections + 1
        {
            throw refusal
        }
        guard own.enter(most: app.limits.channelsMax) != nil else { throw .appChannelsFull }
        guard all.enter(most: most) != nil else {
            own.leave()
            throw .channelsFull
        }
    }

    /// Counts out a channel of the app.
    package func leave(_ app: App) {
        app.counts.channels.leave()
        all.leave()
    }
}
