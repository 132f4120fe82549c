import Sync

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
extension Tail {
    /// What to read: `sync.open_bulk`.
    package struct Bulk: Sendable, Equatable {
        /// Which of them it is.
        package let number: UInt64
        /// Everything visible in `upTo` and not in `previous`.
        package let previous: String
        package let upTo: String
    }

    /// More is new than a page has: all that `snapshot` shows since `previous`, where the database's epoch was `epoch`.
    package mutating func tailOverflowed(snapshot: String, epoch: String) throws(MalformedAnswer) {
        guard case .tail? = underWay, let previous else { throw MalformedAnswer() }
        underWay = nil
        self.previous = snapshot
        if epoch != self.epoch {
            // The positions that are asked now are read later than this.
            saw(epoch)
        } else {
            lastBulk += 1
            nextInLine = Bulk(number: lastBulk, previous: nextInLine?.previous ?? previous, upTo: snapshot)
        }
    }

    /// The bulk to read next, from now on under way; nil for none, or while another one is.
    package mutating func nextBulk() -> Bulk? {
        guard bulk == nil, let next = nextInLine else { return nil }
        bulk = next
        nextInLine = nil
        return next
    }

    /// A page of the bulk of that number, in the order of its streams and offsets. Nothing for one that is not under way.
    package mutating func bulkReceived(
        _ page: some EventPage, of number: UInt64, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        guard bulk?.number == number else { return }
        try takeAll(page, isBulk: true, &outputs)
    }

    /// All of it was received.
    package mutating func bulkEnded(_ number: UInt64) {
        guard bulk?.number == number else { return }
        bulk = nil
        checkTailEnds()
    }

    /// It was not read, or not to its end, or shows another epoch than the tail has.
    package mutating func bulkFailed(_ number: UInt64) {
        guard bulk?.number == number else { return }
        forgetBulks()
        askAllPositions()
        checkTailEnds()
    }

    /// What is in them is covered by positions that are asked from now on.
    mutating func forgetBulks() {
        bulk = nil
        nextInLine = nil
    }
}
