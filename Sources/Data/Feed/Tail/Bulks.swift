/// Bulks: what became visible between two snapshots and is more than a page, such as one commit of 200,000 events. A cursor
/// on another connection reads it, so that the cost is linear and the tail goes on with the events of others.
///
/// The tail continues behind the bulk at once: its `previous` is the bulk's `upTo`. So every event is in a bulk or in a
/// tail. Within one stream, the bulk's events lie below the tail's. A tail's event that would leave a gap starts healing,
/// which reads the missing events by offset; an event that comes twice is dropped by its offset.
///
/// The worst interleavings, each with its test in `TailBulkTests`, besides the random ones (`TailHistories`):
/// - A live event comes before its stream's bulk: it is healed, in order and once (`aLiveEventBeforeItsBulkIsHealed`).
/// - The bulk's connection is lost midway, or the bulk cannot begin: nobody knows which streams its events belong to, so
///   all streams are compared with the database (`aLostBulkIsMadeGoodByPositions`).
/// - The tail's connection is lost midway: all streams are compared, the old bulk is dropped
///   (`pagesOfAnOldBulkAreIgnored`).
/// - A replay in flight is older than the bulk's rows, and so does not lack them (`aReplayOlderThanTheBulkIsNoLoss`).
/// - Another bulk comes while one is being read: it begins where that one ends (`aBulkBehindABulk`).
/// - The position check meets a stream whose bulk is still to come: no alarm (`whatIsInABulkIsNoAlarm`).
struct Bulks {
    private(set) var current: Bulk?
    /// The bulk behind `current`.
    private var next: Bulk?
    private var lastNumber: UInt64 = 0

    /// Whether no bulk is being read or waits.
    var isEmpty: Bool { current == nil && next == nil }

    /// A tail since `previous` was more than a page; the bulk is what `upTo` shows since then.
    mutating func add(previous: String, upTo: String) {
        lastNumber += 1
        next = Bulk(number: lastNumber, previous: next?.previous ?? previous, upTo: upTo)
    }

    /// Starts the next bulk; nil if there is none or one is being read.
    mutating func begin() -> Bulk? {
        guard current == nil, let next else { return nil }
        current = next
        self.next = nil
        return next
    }

    /// The current bulk was read to its end.
    mutating func end() { current = nil }

    /// Drops all bulks: positions requested from now on cover their events.
    mutating func forget() {
        current = nil
        next = nil
    }
}

/// A bulk to read with `sync.open_bulk`.
package struct Bulk: Sendable, Equatable {
    /// Identifies the bulk.
    package let number: UInt64
    /// The bulk is everything visible in `upTo` and not in `previous`.
    package let previous: String
    /// The snapshot up to which it reads.
    package let upTo: String
}
