import Bytes
import Pusher

/// What a home of ordinary channels does later: users and channels that were left are gone after a grace, counts that
/// change quickly are told now and then, and cached events are forgotten.
extension ChannelHome {
    /// A user without a connection, or a channel without anybody, that will be gone; stands for nothing once somebody has
    /// come back.
    struct Departure {
        let key: ChannelKey
        /// Nil for the channel itself.
        let user: String?
        let number: UInt64
        let due: UInt64
    }

    /// The time in which a count is not told again.
    struct CountWindow {
        let key: ChannelKey
        let number: UInt64
        let due: UInt64
    }

    /// When there is something to do, at the earliest: monotonic, in nanoseconds; nil where nothing waits.
    package var nextDue: UInt64? {
        // At each input: without an array.
        let due = min(departures.first?.due ?? .max, countWindows.first?.due ?? .max, cache.first?.due ?? .max)
        return due == .max ? nil : due
    }

    /// Time has passed. Does what is due, but so much at most: thousands may have left in one moment.
    package mutating func tick(now: UInt64, _ effects: inout Effects) {
        var rest = limits.dueAtOnceMax
        while rest > 0, let first = departures.first, first.due <= now {
            _ = departures.popFirst()
            end(first, &effects)
            rest -= 1
        }
        while rest > 0, let first = countWindows.first, first.due <= now {
            _ = countWindows.popFirst()
            close(first, now: now, &effects)
            rest -= 1
        }
        while rest > 0, let first = cache.first, first.due <= now {
            _ = cache.popFirst()
            forget(first)
            rest -= 1
        }
    }

    // MARK: Departures

    /// Numbers and enters a departure.
    mutating func depart(
        _ channel: HomeChannel, _ user: String?, now: UInt64, _ effects: inout Effects
    ) -> UInt64 {
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
            removed(user, channel, app, &effects)
        } else {
            channel.vacating = 0
            if app.features.webhooks.contains(.channelExistence) {
                effects.append(.webhook(app, .channelVacated(channel.name)))
            }
        }
        removeIfUnused(channel)
    }

    // MARK: Counts

    private func tellsCounts(_ channel: HomeChannel, _ app: App) -> Bool {
        app.features.subscriptionCounts && !channel.name.kind.isPresence
    }

    /// Whether someone who comes now is told the count alone, since the others are not.
    func owesNewcomerCount(_ channel: HomeChannel, _ app: App, now: UInt64) -> Bool {
        tellsCounts(channel, app) && channel.countWindow != 0 && channel.total > limits.promptCountsMax
    }

    /// Somebody has come or gone.
    mutating func countChanged(_ channel: HomeChannel, _ app: App, now: UInt64, _ effects: inout Effects) {
        guard tellsCounts(channel, app) else { return }
        if channel.countWindow != 0, channel.total > limits.promptCountsMax {
            channel.owesCount = true
        } else {
            tellCount(channel, app, now: now, &effects)
        }
    }

    private mutating func tellCount(_ channel: HomeChannel, _ app: App, now: UInt64, _ effects: inout Effects) {
        if channel.countWindow != 0 { openWindows -= 1 }
        channel.countWindow = 0
        channel.owesCount = false
        if !channel.loops.isEmpty {
            broadcast(
                ServerEvent.subscriptionCountFrame(channel.name, channel.total), channel, except: nil, &effects)
        }
        if app.features.webhooks.contains(.subscriptionCount) {
            effects.append(.webhook(app, .subscriptionCount(channel.name, channel.total)))
        }
        guard channel.total > limits.promptCountsMax else { return }
        channel.countWindow = nextNumber()
        openWindows += 1
        countWindows.append(
            CountWindow(
                key: channel.key, number: channel.countWindow, due: now &+ limits.countInterval.nanoseconds))
        if countWindows.needsSweep(live: openWindows) {
            let channels = channels
            countWindows.sweep { channels[$0.key]?.countWindow == $0.number }
        }
    }

    private mutating func close(_ window: CountWindow, now: UInt64, _ effects: inout Effects) {
        guard let channel = channels[window.key], channel.countWindow == window.number else { return }
        if channel.owesCount, let app = app(of: channel), tellsCounts(channel, app) {
            return tellCount(channel, app, now: now, &effects)
        }
        channel.countWindow = 0
        channel.owesCount = false
        openWindows -= 1
    }
}

extension ChannelHome.Departure {
    func stands(in channel: HomeChannel?) -> Bool {
        guard let channel else { return false }
        guard let user else { return channel.vacating == number }
        return channel.members.lingers(user, until: number)
    }
}
