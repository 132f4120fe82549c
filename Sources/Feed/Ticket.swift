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

/// Tickets in the order in which they were drawn.
///
/// Tickets of watches that have ended stay until their turn; `Tail` sweeps where they come to outnumber its streams,
/// so that the queue stays within twice the bound on streams, and a little.
struct TicketQueue {
    private var tickets: ContiguousArray<Ticket> = []
    private var head = 0

    var count: Int { tickets.count - head }
    var isEmpty: Bool { head == tickets.count }

    mutating func append(_ ticket: Ticket) {
        tickets.append(ticket)
    }

    mutating func popFirst() -> Ticket? {
        guard head < tickets.count else { return nil }
        let ticket = tickets[head]
        head += 1
        if head == tickets.count {
            removeAll()
        } else if head >= 1_024, head * 2 >= tickets.count {
            tickets.removeFirst(head)
            head = 0
        }
        return ticket
    }

    mutating func removeAll() {
        tickets.removeAll(keepingCapacity: tickets.capacity <= 4_096)
        head = 0
    }

    mutating func sweep(keeping isGood: (Ticket) -> Bool) {
        tickets.removeFirst(head)
        head = 0
        tickets.removeAll { !isGood($0) }
    }
}
