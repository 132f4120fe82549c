import Clock
import Reactor

/// How long the oldest transaction that writes has been under way, as the feed's snapshots show it: other roles' sessions are not
/// the hub's to see. Less than the truth, for it is known from the first snapshot that shows it: when a later transaction has ended.
///
/// The first number of a snapshot (`xmin:xmax:…`) is the oldest transaction that has written and not ended, of all databases, or
/// that of the next one to come, where there is none.
struct OldestWriter {
    /// The transaction that was the oldest.
    private var number: UInt64 = 0
    /// When it was seen first; nil where nobody writes.
    private(set) var since: Instant?

    /// A snapshot was read: text of type `pg_snapshot`.
    mutating func saw(_ snapshot: String, at now: Instant) {
        // By bytes, not by characters: it is done with each read of the tail.
        let text = snapshot.utf8
        let colon = UInt8(ascii: ":")
        guard let end = text.firstIndex(of: colon), let oldest = UInt64(snapshot[..<end]) else { return gone() }
        let rest = snapshot[text.index(after: end)...]
        guard let next = UInt64(rest[..<(rest.utf8.firstIndex(of: colon) ?? rest.endIndex)]), oldest < next
        else { return gone() }
        if since == nil || oldest != number { since = now }
        number = oldest
    }

    /// The database is away: nothing is known of its writers.
    mutating func gone() {
        since = nil
    }
}
