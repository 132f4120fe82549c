import Bytes
import Clock
import Metrics
import Pusher

/// The members of ordinary channels, and those who have left. A user or channel that was left stays for a grace
/// period, since somebody may be back in a moment.
struct Attendance {
    typealias News = MemoryChannels.News

    private let channels: ChannelStates
    private let limits: ShardLimits
    private let metrics: EngineMetrics
    /// Departures of users and of channels, by app index. An app's clients never end the grace of another app with fewer
    /// departures. All departures of one kind wait equally long.
    private var userDepartures: SharedOrder<Int, GraceEnd>
    private var channelDepartures: SharedOrder<Int, GraceEnd>
    /// The departures of users that also need work before their end.
    private var earlier = Fifo<GraceEnd>()
    private var lastNumber: UInt64 = 0

    init(of channels: ChannelStates, _ limits: ShardLimits, _ metrics: EngineMetrics) {
        self.channels = channels
        self.limits = limits
        self.metrics = metrics
        userDepartures = SharedOrder(bound: limits.departuresMax)
        channelDepartures = SharedOrder(bound: limits.departuresMax)
    }

    var departureEntryCount: Int { userDepartures.slotCount + channelDepartures.slotCount + earlier.count }
    /// When the next departure is due; in the far future if there is none.
    @inline(__always) var nextDue: Instant {
        let user = min(earlier.first?.due ?? .max, userDepartures.first?.due ?? .max)
        return min(user, channelDepartures.first?.due ?? .max)
    }

    /// Ends one departure that is due, or does what comes before its end. False if nothing is due.
    mutating func endNext(now: Instant, _ news: inout News) -> Bool {
        if let first = earlier.first, first.due <= now, first.due <= userDepartures.first?.due ?? .max {
            earlier.popFirst()
            shorterIsOver(first, &news)
            return true
        }
        guard
            let departure = userDepartures.popFirst(if: { $0.due <= now })
                ?? channelDepartures.popFirst(if: { $0.due <= now })
        else { return false }
        end(departure, &news)
        return true
    }

    private mutating func nextNumber() -> UInt64 {
        lastNumber &+= 1
        return lastNumber
    }

    // MARK: Occupied and vacant

    mutating func occupied(_ channel: ChannelState, _ app: App, _ news: inout News) {
        if channel.vacating != 0 {
            channel.vacating = 0
            channelDepartures.leave(of: channel.key.app)
        } else if channel.owesVacated {
            channel.owesVacated = false
        } else if app.features.webhooks.contains(.channelExistence) {
            news.append(.webhook(app: app.index, .channelOccupied(channel.name)))
        }
    }

    mutating func vacated(_ channel: ChannelState, _ app: App, now: Instant, _ news: inout News) {
        guard app.features.webhooks.contains(.channelExistence) else { return }
        guard limits.webhookPause > .zero else { return tellVacated(channel, app, &news) }
        channel.vacating = nextNumber()
        channelDepartures.append(
            GraceEnd(
                key: channel.key, user: nil, number: channel.vacating,
                due: now.advanced(by: limits.webhookPause)), of: channel.key.app)
    }

    // MARK: Members

    /// Whether the newcomer would be refused because connected members take all the room.
    func isFull(for member: PresenceMember, in key: ChannelKey, of app: App) -> Bool {
        guard let channel = channels[key] else { return false }
        return !channel.members.mayHaveRoom(for: member, bounds(app))
    }

    func bounds(_ app: App) -> MemberBounds {
        MemberBounds(countMax: channels.apps.known(app).limits.presenceMembersMax, bytesMax: limits.membersBytesMax)
    }

    /// Whether the user may enter with this `user_info`. If that makes enough room, members without a connection give way,
    /// the longest gone first. Connected members never do.
    mutating func makesRoom(
        for member: PresenceMember, _ channel: ChannelState, _ app: App, _ news: inout News
    ) -> Bool {
        let bounds = bounds(app)
        guard channel.members.mayHaveRoom(for: member, bounds) else { return false }
        while !channel.members.hasRoom(for: member, bounds) {
            guard let user = channel.members.firstToLeave() else { return false }
            // This is the user itself: it is back, and stays.
            if user.hasSameBytes(as: member.id) { continue }
            userDepartures.leave(of: channel.key.app)
            removed(user, channel, &news)
            tellRemoved(user, channel, app, &news)
        }
        return true
    }

    mutating func arrived(
        _ member: PresenceMember, of hub: HubID, _ channel: ChannelState, _ app: App, now: Instant,
        _ news: inout News
    ) {
        let arrival = channel.members.arrive(member, of: hub, settledAt: now.advanced(by: limits.leaveGrace))
        switch arrival {
        case .further(let isNews):
            if isNews { says(member, channel, &news) }
        case .back(let isNews):
            userDepartures.leave(of: channel.key.app)
            if isNews { says(member, channel, &news) }
        case .first, .again, .anew:
            metrics.members.add(1)
            channels.membersChanged(channel)
            channels.tell(.memberAdded(member), channel, &news)
            if arrival != .first { userDepartures.leave(of: channel.key.app) }
            if arrival != .again, app.features.webhooks.contains(.presence) {
                news.append(.webhook(app: app.index, .memberAdded(channel.name, userID: member.id)))
            }
        }
    }

    /// Newcomers are told this of the member from now on. Hubs elsewhere have copies.
    func says(_ member: PresenceMember, _ channel: ChannelState, _ news: inout News) {
        channels.membersChanged(channel)
        if !channel.others.isEmpty { channels.tell(.memberSays(member), channel, &news) }
    }

    /// The user's last session has left. A user who says so itself is removed at once, unless it did so a moment ago:
    /// otherwise a client could have everybody told as often as it likes. The app's backend hears of it after a pause in any
    /// case (Pusher's "Webhooks"), if the user is not back.
    mutating func left(
        _ user: String, _ channel: ChannelState, _ app: App, mayReturn: Bool, now: Instant, _ news: inout News
    ) {
        let number = nextNumber()
        if limits.leaveGrace > .zero, mayReturn || channel.members.isUnsettled(user, now: now) {
            channel.members.linger(user, until: number)
        } else {
            removed(user, channel, &news)
            channel.members.remember(user, until: number)
        }
        depart(user, number, channel, app, now: now, &news)
    }

    private func removed(_ user: String, _ channel: ChannelState, _ news: inout News) {
        channel.members.remove(user)
        channels.membersChanged(channel)
        metrics.members.add(-1)
        channels.tell(.memberRemoved(user), channel, &news)
    }

    private func tellRemoved(_ user: String, _ channel: ChannelState, _ app: App, _ news: inout News) {
        guard app.features.webhooks.contains(.presence) else { return }
        news.append(.webhook(app: app.index, .memberRemoved(channel.name, userID: user)))
    }

    // MARK: Departures

    /// Queues a user's departure. The grace and the webhook pause both begin now. Each does its own work when it ends.
    private mutating func depart(
        _ user: String, _ number: UInt64, _ channel: ChannelState, _ app: App, now: Instant, _ news: inout News
    ) {
        let first = min(limits.leaveGrace, limits.webhookPause)
        let last = max(limits.leaveGrace, limits.webhookPause)
        guard last > .zero else { return over(user, channel, app, &news) }
        if first == .zero { shorterIsOver(user, number, channel, app, &news) }
        func departure(after wait: Duration) -> GraceEnd {
            GraceEnd(key: channel.key, user: user, number: number, due: now.advanced(by: wait))
        }
        userDepartures.append(departure(after: last), of: channel.key.app)
        if first > .zero, first < last { earlier.append(departure(after: first)) }
    }

    /// Keeps departures within their bounds. Users have a queue of their own: anybody may enter and leave a public channel.
    mutating func trimDepartures(of app: Int, _ news: inout News) {
        while let departure = userDepartures.popExcess() ?? channelDepartures.popExcess() { end(departure, &news) }
        let stands = { [channels] (departure: GraceEnd) in departure.stands(in: channels[departure.key]) }
        userDepartures.sweep(of: app, keeping: stands)
        channelDepartures.sweep(of: app, keeping: stands)
        if earlier.needsSweep(live: userDepartures.total) { earlier.sweep(keeping: stands) }
    }

    private mutating func end(_ departure: GraceEnd, _ news: inout News) {
        guard let channel = channels[departure.key], departure.stands(in: channel), let app = channels.app(of: channel)
        else { return }
        if let user = departure.user {
            userDepartures.leave(of: departure.key.app)
            over(user, channel, app, &news)
        } else {
            channelDepartures.leave(of: departure.key.app)
            channel.vacating = 0
            tellVacated(channel, app, &news)
        }
        channels.removeIfUnused(channel)
    }

    private func shorterIsOver(_ departure: GraceEnd, _ news: inout News) {
        guard let channel = channels[departure.key], departure.stands(in: channel), let app = channels.app(of: channel),
            let user = departure.user
        else { return }
        shorterIsOver(user, departure.number, channel, app, &news)
        channels.removeIfUnused(channel)
    }

    /// The shorter of grace and webhook pause is over.
    private func shorterIsOver(
        _ user: String, _ number: UInt64, _ channel: ChannelState, _ app: App, _ news: inout News
    ) {
        let isMember = channel.members.contains(user)
        if limits.leaveGrace < limits.webhookPause, isMember {
            removed(user, channel, &news)
            channel.members.remember(user, until: number)
        } else if limits.webhookPause < limits.leaveGrace, !isMember {
            channel.members.told(user)
            tellRemoved(user, channel, app, &news)
        }
    }

    /// The longer one is over too. Nothing of the user is kept or owed any more.
    private mutating func over(_ user: String, _ channel: ChannelState, _ app: App, _ news: inout News) {
        if channel.members.contains(user) { removed(user, channel, &news) }
        if !channel.members.forget(user) { tellRemoved(user, channel, app, &news) }
        if channel.owesVacated, channel.members.count == 0 {
            channel.owesVacated = false
            tellVacated(channel, app, &news)
        }
    }

    /// Tells the app's backend that the channel is vacant, once its members are gone too.
    private func tellVacated(_ channel: ChannelState, _ app: App, _ news: inout News) {
        guard app.features.webhooks.contains(.channelExistence) else { return }
        if channel.members.count > 0 {
            channel.owesVacated = true
        } else {
            news.append(.webhook(app: app.index, .channelVacated(channel.name)))
        }
    }
}
