import Synchronization

/// The ordinary channels that all homes hold, and who may make one more. A channel is held while somebody is in it, its last
/// event is kept, or its end has still to be told; each that is may be joined, however many there are. Any thread.
///
/// The bound is exact: loops that make a channel in the same moment count one after the other. What is left of it goes to
/// many rather than to one:
/// - half of it is held: an app goes on only below its share. The other half is enough for the shares of all apps but one,
///   so that there is room for each, whatever the others hold;
/// - an app holds more than is left to it: a connection that is in more than a few channels makes one more only while they are
///   fewer than an even share of what is left, among the app's connections. So one client of many channels, or many such from
///   one address, leave room to all others, however many channels they ask for.
package final class ChannelCensus: Sendable {
    private let all = BoundedCount()
    /// Apps that are served.
    private let apps = Atomic<Int>(1)

    package init() {}

    /// Of all apps.
    package var count: Int { all.count }

    /// So many apps are served from here on.
    package func serves(_ count: Int) { apps.store(count, ordering: .relaxed) }

    /// Counts in a channel that the app has not.
    ///
    /// - Parameters:
    ///   - subscriptions: how many channels the connection is in that asks; nil: the app's backend does.
    ///   - most: the bound, of all apps.
    ///   - few: channels of a connection below which it always may, where there is room.
    /// - Throws: why there is to be no such channel.
    package func enter(_ app: App, subscriptions: Int?, most: Int, few: Int) throws(SubscriptionRefusal) {
        let own = app.counts.channels
        let held = own.count
        let total = all.count
        let others = apps.load(ordering: .relaxed) - 1
        let share = others > 0 ? most / 2 / others : most
        let hubRoom = min(max(share - held, most / 2 - total), most - total)
        let appRoom = app.limits.channelsMax.map { $0 - held } ?? .max
        let room = min(hubRoom, appRoom)
        let refusal = appRoom <= hubRoom ? SubscriptionRefusal.appChannelsFull : .channelsFull
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

    /// A channel of the app's that was counted in is held no more.
    package func leave(_ app: App) {
        app.counts.channels.leave()
        all.leave()
    }
}
