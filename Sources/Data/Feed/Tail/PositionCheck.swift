import Bytes
import Sync

/// The position check: every live stream is compared with the database now and then, in lots. Nothing known makes a
/// difference; whatever does is healed by a replay, and counted.
///
/// A position may be ahead of what was delivered only because the tail has not been read since. So a lot is compared
/// when a tail that began after its positions were read has ended, and no bulk is left: commits under way are no alarm.
struct PositionCheck {
    /// A stream that was behind its position.
    typealias Lag = (ticket: Ticket, position: Int64)

    /// Valid transitions: idle → due → reading → idle or behind; behind → reading the tail → idle; any → idle where the
    /// connection is lost.
    private enum State {
        case idle
        /// A lot is to be read.
        case due
        /// Its positions are being read.
        case reading
        /// These were behind their positions; a tail must begin.
        case behind([Lag])
        /// These were behind their positions; a tail has begun.
        case readingTail([Lag])
    }

    private var state = State.idle
    /// Watches at places below this one have still to be looked at in this round. From the end on: whichever watch takes the
    /// place of one that ends has had its turn, or has it still.
    private var checkedFrom = 0

    /// The time has come for the next lot. Passed over while one is being checked.
    mutating func isDue() {
        if case .idle = state { state = .due }
    }

    /// The connection is lost.
    mutating func stop() { state = .idle }

    /// The next lot, where it is due; none where none of it is live.
    mutating func next(_ watches: Watches) -> [Ticket] {
        guard case .due = state else { return [] }
        var lot: [Ticket] = []
        var turns = watches.count
        while turns > 0, lot.count < FeedLimits.positionsPerQuery {
            turns -= 1
            if checkedFrom == 0 { checkedFrom = watches.count }
            checkedFrom = min(checkedFrom, watches.count) - 1
            let watch = watches[checkedFrom]
            // The others are being read anyway.
            if watch.phase == .live { lot.append(Ticket(watch.stream, watch.serial)) }
        }
        state = lot.isEmpty ? .idle : .reading
        return lot
    }

    /// The lot's positions were read. True where a tail is to be read on account of them: nobody may have told of what was
    /// committed.
    mutating func received(
        _ tickets: [Ticket], _ positions: [StreamPosition], _ watches: inout Watches, _ outputs: inout [FeedOutput]
    ) -> Bool {
        var behind: [Lag] = []
        for (ticket, position) in zip(tickets, positions) {
            guard let place = watches.place(of: ticket), watches[place].phase == .live else { continue }
            let watch = watches[place]
            if position.epoch != watch.epoch || position.offset < watch.delivered {
                // Read later than all that was delivered: it holds at once, and rows up to it are dropped.
                watches[place].restart(at: position)
                outputs.append(.reset(ticket.stream, position))
            } else if position.offset > watch.delivered {
                behind.append((ticket, position.offset))
            }
        }
        state = behind.isEmpty ? .idle : .behind(behind)
        return !behind.isEmpty
    }

    mutating func tailBegins() {
        if case .behind(let behind) = state { state = .readingTail(behind) }
    }

    /// A tail has ended, and no bulk is left. What the lot was behind then.
    mutating func tailEnded() -> [Lag] {
        guard case .readingTail(let behind) = state else { return [] }
        state = .idle
        return behind
    }
}
