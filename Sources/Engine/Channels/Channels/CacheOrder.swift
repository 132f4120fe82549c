import Bytes
import Clock

/// The eviction order of a shard's cached events, and what they cost each app.
///
/// Beyond the bound the app that has most loses its oldest event. So an app with at most an equal share of the bound, among
/// the apps that have some, loses none for others. An app never loses its last event, however large it is.
struct CacheOrder {
    /// Names a cached event. Stale once its channel has a newer event, or none.
    struct Entry {
        let key: ChannelKey
        let number: UInt64
        let due: Instant
    }

    private struct AppShare {
        var entries = Fifo<Entry>()
        var count = 0
        var bytes = 0
    }

    private let bytesMax: Int
    /// Entries of all apps, the oldest first.
    private var entries = Fifo<Entry>()
    /// By the app's index.
    private var shares: ContiguousArray<AppShare> = []
    /// Events, and the apps that have some.
    private var count = 0
    private var holders = 0
    /// Bytes of all events, including what keeping them costs.
    private(set) var bytes = 0

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// Entries of all queues, stale ones included.
    var entryCount: Int { shares.reduce(entries.count) { $0 + $1.entries.count } }

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

    /// An event is no longer kept. Its entry stays, stale.
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

    /// The oldest entry, if it has expired. It may be stale.
    mutating func popFirst(dueBy now: Instant) -> Entry? {
        guard let due = nextDue, due <= now else { return nil }
        return entries.popFirst()
    }

    /// The entry to evict next, perhaps stale (then call again). Nil within the bound, or if no app exceeds its share.
    mutating func popExcess() -> Entry? {
        guard bytes > bytesMax, holders > 0 else { return nil }
        let share = bytesMax / holders
        var largest: Int?
        for app in shares.indices where shares[app].count > 1 && shares[app].bytes > share {
            if shares[app].bytes > largest.map({ shares[$0].bytes }) ?? 0 { largest = app }
        }
        return largest.flatMap { shares[$0].entries.popFirst() }
    }

    /// Drops stale entries where most entries, of all apps or of this one, are stale.
    mutating func sweep(of app: Int, keeping isLive: (Entry) -> Bool) {
        if entries.needsSweep(live: count) { entries.sweep(keeping: isLive) }
        if shares[app].entries.needsSweep(live: shares[app].count) { shares[app].entries.sweep(keeping: isLive) }
    }
}
