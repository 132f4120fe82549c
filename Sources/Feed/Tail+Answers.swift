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
        guard case .positions(let tickets)? = underWay, tickets.count == positions.count else {
            throw MalformedAnswer()
        }
        underWay = nil
        for (ticket, position) in zip(tickets, positions) {
            // A later watch of this stream draws its own ticket: its subscriber may know of a commit that this
            // position does not contain.
            guard var watch = watches[ticket.stream], watch.serial == ticket.serial else { continue }
            settle(ticket, &watch, position, &outputs)
            watches[ticket.stream] = watch
        }
    }

    /// A page of the tail, read in `snapshot`.
    package mutating func tailReceived(
        _ page: some EventPage, snapshot: String, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        guard case .tail? = underWay else { throw MalformedAnswer() }
        underWay = nil
        var row = 0
        while row < page.count {
            guard let stream = page.stream(row) else { throw MalformedAnswer() }
            var end = row + 1
            while end < page.count, page.isSameStream(end) { end += 1 }
            if var watch = watches[stream] {
                let isSound = take(page, row..<end, stream, &watch, &outputs)
                watches[stream] = watch
                guard isSound else { throw MalformedAnswer() }
            }
            row = end
        }
        let first = run?.first ?? snapshot
        if page.count >= pageRows {
            guard let stream = page.stream(page.count - 1), let offset = page.offset(page.count - 1) else {
                throw MalformedAnswer()
            }
            run = Run(first: first, after: Place(stream: stream, offset: offset))
        } else {
            run = nil
            previous = first
        }
    }

    /// A page of a replay.
    package mutating func replayReceived(
        _ page: some EventPage, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        guard case .replay(let ticket, _)? = underWay else { throw MalformedAnswer() }
        underWay = nil
        guard var watch = watches[ticket.stream], watch.serial == ticket.serial, watch.phase == .healing else { return }
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
            draw(ticket, \.toHeal)
        } else if isWhole, watch.delivered >= watch.target {
            watch.phase = .live
        } else {
            watch.phase = .lapsed
            draw(ticket, \.toPosition)
        }
        watches[ticket.stream] = watch
        guard isSound else { throw MalformedAnswer() }
    }

    // MARK: Steps

    private enum Step { case done, gap, malformed }

    private mutating func settle(
        _ ticket: Ticket, _ watch: inout Watch, _ position: StreamPosition, _ outputs: inout [FeedOutput]
    ) {
        switch watch.phase {
        case .positioning:
            outputs.append(.positioned(ticket.stream, serial: ticket.serial, position))
        case .checking where position.epoch == watch.epoch && position.offset >= watch.delivered:
            watch.target = position.offset
            watch.phase = position.offset == watch.delivered ? .live : .healing
            if watch.phase == .healing { draw(ticket, \.toHeal) }
            return
        case .checking, .lapsed:
            outputs.append(.reset(ticket.stream, position))
        case .live, .healing:
            return
        }
        watch.epoch = position.epoch
        watch.delivered = position.offset
        watch.phase = .live
    }

    /// The rows of one stream in a page of the tail. False where one is malformed.
    private mutating func take(
        _ page: some EventPage, _ rows: Range<Int>, _ stream: StreamID, _ watch: inout Watch,
        _ outputs: inout [FeedOutput]
    ) -> Bool {
        for row in rows {
            switch watch.phase {
            case .positioning, .checking, .lapsed:
                return true
            case .healing:
                guard let offset = page.offset(row) else { return false }
                watch.target = max(watch.target, offset)
            case .live:
                switch step(page, row, stream, &watch, &outputs) {
                case .done: break
                case .malformed: return false
                case .gap:
                    // Nothing known makes one: the snapshots rule it out. The log is the judge.
                    watch.phase = .healing
                    watch.target = page.offset(row) ?? watch.delivered
                    draw(Ticket(stream, watch.serial), \.toHeal)
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
        guard offset - 1 == watch.delivered else { return .gap }
        guard let event = page.event(row, stream, offset) else { return .malformed }
        outputs.append(.event(event))
        watch.delivered = offset
        return .done
    }
}
