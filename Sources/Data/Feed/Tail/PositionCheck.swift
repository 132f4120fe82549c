import Bytes
import Sync

/// The position check: compares every live stream with the database regularly, in lots. No known cause makes a difference;
/// any difference is healed by a replay and counted.
///
/// A position may be ahead of the delivered offset only because the tail has not been read since. So a lot is judged after
/// a tail that began later than its positions were read, when no bulk is left. Commits in flight then raise no alarm.
struct PositionCheck {
    /// A stream behind its position.
    typealias Lag = (ticket: Ticket, position: Int64)

    /// Valid transitions: idle → due → reading → idle or behind; behind → readingTail → idle; on a lost connection all →
    /// idle.
    private enum State {
        case idle
        /// A lot should be read.
        case due
        /// Its positions are being read.
        case reading
        /// These streams were behind their positions; a tail must begin.
        case behind([Lag])
        /// These streams were behind their positions; a tail has begun.
        case readingTail([Lag])
    }

    private var state = State.idle
    /// Watches at indexes below this one have not been checked in this round. It counts down: a watch that is moved to a
    /// freed index has been checked already or will be.
    private var checkedFrom = 0

    /// The next lot is due. Ignored while a lot is being checked.
    mutating func isDue() {
        if case .idle = state { state = .due }
    }

    mutating func stop() { state = .idle }

    /// The next lot if it is due; empty if none of its streams is live.
    mutating func next(_ watches: Watches) -> [Ticket] {
        guard case .due = state else { return [] }
        var lot: [Ticket] = []
        var turns = watches.count
        while turns > 0, lot.count < FeedLimits.positionsPerQuery {
            turns -= 1
            if checkedFrom == 0 { checkedFrom = watches.count }
            checkedFrom = min(checkedFrom, watches.count) - 1
            let watch = watches[checkedFrom]
            // The other streams are being read anyway.
            if watch.phase == .live { lot.append(Ticket(watch.stream, watch.serial)) }
        }
        state = lot.isEmpty ? .idle : .reading
        return lot
    }

    /// The lot's positions were read. Returns whether a tail must be read, since nobody may have notified of these commits.
    mutating func received(
        _ tickets: [Ticket], _ positions: [StreamPosition], _ watches: inout Watches, _ outputs: inout [FeedOutput]
    ) -> Bool {
        var behind: [Lag] = []
        for (ticket, position) in zip(tickets, positions) {
            guard let index = watches.index(of: ticket), watches[index].phase == .live else { continue }
            let (watch, epoch) = (watches[index], watches.number(of: position.epoch))
            if !watch.isIn(epoch) || position.offset < watch.delivered {
                // Read later than all that was delivered: the reset holds at once, and rows up to it are dropped.
                watches[index].restart(at: position.offset, in: epoch)
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

    /// A tail has ended, and no bulk is left. Returns the positions that the lot was behind.
    mutating func tailEnded() -> [Lag] {
        guard case .readingTail(let behind) = state else { return [] }
        state = .idle
        return behind
    }
}
