import Bytes
import Pusher

/// What a home of ordinary channels does later: users and channels that were left are gone after a grace, silences end,
/// and cached events are forgotten.
extension ChannelHome {
    /// When there is something to do, at the earliest: monotonic, in nanoseconds; nil where nothing waits.
    package var nextDue: UInt64? {
        // At each input: without an array.
        let silent = min(
            promptSilences.nextDue ?? .max, longSilences.nextDue ?? .max, missSilences.nextDue ?? .max)
        let departing = min(userDepartures.nextDue ?? .max, channelDepartures.nextDue ?? .max)
        let due = min(departing, cache.nextDue ?? .max, silent)
        return due == .max ? nil : due
    }

    /// Time has passed. Does what is due, but so much at most: thousands may have left in one moment, and each of them is
    /// told to all who stay.
    package mutating func tick(now: UInt64, _ effects: inout Effects) {
        let told = subscribersTold
        for _ in 0..<limits.dueAtOnceMax {
            guard subscribersTold &- told < UInt64(limits.toldAtOnceMax), doNext(now: now, &effects) else { return }
        }
    }

    /// Does one thing that is due; false where nothing is.
    private mutating func doNext(now: UInt64, _ effects: inout Effects) -> Bool {
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

    /// Numbers and enters a departure: the user's, or the channel's.
    mutating func depart(_ channel: HomeChannel, _ user: String?, now: UInt64) -> UInt64 {
        let departure = Departure(
            key: channel.key, user: user, number: nextNumber(), due: now &+ limits.leaveGrace.nanoseconds)
        if user == nil { channelDepartures.append(departure) } else { userDepartures.append(departure) }
        return departure.number
    }

    /// Keeps departures within their bounds. Users' and channels' are apart: anybody may come to a public channel and go.
    mutating func trimDepartures(of app: Int, _ effects: inout Effects) {
        while let departure = userDepartures.popExcess() { end(departure, &effects) }
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
            userDepartures.end(of: departure.key.app)
            if channel.members.contains(user) { removed(user, channel, &effects) }
            channel.members.forget(user)
            tellRemoved(user, channel, app, &effects)
        } else {
            channelDepartures.end(of: departure.key.app)
            channel.vacating = 0
            if app.features.webhooks.contains(.channelExistence) {
                effects.append(.webhook(app, .channelVacated(channel.name)))
            }
        }
        removeIfUnused(channel)
    }
}
