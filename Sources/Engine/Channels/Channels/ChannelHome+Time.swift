import Bytes
import Clock
import Pusher

/// What a home of ordinary channels does later: users and channels that were left are gone after a grace, silences end,
/// and cached events are forgotten.
extension ChannelHome {
    /// When there is something to do, at the earliest: nil where nothing waits.
    package var nextDue: Instant? {
        // At each input: without an array.
        let silent = min(
            promptSilences.nextDue ?? .max, longSilences.nextDue ?? .max, missSilences.nextDue ?? .max)
        let departing = min(userDepartures.nextDue ?? .max, channelDepartures.nextDue ?? .max)
        let due = min(departing, cache.nextDue ?? .max, silent)
        return due == .max ? nil : due
    }

    /// Time has passed. Does what is due, but so much at most: thousands may have left in one moment, and each of them is
    /// told to all who stay.
    package mutating func tick(now: Instant, _ effects: inout Effects) {
        let told = subscribersTold
        for _ in 0..<limits.dueAtOnceMax {
            guard subscribersTold &- told < UInt64(limits.toldAtOnceMax), doNext(now: now, &effects) else { return }
        }
    }

    /// Does one thing that is due; false where nothing is.
    private mutating func doNext(now: Instant, _ effects: inout Effects) -> Bool {
        if let departure = userDepartures.popFirst(dueBy: now) ?? channelDepartures.popFirst(dueBy: now) {
            end(departure, &effects)
        } else if let silence = promptSilences.popFirst(dueBy: now) ?? longSilences.popFirst(dueBy: now) {
            endCountSilence(silence, staysSilent: true, now: now, &effects)
        } else if let silence = missSilences.popFirst(dueBy: now) {
            endMissSilence(silence)
        } else if let entry = cache.popFirst(dueBy: now) {
            forget(entry)
        } else {
            return false
        }
        return true
    }

    // MARK: Departures

    /// Enters a user's departure. The grace and the webhooks' pause both begin with it: what the end of each leaves to be done
    /// is done then.
    mutating func depart(
        _ user: String, _ number: UInt64, _ channel: HomeChannel, _ app: App, now: Instant, _ effects: inout Effects
    ) {
        let first = min(limits.leaveGrace, limits.webhookPause)
        let last = max(limits.leaveGrace, limits.webhookPause)
        guard last > .zero else { return over(user, channel, app, &effects) }
        if first == .zero { shorterIsOver(user, number, channel, app, &effects) }
        let isLast = first == .zero || first == last
        let due = now.advanced(by: isLast ? last : first)
        userDepartures.append(
            Departure(key: channel.key, user: user, number: number, due: due, isLast: isLast))
    }

    /// Keeps departures within their bounds. Users' and channels' are apart: anybody may come to a public channel and go.
    mutating func trimDepartures(of app: Int, _ effects: inout Effects) {
        while var departure = userDepartures.popExcess() {
            departure.isLast = true
            end(departure, &effects)
        }
        while let departure = channelDepartures.popExcess() { end(departure, &effects) }
        guard userDepartures.needsSweep(of: app) || channelDepartures.needsSweep(of: app) else { return }
        let channels = channels
        let stands = { (departure: Departure) in departure.stands(in: channels[departure.key]) }
        if userDepartures.needsSweep(of: app) { userDepartures.sweep(of: app, keeping: stands) }
        if channelDepartures.needsSweep(of: app) { channelDepartures.sweep(of: app, keeping: stands) }
    }

    private mutating func end(_ departure: Departure, _ effects: inout Effects) {
        guard let channel = channels[departure.key], departure.stands(in: channel), let app = app(of: channel) else {
            return
        }
        if let user = departure.user {
            if departure.isLast {
                userDepartures.end(of: departure.key.app)
                over(user, channel, app, &effects)
            } else {
                shorterIsOver(user, departure.number, channel, app, &effects)
                let longer = max(limits.leaveGrace, limits.webhookPause)
                let rest = longer - min(limits.leaveGrace, limits.webhookPause)
                userDepartures.appendAgain(departure.rest(after: rest))
            }
        } else {
            channelDepartures.end(of: departure.key.app)
            channel.vacating = 0
            tellVacated(channel, app, &effects)
        }
        removeIfUnused(channel)
    }

    /// The grace is over, or the webhooks' pause: the shorter of the two.
    private mutating func shorterIsOver(
        _ user: String, _ number: UInt64, _ channel: HomeChannel, _ app: App, _ effects: inout Effects
    ) {
        let isMember = channel.members.contains(user)
        if limits.leaveGrace < limits.webhookPause, isMember {
            removed(user, channel, &effects)
            channel.members.remember(user, until: number)
        } else if limits.webhookPause < limits.leaveGrace, !isMember {
            channel.members.told(user)
            tellRemoved(user, channel, app, &effects)
        }
    }

    /// The longer is over too: nothing of the user is to be kept or told any more.
    private mutating func over(_ user: String, _ channel: HomeChannel, _ app: App, _ effects: inout Effects) {
        if channel.members.contains(user) { removed(user, channel, &effects) }
        if !channel.members.forget(user) { tellRemoved(user, channel, app, &effects) }
        if channel.owesVacated, channel.members.count == 0 {
            channel.owesVacated = false
            tellVacated(channel, app, &effects)
        }
    }

    /// Has the app's backend told that nobody is in the channel: once its members are gone, too.
    func tellVacated(_ channel: HomeChannel, _ app: App, _ effects: inout Effects) {
        guard app.features.webhooks.contains(.channelExistence) else { return }
        if channel.members.count > 0 {
            channel.owesVacated = true
        } else {
            effects.append(.webhook(app, .channelVacated(channel.name)))
        }
    }
}
