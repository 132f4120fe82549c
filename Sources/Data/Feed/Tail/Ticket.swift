import Bytes
import Sync

/// A stream's turn at being asked about, good for one watch of it: a later watch has another serial.
package struct Ticket: Hashable, Sendable {
    package let stream: StreamID
    package let serial: UInt32

    package init(_ stream: StreamID, _ serial: UInt32) {
        self.stream = stream
        self.serial = serial
    }
}

/// Tickets in the order in which they were drawn. Those of watches that have ended stay until their turn, or until most are
/// such.
struct TicketLine {
    private var tickets = Fifo<Ticket>()

    var count: Int { tickets.count }
    var isEmpty: Bool { tickets.isEmpty }

    mutating func draw(_ ticket: Ticket, _ watches: Watches) {
        if tickets.count > 2 * watches.count + FeedLimits.positionsPerQuery {
            tickets.sweep { watches.place(of: $0) != nil }
        }
        tickets.append(ticket)
    }

    /// Takes out the next one of a watch that has not ended.
    mutating func next(_ watches: Watches) -> Ticket? {
        while let ticket = tickets.popFirst() {
            if watches.place(of: ticket) != nil { return ticket }
        }
        return nil
    }

    mutating func removeAll() { tickets.removeAll() }
}

/// Whose positions are asked for next.
struct PositionTurns {
    private var front = TicketLine()
    /// Of users who have many streams, all but the first of each user. One user's thousands delay another user's one by no more
    /// than `behindMax` of a query (`oneUsersStreamsDoNotDelayAnothers`).
    private var behind = TicketLine()

    /// What a query has of users with many streams where others wait, too.
    private static let behindMax = FeedLimits.positionsPerQuery / 8

    var count: Int { front.count + behind.count }

    mutating func draw(for watch: Watch, _ watches: Watches) {
        let ticket = Ticket(watch.stream, watch.serial)
        if watch.isBehind { behind.draw(ticket, watches) } else { front.draw(ticket, watches) }
    }

    /// The tickets of the next query, none where none wait.
    mutating func next(_ watches: Watches) -> [Ticket] {
        var tickets: [Ticket] = []
        tickets.reserveCapacity(min(count, FeedLimits.positionsPerQuery))
        while tickets.count < Self.behindMax, let ticket = behind.next(watches) { tickets.append(ticket) }
        while tickets.count < FeedLimits.positionsPerQuery, let ticket = front.next(watches) ?? behind.next(watches) {
            tickets.append(ticket)
        }
        return tickets
    }

    mutating func removeAll() { self = PositionTurns() }
}

/// Streams that are being replayed, in turns of a page, and how far.
struct Healing {
    private var turns = TicketLine()
    /// Of streams that are healing, and no others: the highest offset known of. A replay that ends below it found the log cut.
    private var targets: [StreamID: Int64] = [:]

    var waiting: Int { turns.count }

    /// The stream is to be replayed up to that offset at least.
    mutating func begin(_ ticket: Ticket, upTo target: Int64, _ watches: Watches) {
        targets[ticket.stream] = target
        turns.draw(ticket, watches)
    }

    /// A page was read, and another has to be.
    mutating func goOn(_ ticket: Ticket, _ watches: Watches) { turns.draw(ticket, watches) }

    /// More of it is known.
    mutating func extend(_ stream: StreamID, upTo offset: Int64) {
        targets[stream] = max(target(of: stream), offset)
    }

    func target(of stream: StreamID) -> Int64 { targets[stream, default: 0] }

    mutating func end(_ stream: StreamID) { targets[stream] = nil }

    mutating func next(_ watches: Watches) -> Ticket? { turns.next(watches) }

    mutating func removeAll() { self = Healing() }
}
