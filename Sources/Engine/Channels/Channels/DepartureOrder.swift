import Bytes
import Clock

/// What is about to be gone from a home: a user without a connection, or one of whom only the app's backend still has to
/// hear that he is gone, or a channel without anybody. Stands for nothing once somebody has come back.
struct Departure {
    let key: ChannelKey
    /// Nil for the channel itself.
    let user: String?
    let number: UInt64
    let due: Instant
    /// Whether nothing is to be done after it.
    var isLast = true

    /// What is still to be done of it later.
    func rest(after time: Duration) -> Departure {
        Departure(key: key, user: user, number: number, due: due.advanced(by: time))
    }

    func stands(in channel: HomeChannel?) -> Bool {
        guard let channel else { return false }
        guard let user else { return channel.vacating == number }
        return channel.members.awaits(number, of: user)
    }
}

/// The departures of a home of one kind, users' or channels', in the order in which they are due, and how many are whose. One
/// of which something is to be done at two times is due twice. All wait equally long for the first, and for the second after it.
///
/// Beyond the bound the app that has most loses its oldest: no app's clients end the grace of another's, which has fewer.
struct DepartureOrder {
    private struct AppShare {
        var entries = Fifo<Departure>()
        var count = 0
    }

    private let countMax: Int
    /// Of all apps, the oldest first.
    private var entries = Fifo<Departure>()
    /// Those that are due for the second time.
    private var again = Fifo<Departure>()
    /// By the app's index.
    private var shares: ContiguousArray<AppShare> = []
    /// Those that stand for something.
    private(set) var count = 0

    init(countMax: Int) {
        self.countMax = countMax
    }

    /// Places of both orders, those that stand for nothing included.
    var entryCount: Int { shares.reduce(entries.count + again.count) { $0 + $1.entries.count } }

    /// When the next is due; nil where there is none.
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

    /// One that was due, and still counts, is so again.
    mutating func appendAgain(_ departure: Departure) {
        again.append(departure)
    }

    /// One of the app's is over, or stands for nothing from here on; its entry stays.
    mutating func end(of app: Int) {
        shares[app].count -= 1
        count -= 1
        if shares[app].count == 0 { shares[app].entries = Fifo() }
    }

    /// The next of all, if its time is over. It may stand for nothing.
    mutating func popFirst(dueBy now: Instant) -> Departure? {
        guard let due = nextDue, due <= now else { return nil }
        return again.first?.due == due ? again.popFirst() : entries.popFirst()
    }

    /// Whose turn it is to be gone, for there are too many; nil where there are not. It may stand for nothing: then there is
    /// another.
    mutating func popExcess() -> Departure? {
        guard count > countMax, let largest = shares.indices.max(by: { shares[$0].count < shares[$1].count })
        else { return nil }
        return shares[largest].entries.popFirst()
    }

    /// Whether most entries of all, or of the app's, stand for nothing.
    func needsSweep(of app: Int) -> Bool {
        guard app < shares.count else { return false }
        return entries.needsSweep(live: count) || again.needsSweep(live: count)
            || shares[app].entries.needsSweep(live: shares[app].count)
    }

    /// Drops those.
    mutating func sweep(of app: Int, keeping isLive: (Departure) -> Bool) {
        if entries.needsSweep(live: count) { entries.sweep(keeping: isLive) }
        if again.needsSweep(live: count) { again.sweep(keeping: isLive) }
        if shares[app].entries.needsSweep(live: shares[app].count) { shares[app].entries.sweep(keeping: isLive) }
    }
}
