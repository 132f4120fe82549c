import Bytes
import Sync

/// Decides what to read from the event log and what to deliver. No I/O: `nextQuery` says what to send, one query at a
/// time, and its answer comes back by `positionsReceived`, `tailReceived` or `replayReceived`.
///
/// Four reads, all on one connection, so that the snapshot of each contains that of every earlier one:
/// - the **tail**: exactly what became visible since the snapshot `previous`, for all streams. If that is more than a page,
///   another connection reads it (`Bulks`), and the tail continues behind it;
/// - the **positions** of streams that are newly watched, or watched again after a reconnect;
/// - a **replay**: a stream's events above its delivered offset;
/// - a **check**: the positions of live streams, regularly, against errors in all this (`PositionCheck`).
///
/// Invariant: everything at or below a watch's `delivered` was delivered, or lies below the position of its answer.
/// Everything above will be seen by a later read: for a live stream by the next tail, or by a bulk that waits or is being
/// read; for another stream by the position or replay for which it has a ticket.
///
/// A stream's offsets become visible in order, since its row in `sync.stream` stays locked from numbering to commit. So
/// every snapshot shows an unbroken beginning of each stream's log.
///
/// The worst interleavings, each with its test (`TailTranscripts`), besides the random ones (`TailHistories`):
/// - An old writer commits after others: its events have an old `xid`, and `previous` lists it as running (histories).
/// - A commit falls between the fresh `previous` and the positions after a connect: both see it, and it is delivered once
///   (`commitBetweenSnapshotAndPositionsIsDroppedOnce`). If `previous` were read last, it would be lost.
/// - A tail is read while a position is under way, whose snapshot is older: the event between them would be passed over by
///   that tail, since its watch has no position yet, and the position lies below it. No later tail shows it, so it would be
///   lost until a check. Therefore positions are asked here and not on a pool's connections, and no tail beside them
///   (`aTailWaitsForThePositionsUnderWay`).
/// - A notification comes while a tail is in flight, whose snapshot may be older: read again (`wakeDuringTailReadsAgain`).
/// - A stream is rewatched while its position or replay is in flight: its serial is outdated (`staleAnswersAreIgnored`).
/// - The database's epoch changes between positions and later events: the tail reports the epoch with every page, and all
///   positions are requested before its rows are handled (`newEpochIsSeenWithTheTail`).
/// - Rows come of a stream in replay: its last page is read later (`rowsDuringHealingAreCoveredByTheReplay`).
package struct Tail {
    /// A query to the database.
    package enum Query: Sendable, Equatable {
        /// `sync.positions` of at most `FeedLimits.positionsPerQuery` streams.
        case positions([Ticket])
        /// `sync.positions` of at most as many live streams.
        case check([Ticket])
        /// One page of `sync.replay`.
        case replay(Ticket, after: Int64)
        /// `sync.news`.
        case tail(previous: String)
    }

    /// Which reads may be sent now. Positions always may: they answer single requests and bring no events.
    package struct Permit: OptionSet, Sendable {
        /// One bit for each kind of read.
        package let rawValue: UInt8

        /// The kinds of these bits.
        package init(rawValue: UInt8) {
            self.rawValue = rawValue
        }

        /// What became visible since the last snapshot.
        package static let tail = Permit(rawValue: 1)
        /// Pages of the log.
        package static let replay = Permit(rawValue: 2)
    }

    private let pageRows: Int
    private var watches: Watches
    private var positions = PositionTurns()
    private var healing = GapRepair()
    /// The snapshot up to which the tail has been read, except for bulks; nil while there is no connection.
    private var previous: String?
    /// The database's epoch at the last read. A new one means that every stream may have begun anew.
    package private(set) var epoch = ""
    private var bulks = Bulks()
    /// Something may have been committed since the snapshot of the last tail, read or in flight.
    private var isWoken = false
    private var underWay: Query?
    private var check = PositionCheck()
    /// Streams found behind by checks.
    package private(set) var gapCount = 0
    private var tailWasLast = false

    /// - Parameters:
    ///   - streamsMax: watches at a time; one more is refused.
    ///   - streamsPerUserMax: watches of one user at a time; one more is refused.
    ///   - pageRows: rows of a full page of a replay; fewer rows mean that the replay is complete.
    package init(
        streamsMax: Int = FeedLimits.streamsMax, streamsPerUserMax: Int = FeedLimits.streamsPerUserMax,
        pageRows: Int = FeedLimits.pageRows
    ) {
        watches = Watches(streamsMax: streamsMax, streamsPerUserMax: streamsPerUserMax)
        self.pageRows = pageRows
    }

    /// Streams watched.
    package var streamCount: Int { watches.count }
    /// Tickets that wait, including those of ended watches.
    package var waitingTickets: Int { positions.count + healing.waiting }
    /// Those of them that wait for their positions.
    package var waitingPositions: Int { positions.count }
    /// Whether this watch of the stream is still active.
    package func isWatched(_ stream: StreamID, serial: UInt32) -> Bool { watches[stream]?.serial == serial }
    /// Whether a bulk is being read or waits.
    package var hasBulk: Bool { !bulks.isEmpty }
    /// The bulk that is being read.
    package var bulk: Bulk? { bulks.current }
    /// The number of lots in one round of checks.
    package var checkLots: Int {
        max(1, (watches.count + FeedLimits.positionsPerQuery - 1) / FeedLimits.positionsPerQuery)
    }
    /// Whether a query is in flight.
    package var isBusy: Bool { underWay != nil }
    /// Whether a tail should be read, if permitted.
    package var wantsTail: Bool { previous != nil && isWoken }
    /// Whether all watched streams have been compared with the database and healed since the connect.
    package var isCaughtUp: Bool {
        guard previous != nil, waitingTickets == 0 else { return false }
        switch underWay {
        case nil, .tail?, .check?: return true
        case .positions?, .replay?: return false
        }
    }

    // MARK: Requests

    /// An owning loop wants the stream, from the position in the answer.
    ///
    /// - Parameter isBack: whether a client is back with a position in the stream.
    package mutating func watch(
        _ stream: StreamID, serial: UInt32, isBack: Bool = false, _ outputs: inout [FeedOutput]
    ) {
        if let refusal = watches.begin(stream, serial: serial, isBack: isBack) {
            return outputs.append(.refused(stream, serial: serial, refusal))
        }
        healing.end(stream)
        // Without a connection there is no queue: `connected` requests all positions.
        if previous != nil, let watch = watches[stream] { positions.draw(for: watch, watches) }
    }

    /// The owning loop no longer needs the stream.
    package mutating func unwatch(_ stream: StreamID) {
        healing.end(stream)
        watches.end(stream)
    }

    // MARK: The connection

    /// A connection is up. `snapshot` and `epoch` were read on it before anything else.
    package mutating func connected(snapshot: String, epoch: String) {
        disconnected()
        previous = snapshot
        self.epoch = epoch
        isWoken = true
        askAllPositions()
    }

    /// Compares all streams with the database; the answers cover rows that come meanwhile.
    ///
    /// Earlier tickets are dropped: a bulk that fails again and again would otherwise queue all watches each time, and
    /// delay them for ever (`bulksThatFailDrawNoTicketTwice`).
    private mutating func askAllPositions() {
        positions.removeAll()
        healing.removeAll()
        for index in 0..<watches.count {
            let phase = watches[index].phase
            if phase == .live || phase == .healing { watches[index].phase = .checking }
            positions.draw(for: watches[index], watches)
        }
    }

    /// The connection was lost, and with it the answer in flight.
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

    /// A notification has come, or the poll is due.
    package mutating func wake() {
        // Also while a tail is in flight: its snapshot may be older than the commit that woke us.
        isWoken = true
    }

    /// The next query; nil while one is in flight, or if nothing should be read.
    ///
    /// Positions go before replays, replays before checks, checks before the tail. But a tail that is wanted gets every
    /// other turn, so neither a rush of new watches nor a long healing delays the live streams by more than one query.
    ///
    /// - Parameter fewestPositions: positions are asked for only where at least so many wait (`PositionPace`).
    package mutating func nextQuery(_ permit: Permit, fewestPositions: Int = 1) -> Query? {
        guard underWay == nil, let previous else { return nil }
        let tailIsDue = wantsTail && permit.contains(.tail)
        if !(tailIsDue && !tailWasLast) {
            tailWasLast = false
            if let query = nextPositions(fewestPositions) ?? (permit.contains(.replay) ? nextReplay() : nil)
                ?? nextCheck()
            {
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

    private mutating func nextPositions(_ fewest: Int) -> Query? {
        guard positions.count >= fewest else { return nil }
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

    // Each of these throws `MalformedAnswer` if the answer does not fit the query in flight. Outputs made before stand, and
    // are not repeated after the reconnect that the caller must make.

    /// The requested positions, in the order of the tickets.
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
            // A later watch has its own ticket: its subscriber may know of a commit that this position lacks.
            guard let index = watches.index(of: ticket.stream) else { continue }
            let epoch = watches.number(of: position.epoch)
            if watches[index].settle(ticket, position, in: epoch, &outputs) == .healing {
                healing.begin(ticket, upTo: position.offset, watches)
            }
        }
    }

    /// All news since `previous`, read in `snapshot`, with the database's epoch.
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

    /// The database's epoch by a tail. If it is new, all streams are compared, and bulks are no longer needed.
    private mutating func saw(_ epoch: String) {
        guard epoch != self.epoch else { return }
        self.epoch = epoch
        bulks.forget()
        askAllPositions()
    }

    /// Handles a page's rows, stream by stream.
    ///
    /// - Parameter isBulk: whether the page was read on another connection than replays are.
    private mutating func takeAll(
        _ page: some EventPage, isBulk: Bool, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        var row = 0
        while row < page.count {
            guard let stream = page.stream(row) else { throw MalformedAnswer() }
            var end = row + 1
            while end < page.count, page.isSameStream(end) { end += 1 }
            if let index = watches.index(of: stream) {
                var watch = watches[index]
                let isSound = take(page, row..<end, &watch, isBulk, &outputs)
                watches[index] = watch
                guard isSound else { throw MalformedAnswer() }
            }
            row = end
        }
    }

    /// A page of the replay in flight.
    package mutating func replayReceived(
        _ page: some EventPage, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        guard case .replay(let ticket, _)? = underWay else { throw MalformedAnswer() }
        underWay = nil
        guard let index = watches.index(of: ticket), watches[index].phase == .healing else { return }
        var watch = watches[index]
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
        watches[index] = watch
        if watch.phase != .healing { healing.end(ticket.stream) }
        guard isSound else { throw MalformedAnswer() }
    }

    /// Handles the rows of one stream in a page of the tail or of a bulk. Returns false if one is malformed.
    private mutating func take(
        _ page: some EventPage, _ rows: Range<Int>, _ watch: inout Watch, _ isBulk: Bool, _ outputs: inout [FeedOutput]
    ) -> Bool {
        for row in rows {
            switch watch.phase {
            case .positioning, .checking, .lapsed:
                return true
            case .healing where isBulk:
                // The replay's next page covers it. The target stays, since an answer in flight may be older than the row.
                return true
            case .healing:
                guard let offset = page.offset(row) else { return false }
                healing.extend(watch.stream, upTo: offset)
            case .live:
                switch watch.take(page, row, &outputs) {
                case .done: break
                case .malformed: return false
                case .gap:
                    // A bulk in progress has the missing events; snapshots rule out other known gaps. The log decides.
                    watch.phase = .healing
                    let ticket = Ticket(watch.stream, watch.serial)
                    healing.begin(ticket, upTo: page.offset(row) ?? watch.delivered, watches)
                }
            }
        }
        return true
    }

    /// After a tail or bulk: heals streams that the check found behind and that still are. Events in bulks raise no alarm.
    private mutating func tailEnded() {
        guard bulks.isEmpty else { return }
        // A bulk may end while the first tail since the positions is still in flight.
        if case .tail? = underWay { return }
        for (ticket, position) in check.tailEnded() {
            guard let index = watches.index(of: ticket), watches[index].phase == .live,
                watches[index].delivered < position
            else { continue }
            gapCount += 1
            watches[index].phase = .healing
            healing.begin(ticket, upTo: position, watches)
        }
    }

    // MARK: Bulks

    /// The news since `previous` are more than a page: all that `snapshot` shows, with the database's epoch.
    package mutating func tailOverflowed(snapshot: String, epoch: String) throws(MalformedAnswer) {
        guard case .tail? = underWay, let previous else { throw MalformedAnswer() }
        underWay = nil
        self.previous = snapshot
        // If the epoch is new, the positions requested now are read later than this snapshot.
        if epoch == self.epoch { bulks.add(previous: previous, upTo: snapshot) } else { saw(epoch) }
    }

    /// Starts the next bulk; nil if there is none or one is being read.
    package mutating func nextBulk() -> Bulk? { bulks.begin() }

    /// A page of the bulk with that number, ordered by stream and offset. Ignored if that bulk is not being read.
    package mutating func bulkReceived(
        _ page: some EventPage, of number: UInt64, _ outputs: inout [FeedOutput]
    ) throws(MalformedAnswer) {
        if bulk?.number == number { try takeAll(page, isBulk: true, &outputs) }
    }

    /// The bulk was read to its end.
    package mutating func bulkEnded(_ number: UInt64) {
        guard bulk?.number == number else { return }
        bulks.end()
        tailEnded()
    }

    /// The bulk could not be read to its end, or has another epoch than the tail.
    package mutating func bulkFailed(_ number: UInt64) {
        guard bulk?.number == number else { return }
        bulks.forget()
        askAllPositions()
        tailEnded()
    }

    // MARK: Checks

    /// The next lot of streams should be checked.
    package mutating func checkDue() {
        if previous != nil, watches.count > 0 { check.isDue() }
    }

    /// Another reader saw the stream in a new epoch: its position is requested at once.
    package mutating func suspected(_ stream: StreamID, otherThan epoch: Epoch) {
        let number = watches.number(of: epoch)
        guard previous != nil, let index = watches.index(of: stream), watches[index].phase == .live,
            watches[index].isIn(number)
        else { return }
        watches[index].phase = .checking
        positions.draw(for: watches[index], watches)
    }
}

/// What a row of an event page was to its watch: delivered or known, beyond a gap, or unreadable.
private enum Step { case done, gap, malformed }

extension Watch {
    /// Delivers the row if it is the stream's next event.
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
