import Bytes
import Clock

/// The cached events of a home in the order in which they are forgotten, and what they cost each app.
///
/// Beyond the bound the app that has most loses its oldest. So no app loses any for others as long as it has no more than
/// an equal share of the bound among the apps that have some; nor does it lose its last one, however large that is.
struct CacheOrder {
    /// A cached event's place; stands for nothing once another took its channel's.
    struct Entry {
        let key: ChannelKey
        let number: UInt64
        /// When it is forgotten.
        let due: Instant
    }

    private struct AppShare {
        var entries = Fifo<Entry>()
        var count = 0
        var bytes = 0
    }

    private let bytesMax: Int
    /// Of all apps, the oldest first.
    private var entries = Fifo<Entry>()
    /// By the app's index.
    private var shares: ContiguousArray<AppShare> = []
    /// Events, and the apps that have some.
    private var count = 0
    private var holders = 0
    /// Of all events, with what it costs to keep them.
    private(set) var bytes = 0

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// Places of both orders, those that stand for nothing included.
    var entryCount: Int { shares.reduce(entries.count) { $0 + $1.entries.count } }

    /// When the oldest is forgotten; nil where there is none.
    var nextDue: Instant? { entries.first?.due }

    mutating func append(_ entry: Entry, size: Int) {
        let app = entry.key.app
        while shares.count <= app { shares.append(AppShare()) }
        if shares[app].count == 0 { holders += 1 }
        shares[app].count += 1
        shares[app].bytes += size
        count += 1
        bytes += size
        entries.append(entry)
        shares[app].entries.append(entry)
    }

    /// An event is kept no more; its entry stays, and stands for nothing.
    mutating func remove(size: Int, of app: Int) {
        shares[app].count -= 1
        shares[app].bytes -= size
        if shares[app].count == 0 {
            holders -= 1
            shares[app].entries = Fifo()
        }
        count -= 1
        bytes -= size
    }

    /// The oldest of all, if its time is over. It may stand for nothing.
    mutating func popFirst(dueBy now: Instant) -> Entry? {
        guard let due = nextDue, due <= now else { return nil }
        return entries.popFirst()
    }

    /// Whose turn it is to be forgotten, for there is too much; nil where there is not, or nobody has more than his share. It
    /// may stand for nothing: then there is another.
    mutating func popExcess() -> Entry? {
        guard bytes > bytesMax, holders > 0 else { return nil }
        let share = bytesMax / holders
        var largest: Int?
        for app in shares.indices where shares[app].count > 1 && shares[app].bytes > share {
            if shares[app].bytes > largest.map({ shares[$0].bytes }) ?? 0 { largest = app }
        }
        return largest.flatMap { shares[$0].entries.popFirst() }
    }

    /// Drops the entries that stand for nothing, where most of all, or of the app's, are such.
    mutating func sweep(of app: Int, keeping isLive: (Entry) -> Bool) {
        if entries.needsSweep(live: count) { entries.sweep(keeping: isLive) }
        if shares[app].entries.needsSweep(live: shares[app].count) { shares[app].entries.sweep(keeping: isLive) }
    }
}
