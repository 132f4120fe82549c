import Bytes
import Sync

/// Decides what to read from the outbox and what to hand over. Performs no I/O: `nextQuery` says what to send, one
/// query at a time, and its answer comes back by `positionsReceived`, `tailReceived` or `replayReceived`.
///
/// Four reads, all on one connection, so that the snapshot of each contains that of every one before it:
/// - the **tail**: exactly what became visible since the snapshot `previous`, for all streams, or the word that it is more
///   than a page: that is left to another connection (`Bulks`), and the tail goes on behind it;
/// - the **positions** of streams that are newly watched, or watched again after a reconnect;
/// - a **replay**: a stream's events above what has been delivered of it;
/// - a **check**: the positions of live streams, now and then, against errors in all this (`PositionCheck`).
///
/// Invariant: everything at or below a watch's `delivered` has been handed over or lies before the position it was
/// answered with, and what lies above is visible to a read to come: the next tail, or the bulk that waits or is being read,
/// where the stream is live; else the position or replay for which a ticket is drawn.
///
/// A stream's numbers become visible in their order, for its row in `sync.stream` stays locked from numbering to
/// commit, so of each stream any snapshot shows a whole beginning of the log.
///
/// The worst interleavings, each with its test (`TailTranscripts`), besides the random ones (`TailHistories`):
/// - a writer that began long ago commits after others: its events have an old `xid`, and `previous` lists it as
///   running (histories);
/// - a commit between the fresh `previous` and the positions read after a connect: seen by both, delivered once
///   (`commitBetweenSnapshotAndPositionsIsDroppedOnce`); were `previous` read after the positions, it would be lost;
/// - a notification while a tail is being read, whose snapshot may be older: read again (`wakeDuringTailReadsAgain`);
/// - unwatched and watched again while the position read or the replay is under way: the answer is of an older serial
///   (`staleAnswersAreIgnored`);
/// - a new epoch of the whole database between positions and events that are read after it: the tail tells the epoch
///   with every page, and all streams are asked about before its rows are looked at (`newEpochIsSeenWithTheTail`);
/// - rows of a stream that is being replayed: the replay's last page is read later than they were, and covers them
///   (`rowsDuringHealingAreCoveredByTheReplay`).
package struct Tail {
    /// What to send to the database.
    package enum Query: Sendable, Equatable {
        /// `sync.positions`, at most `FeedLimits.positionsPerQuery` of them.
        case positions([Ticket])
        /// `sync.positions` of live streams, as many at most.
        case check([Ticket])
        /// `sync.replay`, one page of it.
        case replay(Ticket, after: Int64)
        /// `sync.news`.
        case tail(previous: String)
    }

    /// Which reads may be sent now. Positions always may: they answer requests one by one and bring no events.
    package struct Permit: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) {
            self.rawValue = rawValue
        }

        package static let tail = Permit(rawValue: 1)
        package static let replay = Permit(rawValue: 2)
    }

    private let pageRows: Int
    private var watches: Watches
    private var positions = PositionTurns()
    private var healing = Healing()
    /// The snapshot up to which the tail has been read, but for bulks; nil while there is no connection.
    private var previous: String?
    /// The database's epoch as of the read before; another one means that every stream may have begun anew.
    package private(set) var epoch = ""
    private var bulks = Bulks()
    /// Something may have been committed since the snapshot of the tail read last, or under way.
    private var isWoken = false
    private var underWay: Query?
    private var check = PositionCheck()
    /// Streams found behind by checks.
    package private(set) var gapCount = 0
    private var tailWasLast = false

    /// - Parameters:
    ///   - streamsMax: watches at a time; one more is refused.
    ///   - streamsPerUserMax: the same of one user.
    ///   - pageRows: rows that a full page of a replay has; fewer mean that it has come to its end.
    package init(
        streamsMax: Int = FeedLimits.streamsMax, streamsPerUserMax: Int = FeedLimits.streamsPerUserMax,
        pageRows: Int = FeedLimits.pageRows
    ) {
        watches = Watches(streamsMax: streamsMax, streamsPerUserMax: streamsPerUserMax)
        self.pageRows = pageRows
    }

    /// Streams watched.
    package var streamCount: Int { watches.count }
    /// Tickets waiting for their turn, those of ended watches among them.
    package var waitingTickets: Int { positions.count + healing.waiting }
    /// Whether this watch of the stream has not ended.
    package func isWatched(_ stream: StreamID, serial: UInt32) -> Bool { watches[stream]?.serial == serial }
    /// Whether a bulk is being read, or waits.
    package var hasBulk: Bool { !bulks.isEmpty }
    /// The bulk that is being read.
    package var bulk: Bulk? { bulks.current }
    /// Lots that one round of checks takes: their number tells how often one is due.
    package var checkLots: Int {
        max(1, (watches.count + FeedLimits.positionsPerQuery - 1) / FeedLimits.positionsPerQuery)
    }
    /// Whether a query's answer is awaited.
    package var isBusy: Bool { underWay != nil }
    /// Whether a tail would be read now, if that were permitted.
    package var wantsTail: Bool { previous != nil && isWoken }
    /// Whether all that was watched has been compared with the database and healed since the connect.
    package var isCaughtUp: Bool {
        guard previous != nil, waitingTickets == 0 else { return false }
        switch underWay {
        case nil, .tail?, .check?: return true
        case .positions?, .replay?: return false
        }
    }

    // MARK: Requests

    /// An owning loop wants the stream, from the position that the answer will carry.
    package mutating func watch(_ stream: StreamID, serial: UInt32, _ outputs: inout [FeedOutput]) {
        if let refusal = watches.begin(stream, serial: serial) {
            return outputs.append(.refused(stream, serial: serial, refusal))
        }
        healing.end(stream)
        // Without a connection there is no queue to wait in: `connected` asks for all.
        if previous != nil, let watch = watches[stream] { positions.draw(for: watch, watches) }
    }

    /// The owning loop has nobody left who wants it.
    package mutating func unwatch(_ stream: StreamID) {
        healing.end(stream)
        watches.end(stream)
    }

    // MARK: The connection

    /// A connection is there and has told its present snapshot and the epoch seen in it, before anything else was read.
    package mutating func connected(snapshot: String, epoch: String) {
        disconnected()
        previous = snapshot
        self.epoch = epoch
        isWoken = true
        askAllPositions()
    }

    /// Whatever is known of any stream is compared with the database: rows are covered by its answers.
    ///
    /// The tickets drawn before are of no use then, and they go: a bulk that fails again and again would else add all
    /// watches to the queues each time, and put them off for ever (`bulksThatFailDrawNoTicketTwice`).
    private mutating func askAllPositions() {
        positions.removeAll()
        healing.removeAll()
        for place in 0..<watches.count {
            let phase = watches[place].phase
            if phase == .live || phase == .healing { watches[place].phase = .checking }
            positions.draw(for: watches[place], watches)
        }
    }

    /// The connection is gone, and with it the answer to the query under way.
    package mutating func disconnected() {
        previous = nil
        bulks.forget()
        underWay = nil
        isWoken = false
        tailWasLast = false
        check.stop()
        positions.removeAll()
        healing.removeAll()
    }

    /// A notification has come, or the time to look without one.
    package mutating func wake() {
        // Also while a tail is under way: its snapshot may be older than the commit that woke us.
        isWoken = true
    }

    /// What to send next; `nil` while an answer is awaited, or where nothing is to be read.
    ///
    /// Positions before replays before checks before the tail, except that a tail that is wanted gets every other turn:
    /// neither a rush of new watches nor a long healing delays the live streams by more than one query.
    package mutating func nextQuery(_ permit: Permit) -> Query? {
        guard underWay == nil, let previous else { return nil }
        let tailIsDue = wantsTail && permit.contains(.tail)
        if !(tailIsDue && !tailWasLast) {
            tailWasLast = false
            if let query = nextPositions() ?? (permit.contains(.replay) ? nextReplay() : nil) ?? nextCheck() {
                underWay = query
                return query
            }
        }
        guard tailIsDue else { return nil }
        isWoken = false
        check.tailBegins()
        tailWasLast = true
        underWay = .tail(previous: previous)
        return underWay
    }

    private mutating func nextPositions() -> Query? {
        let tickets = positions.next(watches)
        return tickets.isEmpty ? nil : .positions(tickets)
    }

    private mutating func nextReplay() -> Query? {
        healing.next(watches).map { .replay($0, after: watches[$0.stream]?.delivered ?? 0) }
    }

    private mutating func nextCheck() -> Query? {
        let tickets = check.next(watches)
        return tickets.isEmpty ? nil : .check(tickets)
    }

    // MARK: Answers

    // Each of these throws `MalformedAnswer` where the answer is not one to the query under way. What was put out before
    // stands, and is not put out again after the reconnect that the caller owes.

    /// The positions asked for, in the order of the tickets.
    package mutating func positionsReceived(
        _ positions: [StreamPosition], _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        if case .check(let tickets)? = underWay, tickets.count == positions.count {
            underWay = nil
            if check.received(tickets, positions, &watches, &outputs) { isWoken = true }
            return
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
                healing.begin(ticket, upTo: position.offset, watches)
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
        tailEnded()
    }

    /// The epoch of the whole database as a tail shows it. With another one whatever is known is compared, so a bulk under way
    /// is of no use.
    private mutating func saw(_ epoch: String) {
        guard epoch != self.epoch else { return }
        self.epoch = epoch
        bulks.forget()
        askAllPositions()
    }

    /// The rows of a page, stream by stream.
    ///
    /// - Parameter isBulk: read on another connection than replays are.
    private mutating func takeAll(
        _ page: some EventPage, isBulk: Bool, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        var row = 0
        while row < page.count {
            guard let stream = page.stream(row) else { throw MalformedAnswer() }
            var end = row + 1
            while end < page.count, page.isSameStream(end) { end += 1 }
            if let place = watches.place(of: stream) {
                var watch = watches[place]
                let isSound = take(page, row..<end, &watch, isBulk, &outputs)
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
        guard let place = watches.place(of: ticket), watches[place].phase == .healing else { return }
        var watch = watches[place]
        var isWhole = true
        var isSound = true
        for row in 0..<page.count where isWhole && isSound {
            switch watch.take(page, row, &outputs) {
            case .done: break
            case .gap: isWhole = false
            case .malformed: isSound = false
            }
        }
        if !isSound {
            // Still healing: the reconnect checks it again.
        } else if isWhole, page.count >= pageRows {
            healing.goOn(ticket, watches)
        } else if isWhole, watch.delivered >= healing.target(of: ticket.stream) {
            watch.phase = .live
        } else {
            watch.phase = .lapsed
            positions.draw(for: watch, watches)
        }
        watches[place] = watch
        if watch.phase != .healing { healing.end(ticket.stream) }
        guard isSound else { throw MalformedAnswer() }
    }

    /// The rows of one stream in a page of the tail or of a bulk. False where one is malformed.
    private mutating func take(
        _ page: some EventPage, _ rows: Range<Int>, _ watch: inout Watch, _ isBulk: Bool, _ outputs: inout [FeedOutput]
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
                healing.extend(watch.stream, upTo: offset)
            case .live:
                switch watch.take(page, row, &outputs) {
                case .done: break
                case .malformed: return false
                case .gap:
                    // The events between are in a bulk that is still being read; nothing else known makes a gap, for the
                    // snapshots rule it out. The log is the judge.
                    watch.phase = .healing
                    let ticket = Ticket(watch.stream, watch.serial)
                    healing.begin(ticket, upTo: page.offset(row) ?? watch.delivered, watches)
                }
            }
        }
        return true
    }

    /// A tail has ended, or a bulk: what the position check found behind before, and still is, is healed. What lies in bulks is
    /// late, and no alarm.
    private mutating func tailEnded() {
        guard bulks.isEmpty else { return }
        // A bulk ends while the tail is still under way, which may be the first since the positions.
        if case .tail? = underWay { return }
        for (ticket, position) in check.tailEnded() {
            guard let place = watches.place(of: ticket), watches[place].phase == .live,
                watches[place].delivered < position
            else { continue }
            gapCount += 1
            watches[place].phase = .healing
            healing.begin(ticket, upTo: position, watches)
        }
    }

    // MARK: Bulks

    /// More is new than a page has: all that `snapshot` shows since `previous`, where the database's epoch was `epoch`.
    package mutating func tailOverflowed(snapshot: String, epoch: String) throws(MalformedAnswer) {
        guard case .tail? = underWay, let previous else { throw MalformedAnswer() }
        underWay = nil
        self.previous = snapshot
        // With another epoch, the positions that are asked now are read later than this.
        if epoch == self.epoch { bulks.add(previous: previous, upTo: snapshot) } else { saw(epoch) }
    }

    /// The bulk to read next, from now on under way; nil for none, or while another one is.
    package mutating func nextBulk() -> Bulk? { bulks.begin() }

    /// A page of the bulk of that number, in the order of its streams and offsets. Nothing for one that is not under way.
    package mutating func bulkReceived(
        _ page: some EventPage, of number: UInt64, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        if bulk?.number == number { try takeAll(page, isBulk: true, &outputs) }
    }

    /// All of it was received.
    package mutating func bulkEnded(_ number: UInt64) {
        guard bulk?.number == number else { return }
        bulks.end()
        tailEnded()
    }

    /// It was not read, or not to its end, or shows another epoch than the tail has.
    package mutating func bulkFailed(_ number: UInt64) {
        guard bulk?.number == number else { return }
        bulks.forget()
        askAllPositions()
        tailEnded()
    }

    // MARK: Checks

    /// The time has come to check the next lot of streams.
    package mutating func checkDue() {
        if previous != nil, watches.count > 0 { check.isDue() }
    }

    /// Something else has seen the stream in another epoch: it is asked about at once.
    package mutating func suspected(_ stream: StreamID, otherThan epoch: Epoch) {
        guard previous != nil, let place = watches.place(of: stream), watches[place].phase == .live,
            watches[place].epoch == epoch
        else { return }
        watches[place].phase = .checking
        positions.draw(for: watches[place], watches)
    }
}

private enum Step { case done, gap, malformed }

extension Watch {
    /// Hands the row over where it is the next of the stream.
    fileprivate mutating func take(_ page: some EventPage, _ row: Int, _ outputs: inout [FeedOutput]) -> Step {
        guard let offset = page.offset(row) else { return .malformed }
        guard offset > delivered else { return .done }
        guard offset.follows(delivered) else { return .gap }
        guard let event = page.event(row, stream, offset) else { return .malformed }
        outputs.append(.event(event))
        delivered = offset
        return .done
    }
}
