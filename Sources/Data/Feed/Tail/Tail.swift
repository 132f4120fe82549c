import Bytes
import Sync

/// Decides what to read from the outbox and what to hand over. Performs no I/O: `nextQuery` says what to send, one
/// query at a time, and its answer comes back by `positionsReceived`, `tailReceived` or `replayReceived`.
///
/// Four reads, all on one connection, so that the snapshot of each contains that of every one before it:
/// - the **tail**: exactly what became visible since the snapshot `previous`, for all streams, or the word that it is more
///   than a page: that is left to another connection (`Tail+Bulk`), and the tail goes on behind it;
/// - the **positions** of streams that are newly watched, or watched again after a reconnect;
/// - a **replay**: a stream's events above what has been delivered of it;
/// - a **check**: the positions of live streams, now and then, against errors in all this (`Tail+Check`).
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

    /// Valid transitions: positioning → live; live ⇄ healing; healing → lapsed → live; live → live at another epoch;
    /// at a reconnect live, healing → checking, and from there live or healing.
    enum Phase {
        /// Newly watched; rows are covered by the position to come.
        case positioning
        /// After a reconnect; rows are covered by the position to come and the replay up to it.
        case checking
        /// Rows of the tail are delivered.
        case live
        /// Being replayed; rows are covered by the replay.
        case healing
        /// What should come next is not in the log any more: starts anew at its position, with a reset.
        case lapsed
    }

    struct Watch: TableEntry {
        // Small, for a hub has one for each stream of each user.
        let stream: StreamID
        let serial: UInt32
        var phase = Phase.positioning
        /// Whether its user had `FeedLimits.streamsInFront` others when it was watched.
        var isBehind = false
        var delivered: Int64 = 0
        /// Of what; nil before the position is known.
        var life: Epoch?

        var key: StreamID { stream }
    }

    private let streamsMax: Int
    private let streamsPerUserMax: Int
    let pageRows: Int
    var watches = KeyedTable<Watch>()
    /// How many watches each user has, by a keyed hash of the id: two users that share one, of 2^64, share the bound.
    private var watchesOfUsers: [UInt64: Int32] = [:]
    /// Of streams that are healing, and no others: the highest offset known of. A replay that ends below it found the log cut.
    var targets: [StreamID: Int64] = [:]
    /// Tickets in the order in which they were drawn. Those of watches that have ended stay until their turn, or until most
    /// are such (`draw`).
    var toPosition = Fifo<Ticket>()
    /// Tickets of users who have many streams, all but the first of each user, in the order in which they were drawn. One
    /// user's thousands delay another user's one by no more than `positionsBehind` of a query
    /// (`oneUsersStreamsDoNotDelayAnothers`).
    var toPositionBehind = Fifo<Ticket>()
    var toHeal = Fifo<Ticket>()
    /// The snapshot up to which the tail has been read, but for bulks; nil while there is no connection.
    var previous: String?
    /// The database's epoch as of the read before; another one means that every stream may have begun anew.
    package internal(set) var epoch = ""
    /// The bulk that is being read, and what lies behind it and is more than a page again.
    package internal(set) var bulk: Bulk?
    var nextInLine: Bulk?
    var lastBulk: UInt64 = 0
    /// Something may have been committed since the snapshot of the tail read last, or under way.
    var isWoken = false
    var underWay: Query?
    /// Watches at places below this one have still to be looked at in this round of checks. From the end on: whichever
    /// watch takes the place of one that ends has had its turn, or has it still.
    var checkedFrom = 0
    var check = Check.idle
    /// Streams found behind by checks.
    package internal(set) var gapCount = 0
    private var tailWasLast = false

    /// - Parameters:
    ///   - streamsMax: watches at a time; one more is refused.
    ///   - streamsPerUserMax: the same of one user.
    ///   - pageRows: rows that a full page of a replay has; fewer mean that it has come to its end.
    package init(
        streamsMax: Int = FeedLimits.streamsMax, streamsPerUserMax: Int = FeedLimits.streamsPerUserMax,
        pageRows: Int = FeedLimits.pageRows
    ) {
        self.streamsMax = streamsMax
        self.streamsPerUserMax = streamsPerUserMax
        self.pageRows = pageRows
    }

    /// Streams watched.
    package var streamCount: Int { watches.count }
    /// Tickets waiting for their turn, those of ended watches among them.
    package var waitingTickets: Int { toPosition.count + toPositionBehind.count + toHeal.count }
    /// Whether this watch of the stream has not ended.
    package func isWatched(_ stream: StreamID, serial: UInt32) -> Bool { watches[stream]?.serial == serial }
    /// Whether a query's answer is awaited.
    package var isBusy: Bool { underWay != nil }
    /// Whether a tail would be read now, if that were permitted.
    package var wantsTail: Bool { previous != nil && isWoken }
    /// Whether all that was watched has been compared with the database and healed since the connect.
    package var isCaughtUp: Bool {
        guard previous != nil, toPosition.isEmpty, toPositionBehind.isEmpty, toHeal.isEmpty else { return false }
        switch underWay {
        case nil, .tail?, .check?: return true
        case .positions?, .replay?: return false
        }
    }

    // MARK: Requests

    /// A home loop wants the stream, from the position that the answer will carry.
    package mutating func watch(_ stream: StreamID, serial: UInt32, _ outputs: inout [FeedOutput]) {
        // PostgreSQL's text holds no NUL, so such a stream can have no events, nor be asked about.
        let isNameable =
            stream.withUser { $0.firstIndex(of: 0, from: 0) == nil }
            && stream.withTopic { $0.firstIndex(of: 0, from: 0) == nil }
        guard isNameable else { return outputs.append(.refused(stream, serial: serial, .notNameable)) }
        var watch = Watch(stream: stream, serial: serial)
        if let place = watches.place(of: stream) {
            watch.isBehind = watches[place].isBehind
            watches[place] = watch
            targets[stream] = nil
        } else {
            let user = Self.code(ofUser: stream)
            let others = Int(watchesOfUsers[user] ?? 0)
            guard others < streamsPerUserMax else {
                return outputs.append(.refused(stream, serial: serial, .userFull))
            }
            guard watches.count < streamsMax else {
                return outputs.append(.refused(stream, serial: serial, .hubFull))
            }
            watchesOfUsers[user] = Int32(clamping: others + 1)
            watch.isBehind = others >= FeedLimits.streamsInFront
            _ = watches.insert(watch)
        }
        // Without a connection there is no queue to wait in: `connected` asks for all.
        if previous != nil { askPosition(of: watch) }
    }

    /// The home loop has nobody left who wants it.
    package mutating func unwatch(_ stream: StreamID) {
        targets[stream] = nil
        guard watches.remove(stream) != nil else { return }
        let user = Self.code(ofUser: stream)
        let left = (watchesOfUsers[user] ?? 1) - 1
        watchesOfUsers[user] = left > 0 ? left : nil
    }

    private static func code(ofUser stream: StreamID) -> UInt64 { stream.withUser { KeyedHash.hash($0) } }

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
    mutating func askAllPositions() {
        toPosition.removeAll()
        toPositionBehind.removeAll()
        toHeal.removeAll()
        for place in watches.entries.indices {
            let watch = watches[place]
            if watch.phase == .live || watch.phase == .healing { watches[place].phase = .checking }
            askPosition(of: watch)
        }
        targets.removeAll()
    }

    /// The connection is gone, and with it the answer to the query under way.
    package mutating func disconnected() {
        previous = nil
        bulk = nil
        nextInLine = nil
        underWay = nil
        isWoken = false
        tailWasLast = false
        check = .idle
        toPosition.removeAll()
        toPositionBehind.removeAll()
        toHeal.removeAll()
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
        checkTailBegins()
        tailWasLast = true
        underWay = .tail(previous: previous)
        return underWay
    }

    // MARK: Steps

    private mutating func nextPositions() -> Query? {
        var tickets: [Ticket] = []
        tickets.reserveCapacity(min(toPosition.count + toPositionBehind.count, FeedLimits.positionsPerQuery))
        Self.take(from: &toPositionBehind, watches, upTo: Self.positionsBehind, &tickets)
        Self.take(from: &toPosition, watches, upTo: FeedLimits.positionsPerQuery, &tickets)
        Self.take(from: &toPositionBehind, watches, upTo: FeedLimits.positionsPerQuery, &tickets)
        return tickets.isEmpty ? nil : .positions(tickets)
    }

    /// What a query has of users with many streams where others wait, too.
    private static let positionsBehind = FeedLimits.positionsPerQuery / 8

    private static func take(
        from queue: inout Fifo<Ticket>, _ watches: KeyedTable<Watch>, upTo count: Int, _ tickets: inout [Ticket]
    ) {
        while tickets.count < count, let ticket = queue.popFirst() {
            if isGood(ticket, watches) { tickets.append(ticket) }
        }
    }

    private mutating func nextReplay() -> Query? {
        while let ticket = toHeal.popFirst() {
            if let watch = watches[ticket.stream], watch.serial == ticket.serial {
                return .replay(ticket, after: watch.delivered)
            }
        }
        return nil
    }

    mutating func askPosition(of watch: Watch) {
        let ticket = Ticket(watch.stream, watch.serial)
        if watch.isBehind {
            Self.draw(ticket, &toPositionBehind, watches)
        } else {
            Self.draw(ticket, &toPosition, watches)
        }
    }

    mutating func heal(_ ticket: Ticket) {
        Self.draw(ticket, &toHeal, watches)
    }

    static func draw(_ ticket: Ticket, _ queue: inout Fifo<Ticket>, _ watches: KeyedTable<Watch>) {
        if queue.count > 2 * watches.count + FeedLimits.positionsPerQuery {
            queue.sweep { isGood($0, watches) }
        }
        queue.append(ticket)
    }

    /// Whether the watch for which the ticket was drawn has not ended.
    private static func isGood(_ ticket: Ticket, _ watches: KeyedTable<Watch>) -> Bool {
        watches.place(of: ticket.stream).map { watches[$0].serial == ticket.serial } ?? false
    }
}
