/// Bulks: what became visible between two snapshots and is more than a page, such as one commit of 200,000 events. Read by
/// a cursor on a connection of its own, so that reading it is linear and the tail goes on with the events of others.
///
/// The tail goes on behind the bulk at once: its `previous` is the snapshot in which it met the bulk, the bulk's `upTo`.
/// So an event is in a bulk or comes by a tail, and never in neither. Of one stream, what is in the bulk lies below what
/// the tail brings: a tail's event that would leave a gap puts its stream to healing, which reads what lies between by
/// offset, and an event that comes twice is dropped by its offset.
///
/// The worst interleavings, each with its test in `TailBulkTests`, besides the random ones (`TailHistories`):
/// - a live event of a stream whose bulk is still to come: healed, in order, and nothing twice
///   (`aLiveEventBeforeItsBulkIsHealed`);
/// - the bulk's connection is lost in the middle, or cannot begin: what it would have brought belongs to streams of which
///   nothing tells which, so all are compared with the database (`aLostBulkIsMadeGoodByPositions`);
/// - the tail's connection is lost in the middle: all are compared anyway, and pages of the old bulk are not looked at
///   (`pagesOfAnOldBulkAreIgnored`);
/// - a replay whose answer is under way is older than the bulk's rows of its stream, which must not be taken for rows that
///   the replay lacks (`aReplayOlderThanTheBulkIsNoLoss`);
/// - another bulk comes while one is being read: it begins where that one ends (`aBulkBehindABulk`);
/// - the position check meets a stream whose bulk is still to come: no alarm (`whatIsInABulkIsNoAlarm`).
struct Bulks {
    /// The one that is being read.
    private(set) var current: Bulk?
    /// What lies behind it and is more than a page again.
    private var next: Bulk?
    private var lastNumber: UInt64 = 0

    /// Whether none is being read, nor waits.
    var isEmpty: Bool { current == nil && next == nil }

    /// A tail since `previous` met more than a page, all that `upTo` shows.
    mutating func add(previous: String, upTo: String) {
        lastNumber += 1
        next = Bulk(number: lastNumber, previous: next?.previous ?? previous, upTo: upTo)
    }

    /// The one to read next, from now on under way; nil for none, or while another one is.
    mutating func begin() -> Bulk? {
        guard current == nil, let next else { return nil }
        current = next
        self.next = nil
        return next
    }

    /// It was read to its end.
    mutating func end() { current = nil }

    /// What is in them is covered by positions that are asked from now on.
    mutating func forget() {
        current = nil
        next = nil
    }
}

/// What to read: `sync.open_bulk`.
package struct Bulk: Sendable, Equatable {
    /// Which of them it is.
    package let number: UInt64
    /// Everything visible in `upTo` and not in `previous`.
    package let previous: String
    package let upTo: String
}
