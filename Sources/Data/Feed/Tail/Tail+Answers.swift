import Bytes
import Sync

/// What the database answered, and what follows from it.
///
/// Each of these throws `MalformedAnswer` where the answer is not one to the query under way. What was put out before
/// stands, and is not put out again after the reconnect that the caller owes.
extension Tail {
    /// The positions asked for, in the order of the tickets.
    package mutating func positionsReceived(
        _ positions: [StreamPosition], _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        if case .check(let tickets)? = underWay, tickets.count == positions.count {
            underWay = nil
            return checkReceived(tickets, positions, &outputs)
        }
        guard case .positions(let tickets)? = underWay, tickets.count == positions.count else {
            throw MalformedAnswer()
        }
        underWay = nil
        outputs.reserveCapacity(outputs.count + tickets.count)
        for (ticket, position) in zip(tickets, positions) {
            // A later watch of this stream draws its own ticket: its subscriber may know of a commit that this
            // position does not contain.
            guard let place = watches.place(of: ticket.stream) else { continue }
            if watches[place].settle(ticket, position, &outputs) == .healing {
                targets[ticket.stream] = position.offset
                heal(ticket)
            }
        }
    }

    /// All that is new, read in `snapshot`, where the database's epoch was `epoch`.
    package mutating func tailReceived(
        _ page: some EventPage, snapshot: String, epoch: String, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        guard case .tail? = underWay else { throw MalformedAnswer() }
        underWay = nil
        saw(epoch)
        try takeAll(page, isBulk: false, &outputs)
        previous = snapshot
        checkTailEnds()
    }

    /// The epoch of the whole database as a tail shows it. With another one whatever is known is compared, so a bulk under way
    /// is of no use.
    mutating func saw(_ epoch: String) {
        guard epoch != self.epoch else { return }
        self.epoch = epoch
        forgetBulks()
        askAllPositions()
    }

    /// The rows of a page, stream by stream.
    ///
    /// - Parameter isBulk: read on another connection than replays are.
    mutating func takeAll(
        _ page: some EventPage, isBulk: Bool, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        var row = 0
        while row < page.count {
            guard let stream = page.stream(row) else { throw MalformedAnswer() }
            var end = row + 1
            while end < page.count, page.isSameStream(end) { end += 1 }
            if let place = watches.place(of: stream) {
                var watch = watches[place]
                let isSound = take(page, row..<end, stream, &watch, isBulk, &outputs)
                watches[place] = watch
                guard isSound else { throw MalformedAnswer() }
            }
            row = end
        }
    }

    /// A page of a replay.
    package mutating func replayReceived(
        _ page: some EventPage, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        guard case .replay(let ticket, _)? = underWay else { throw MalformedAnswer() }
        underWay = nil
        guard let place = watches.place(of: ticket.stream) else { return }
        var watch = watches[place]
        guard watch.serial == ticket.serial, watch.phase == .healing else { return }
        var isWhole = true
        var isSound = true
        for row in 0..<page.count where isWhole && isSound {
            switch step(page, row, ticket.stream, &watch, &outputs) {
            case .done: break
            case .gap: isWhole = false
            case .malformed: isSound = false
            }
        }
        if !isSound {
            // Still healing: the reconnect checks it again.
        } else if isWhole, page.count >= pageRows {
            heal(ticket)
        } else if isWhole, watch.delivered >= targets[ticket.stream, default: 0] {
            watch.phase = .live
        } else {
            watch.phase = .lapsed
            askPosition(of: watch)
        }
        watches[place] = watch
        if watch.phase != .healing { targets[ticket.stream] = nil }
        guard isSound else { throw MalformedAnswer() }
    }

    // MARK: Steps

    private enum Step { case done, gap, malformed }

    /// The rows of one stream in a page of the tail or of a bulk. False where one is malformed.
    private mutating func take(
        _ page: some EventPage, _ rows: Range<Int>, _ stream: StreamID, _ watch: inout Watch, _ isBulk: Bool,
        _ outputs: inout [FeedOutput]
    ) -> Bool {
        for row in rows {
            switch watch.phase {
            case .positioning, .checking, .lapsed:
                return true
            case .healing where isBulk:
                // Covered by the replay's next page. Not its target: an answer under way may be older than the row.
                return true
            case .healing:
                guard let offset = page.offset(row) else { return false }
                targets[stream] = max(targets[stream, default: 0], offset)
            case .live:
                switch step(page, row, stream, &watch, &outputs) {
                case .done: break
                case .malformed: return false
                case .gap:
                    // The events between are in a bulk that is still being read; nothing else known makes a gap, for the
                    // snapshots rule it out. The log is the judge.
                    watch.phase = .healing
                    targets[stream] = page.offset(row) ?? watch.delivered
                    heal(Ticket(stream, watch.serial))
                }
            }
        }
        return true
    }

    private func step(
        _ page: some EventPage, _ row: Int, _ stream: StreamID, _ watch: inout Watch, _ outputs: inout [FeedOutput]
    ) -> Step {
        guard let offset = page.offset(row) else { return .malformed }
        guard offset > watch.delivered else { return .done }
        guard offset.follows(watch.delivered) else { return .gap }
        guard let event = page.event(row, stream, offset) else { return .malformed }
        outputs.append(.event(event))
        watch.delivered = offset
        return .done
    }
}

extension Tail.Watch {
    /// The position asked for by the ticket has been read. The new phase, where the ticket is this watch's and its
    /// position was awaited.
    fileprivate mutating func settle(
        _ ticket: Ticket, _ position: StreamPosition, _ outputs: inout [FeedOutput]
    ) -> Tail.Phase? {
        guard serial == ticket.serial else { return nil }
        switch phase {
        case .positioning:
            outputs.append(.positioned(ticket.stream, serial: serial, position))
        case .checking where position.life == life && position.offset >= delivered:
            phase = position.offset == delivered ? .live : .healing
            return phase
        case .checking, .lapsed:
            outputs.append(.reset(ticket.stream, position))
        case .live, .healing:
            return nil
        }
        restart(at: position)
        return phase
    }
}
