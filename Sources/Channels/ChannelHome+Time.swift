import Bytes
import Pusher

/// What a home of ordinary channels does later: users and channels that were left are gone after a grace, silences end,
/// and cached events are forgotten.
extension ChannelHome {
    /// A user without a connection, or one of whom only the app's backend still has to hear that he is gone, or a channel
    /// without anybody, that will be gone; stands for nothing once somebody has come back.
    struct Departure {
        let key: ChannelKey
        /// Nil for the channel itself.
        let user: String?
        let number: UInt64
        let due: UInt64
    }

    /// When there is something to do, at the earliest: monotonic, in nanoseconds; nil where nothing waits.
    package var nextDue: UInt64? {
        // At each input: without an array.
        let silent = min(
            promptSilences.nextDue ?? .max, longSilences.nextDue ?? .max, missSilences.nextDue ?? .max)
        let due = min(departures.first?.due ?? .max, cache.nextDue ?? .max, silent)
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
        if let first = departures.first, first.due <= now {
            _ = departures.popFirst()
            end(first, &effects)
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

    /// Numbers and enters a departure.
    mutating func depart(_ channel: HomeChannel, _ user: String?, now: UInt64) -> UInt64 {
        let number = nextNumber()
        departing += 1
        departures.append(
            Departure(key: channel.key, user: user, number: number, due: now &+ limits.leaveGrace.nanoseconds))
        return number
    }

    /// Keeps departures within their bound.
    mutating func trimDepartures(_ effects: inout Effects) {
        while departing > limits.departuresMax, let oldest = departures.popFirst() { end(oldest, &effects) }
        if departures.needsSweep(live: departing) {
            let channels = channels
            departures.sweep { $0.stands(in: channels[$0.key]) }
        }
    }

    private mutating func end(_ departure: Departure, _ effects: inout Effects) {
        guard let channel = channels[departure.key], departure.stands(in: channel), let app = app(of: channel) else {
            return
        }
        departing -= 1
        if let user = departure.user {
            if channel.members.contains(user) { removed(user, channel, &effects) }
            channel.members.forget(user)
            tellRemoved(user, channel, app, &effects)
        } else {
            channel.vacating = 0
            if app.features.webhooks.contains(.channelExistence) {
                effects.append(.webhook(app, .channelVacated(channel.name)))
            }
        }
        removeIfUnused(channel)
    }
}

extension ChannelHome.Departure {
    func stands(in channel: HomeChannel?) -> Bool {
        guard let channel else { return false }
        guard let user else { return channel.vacating == number }
        return channel.members.awaits(number, of: user)
    }
}
