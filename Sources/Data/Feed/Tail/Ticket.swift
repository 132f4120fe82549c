import Bytes
import Sync

/// A stream's entry in a queue of reads, valid for one watch: a later watch has another serial.
package struct Ticket: Hashable, Sendable {
    /// The stream to read.
    package let stream: StreamID
    /// The serial of its watch.
    package let serial: UInt32

    /// A ticket of the watch with this serial.
    package init(_ stream: StreamID, _ serial: UInt32) {
        self.stream = stream
        self.serial = serial
    }
}

/// A queue of tickets. Those of ended watches stay until their turn, or until they are the majority.
struct TicketQueue {
    private var tickets = Fifo<Ticket>()

    var count: Int { tickets.count }

    mutating func draw(_ ticket: Ticket, _ watches: Watches) {
        if tickets.count > 2 * watches.count + FeedLimits.positionsPerQuery {
            tickets.sweep { watches.index(of: $0) != nil }
        }
        tickets.append(ticket)
    }

    /// Removes and returns the next ticket of an active watch.
    mutating func next(_ watches: Watches) -> Ticket? {
        while let ticket = tickets.popFirst() {
            if watches.index(of: ticket) != nil { return ticket }
        }
        return nil
    }
}

/// Decides whose positions are read next: clients that are back before those that begin, because they have something to
/// continue, and need no snapshot. Others get a part of each query, however many come back (`nobodyWaitsForAllWhoAreBack`).
struct PositionTurns {
    private var back = TicketQueue()
    private var front = TicketQueue()
    /// The streams of each user beyond the first `streamsInFront`. One user's thousands delay another user's single stream
    /// by at most `shareOfOthers` of a query (`oneUsersStreamsDoNotDelayAnothers`).
    private var behind = TicketQueue()

    /// How much of a query such streams get while others wait too, and streams of clients that begin while clients are back.
    private static let shareOfOthers = FeedLimits.positionsPerQuery / 8

    var count: Int { back.count + front.count + behind.count }

    mutating func draw(for watch: Watch, _ watches: Watches) {
        let ticket = Ticket(watch.stream, watch.serial)
        if watch.isBehind {
            behind.draw(ticket, watches)
        } else if watch.isBack {
            back.draw(ticket, watches)
        } else {
            front.draw(ticket, watches)
        }
    }

    /// The tickets of the next query; empty if none wait.
    mutating func next(_ watches: Watches) -> [Ticket] {
        var tickets: [Ticket] = []
        tickets.reserveCapacity(min(count, FeedLimits.positionsPerQuery))
        while tickets.count < Self.shareOfOthers, let ticket = behind.next(watches) { tickets.append(ticket) }
        let most = FeedLimits.positionsPerQuery - min(front.count, Self.shareOfOthers)
        while tickets.count < most, let ticket = back.next(watches) { tickets.append(ticket) }
        while tickets.count < FeedLimits.positionsPerQuery,
            let ticket = front.next(watches) ?? back.next(watches) ?? behind.next(watches)
        {
            tickets.append(ticket)
        }
        return tickets
    }

    mutating func removeAll() { self = PositionTurns() }
}

/// The streams with a gap, whose missing events are read from the log by their offsets: one page per turn, and how far.
struct GapRepair {
    private var turns = TicketQueue()
    /// For each healing stream, the highest known offset. A replay that ends below it found the log cut.
    private var targets: [StreamID: Int64] = [:]

    var waiting: Int { turns.count }

    /// Starts a replay of the stream up to at least that offset.
    mutating func begin(_ ticket: Ticket, upTo target: Int64, _ watches: Watches) {
        targets[ticket.stream] = target
        turns.draw(ticket, watches)
    }

    /// A page was read, and more remains.
    mutating func goOn(_ ticket: Ticket, _ watches: Watches) { turns.draw(ticket, watches) }

    /// A higher offset is known.
    mutating func extend(_ stream: StreamID, upTo offset: Int64) {
        targets[stream] = max(target(of: stream), offset)
    }

    func target(of stream: StreamID) -> Int64 { targets[stream, default: 0] }

    mutating func end(_ stream: StreamID) { targets[stream] = nil }

    mutating func next(_ watches: Watches) -> Ticket? { turns.next(watches) }

    mutating func removeAll() { self = GapRepair() }
}
