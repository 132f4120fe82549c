import Bytes
import Sync

/// The position check: every live stream is compared with the database now and then, in lots. Nothing known makes a
/// difference; whatever does is healed by a replay, and counted.
///
/// A position may be ahead of what was delivered only because the tail has not been read since. So a lot is compared
/// when a tail that began after its positions were read has ended, and no bulk is left: commits under way are no alarm.
extension Tail {
    /// Valid transitions: idle → due → reading → idle or behind; behind → reading the tail → idle; any → idle where the
    /// connection is lost.
    enum Check {
        case idle
        /// A lot is to be read.
        case due
        /// Its positions are being read.
        case reading
        /// These were behind their positions; a tail must begin.
        case behind([(ticket: Ticket, position: Int64)])
        /// These were behind their positions; a tail has begun.
        case readingTail([(ticket: Ticket, position: Int64)])
    }

    /// Lots that one round over all streams takes: their number tells how often a check is due.
    package var checkLots: Int {
        max(1, (watches.count + FeedLimits.positionsPerQuery - 1) / FeedLimits.positionsPerQuery)
    }

    /// The time has come to check the next lot of streams. Passed over while one is being checked.
    package mutating func checkDue() {
        guard previous != nil, case .idle = check, !watches.isEmpty else { return }
        check = .due
    }

    /// Something else has seen the stream in another epoch: it is asked about at once.
    package mutating func suspected(_ stream: StreamID, otherThan epoch: Epoch) {
        guard previous != nil, let place = watches.place(of: stream), watches[place].phase == .live,
            watches[place].life == epoch
        else { return }
        watches[place].phase = .checking
        askPosition(of: watches[place])
    }

    mutating func nextCheck() -> Query? {
        guard case .due = check else { return nil }
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
        check = lot.isEmpty ? .idle : .reading
        return lot.isEmpty ? nil : .check(lot)
    }

    mutating func checkReceived(
        _ tickets: [Ticket], _ positions: [StreamPosition], _ outputs: inout [FeedOutput]
    ) {
        var behind: [(ticket: Ticket, position: Int64)] = []
        for (ticket, position) in zip(tickets, positions) {
            guard let place = watches.place(of: ticket.stream) else { continue }
            let watch = watches[place]
            guard watch.serial == ticket.serial, watch.phase == .live else { continue }
            if position.life != watch.life || position.offset < watch.delivered {
                // Read later than all that was delivered: it holds at once, and rows up to it are dropped.
                watches[place].restart(at: position)
                outputs.append(.reset(ticket.stream, position))
            } else if position.offset > watch.delivered {
                behind.append((ticket, position.offset))
            }
        }
        check = behind.isEmpty ? .idle : .behind(behind)
        // Nobody may have told of what was committed.
        if !behind.isEmpty { isWoken = true }
    }

    mutating func checkTailBegins() {
        guard case .behind(let behind) = check else { return }
        check = .readingTail(behind)
    }

    /// A tail has ended, or a bulk: what lies in bulks is late, and no alarm.
    mutating func checkTailEnds() {
        guard case .readingTail(let behind) = check, bulk == nil, nextInLine == nil else { return }
        // A bulk ends while the tail is still under way, which may be the first since the positions.
        if case .tail? = underWay { return }
        check = .idle
        for (ticket, position) in behind {
            guard let place = watches.place(of: ticket.stream), watches[place].serial == ticket.serial,
                watches[place].phase == .live, watches[place].delivered < position
            else { continue }
            gapCount += 1
            watches[place].phase = .healing
            targets[ticket.stream] = position
            heal(ticket)
        }
    }
}

extension Tail.Watch {
    /// What comes next counts from there.
    mutating func restart(at position: StreamPosition) {
        life = position.life
        delivered = position.offset
        phase = .live
    }
}
