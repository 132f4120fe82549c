import Clock
import Reactor

/// How long the oldest writing transaction has run, by the feed's snapshots, since the hub may not see other roles'
/// sessions. Less than the truth: it counts from the first snapshot that shows it, when a later transaction has ended.
///
/// A snapshot (`xmin:xmax:…`) starts with the oldest transaction of any database that has written and not ended; if there
/// is none, with the number of the next transaction.
struct OldestWriter {
    private var number: UInt64 = 0
    /// When `number` was first seen; nil if no transaction writes.
    private(set) var since: Instant?

    /// A snapshot was read, as the text of a `pg_snapshot`.
    mutating func saw(_ snapshot: String, at now: Instant) {
        // By bytes for speed: it runs with each read of the tail.
        let text = snapshot.utf8
        let colon = UInt8(ascii: ":")
        guard let end = text.firstIndex(of: colon), let oldest = UInt64(snapshot[..<end]) else { return gone() }
        let rest = snapshot[text.index(after: end)...]
        guard let next = UInt64(rest[..<(rest.utf8.firstIndex(of: colon) ?? rest.endIndex)]), oldest < next
        else { return gone() }
        if since == nil || oldest != number { since = now }
        number = oldest
    }

    /// The database is unreachable: its writers are unknown.
    mutating func gone() {
        since = nil
    }
}
