import Bytes
import Clock

/// Something about to be removed from a shard: a user without a connection, a user whose removal only the app's backend has
/// still to hear of, or an empty channel. Stale once somebody has come back.
struct Departure {
    let key: ChannelKey
    /// Nil for the channel itself.
    let user: String?
    let number: UInt64
    let due: Instant
    /// Whether nothing is left to do after it.
    var isLast = true

    /// The second part of the departure, `time` later.
    func rest(after time: Duration) -> Departure {
        Departure(key: key, user: user, number: number, due: due.advanced(by: time))
    }

    func stands(in channel: HomeChannel?) -> Bool {
        guard let channel else { return false }
        guard let user else { return channel.vacating == number }
        return channel.members.awaits(number, of: user)
    }
}

/// The departures of a shard of one kind (users' or channels') by due time, counted by app. One with work at two times is
/// due twice. All wait equally long for the first time, and equally long from there to the second.
///
/// Beyond the bound the app that has most loses its oldest: no app's clients end the grace in another app that has fewer.
struct DepartureOrder {
    private struct AppShare {
        var entries = Fifo<Departure>()
        var count = 0
    }

    private let countMax: Int
    /// Departures of all apps, the oldest first.
    private var entries = Fifo<Departure>()
    /// Departures that are due for the second time.
    private var again = Fifo<Departure>()
    /// By the app's index.
    private var shares: ContiguousArray<AppShare> = []
    /// Departures that are not stale.
    private(set) var count = 0

    init(countMax: Int) {
        self.countMax = countMax
    }

    /// Entries of all queues, stale ones included.
    var entryCount: Int { shares.reduce(entries.count + again.count) { $0 + $1.entries.count } }

    var nextDue: Instant? {
        guard let first = entries.first?.due else { return again.first?.due }
        return min(first, again.first?.due ?? .max)
    }

    mutating func append(_ departure: Departure) {
        let app = departure.key.app
        while shares.count <= app { shares.append(AppShare()) }
        shares[app].count += 1
        count += 1
        entries.append(departure)
        shares[app].entries.append(departure)
    }

    /// Queues a departure for its second time.
    mutating func appendAgain(_ departure: Departure) {
        again.append(departure)
    }

    /// A departure of the app is over, or stale from now on. Its entry stays.
    mutating func end(of app: Int) {
        shares[app].count -= 1
        count -= 1
        if shares[app].count == 0 { shares[app].entries = Fifo() }
    }

    /// The next departure that is due. It may be stale.
    mutating func popFirst(dueBy now: Instant) -> Departure? {
        guard let due = nextDue, due <= now else { return nil }
        return again.first?.due == due ? again.popFirst() : entries.popFirst()
    }

    /// The departure to end early; nil within the bound. It may be stale: then call again.
    mutating func popExcess() -> Departure? {
        guard count > countMax, let largest = shares.indices.max(by: { shares[$0].count < shares[$1].count })
        else { return nil }
        return shares[largest].entries.popFirst()
    }

    /// Whether most entries, of all apps or of this one, are stale.
    func needsSweep(of app: Int) -> Bool {
        guard app < shares.count else { return false }
        return entries.needsSweep(live: count) || again.needsSweep(live: count)
            || shares[app].entries.needsSweep(live: shares[app].count)
    }

    mutating func sweep(of app: Int, keeping isLive: (Departure) -> Bool) {
        if entries.needsSweep(live: count) { entries.sweep(keeping: isLive) }
        if again.needsSweep(live: count) { again.sweep(keeping: isLive) }
        if shares[app].entries.needsSweep(live: shares[app].count) { shares[app].entries.sweep(keeping: isLive) }
    }
}
