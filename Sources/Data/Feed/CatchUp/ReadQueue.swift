import Bytes
import Sync

/// The reads of the log that homes have asked for: those waiting and those under way. Performs no I/O.
///
/// Users are served in turns, and each has a share of the queue: whatever one user's connections ask for, a read of
/// another user waits for one read of each user before it, and is not refused. Pages go before confirmations (reads that
/// want no page, see `StreamRead.upTo`): a device that fell behind did not ask, and a client can make up any number of
/// places to confirm. So that confirmations do not starve, each `pagesInARow` pages let one pass.
///
/// Each read is answered once. Answers may be out of order; a read whose connection was lost goes back to the front,
/// for nothing it asked for has changed. Bounded: beyond `readsMax`, or `readsPerUserMax` of one user, a read is refused
/// at once.
///
/// Worst interleaving: one user's flood is in the queue when another user's page comes (`aFloodOfOneUserDelaysNobody`).
package struct ReadQueue {
    /// A read under way.
    package struct Turn: Sendable, Equatable {
        package let read: StreamRead
        /// Which of those under way it is.
        package let number: UInt64
    }

    private struct Entry {
        let read: StreamRead
        /// When it was asked for.
        let since: Duration
        var failures = 0
        var losses = 0

        var kind: Kind { read.after < read.upTo ? .page : .confirmation }
        var user: User { User(of: read.stream) }
    }

    private enum Kind: CaseIterable { case page, confirmation }

    /// A stream's user, byte for byte.
    private struct User: Hashable {
        private let stream: StreamID

        init(of stream: StreamID) {
            self.stream = stream
        }

        static func == (left: User, right: User) -> Bool {
            left.stream.withUser { user in right.stream.withUser { $0.equals(user) } }
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(stream.withUser { KeyedHash.hash($0) })
        }
    }

    /// One user's reads that wait, each kind in its order.
    private struct Line {
        var pages = Fifo<Entry>()
        var confirmations = Fifo<Entry>()
        /// All of the user's reads, those under way and returned among them.
        var count = 0

        subscript(kind: Kind) -> Fifo<Entry> {
            get { kind == .page ? pages : confirmations }
            _modify {
                switch kind {
                case .page: yield &pages
                case .confirmation: yield &confirmations
                }
            }
        }
    }

    /// Pages in a row after which a confirmation that waits has its turn.
    private static let pagesInARow = 7

    private let readsMax: Int
    private let readsPerUserMax: Int
    private let depth: Int
    /// What was under way on a connection that was lost, the oldest last: goes first.
    private var returned: [Entry] = []
    private var lines: [User: Line] = [:]
    /// Users whose pages or confirmations wait, each once, in the order of their turns.
    private var pageTurns = Fifo<User>()
    private var confirmationTurns = Fifo<User>()
    private var pagesSince = 0
    private var waitingCount = 0
    /// In the order of their numbers.
    private var underWay: [(number: UInt64, entry: Entry)] = []
    private var lastNumber: UInt64 = 0

    /// - Parameters:
    ///   - readsMax: reads waiting or under way at a time.
    ///   - readsPerUserMax: the same of one user.
    ///   - depth: reads under way at a time.
    package init(
        readsMax: Int = FeedLimits.readsMax, readsPerUserMax: Int = FeedLimits.readsPerUserMax,
        depth: Int = FeedLimits.readDepth
    ) {
        self.readsMax = readsMax
        self.readsPerUserMax = readsPerUserMax
        self.depth = depth
    }

    /// Reads waiting and under way.
    package var count: Int { returned.count + waitingCount + underWay.count }

    /// Whether a read waits.
    package var isAnyWaiting: Bool { returned.count + waitingCount > 0 }

    /// Whether a read waits and may be sent.
    package var wantsTurn: Bool { underWay.count < depth && isAnyWaiting }

    /// A home asks. False where too many do, or too many for this user.
    ///
    /// - Parameter now: by the clock of `expire`.
    package mutating func append(_ read: StreamRead, at now: Duration) -> Bool {
        let entry = Entry(read: read, since: now)
        guard count < readsMax, lines[entry.user]?.count ?? 0 < readsPerUserMax else { return false }
        lines[entry.user, default: Line()].count += 1
        enqueue(entry)
        return true
    }

    /// The read to send next, now under way; nil where none waits or as many are under way as may be.
    ///
    /// - Parameter isWanted: whether anybody still looks at the answer; other reads are dropped.
    package mutating func next(where isWanted: (StreamRead) -> Bool) -> Turn? {
        guard underWay.count < depth else { return nil }
        while let entry = returned.popLast() ?? dequeue() {
            guard isWanted(entry.read) else {
                left(entry)
                continue
            }
            lastNumber += 1
            underWay.append((lastNumber, entry))
            return Turn(read: entry.read, number: lastNumber)
        }
        return nil
    }

    /// The read has been answered.
    package mutating func done(_ turn: Turn) {
        if let entry = take(turn) { left(entry) }
    }

    /// A living server has refused the read: it comes again behind the user's others. False where it has failed too often,
    /// and the caller owes its answer.
    package mutating func failed(_ turn: Turn) -> Bool {
        guard var entry = take(turn) else { return true }
        entry.failures += 1
        guard entry.failures < FeedLimits.readFailuresMax else {
            left(entry)
            return false
        }
        enqueue(entry)
        return true
    }

    /// The connection is gone: what was under way is sent first on the next one. Returns the reads under which too many
    /// connections were lost, whose answers the caller owes.
    package mutating func lost() -> [StreamRead] {
        var hopeless: [StreamRead] = []
        for var (_, entry) in underWay.reversed() {
            entry.losses += 1
            if entry.losses < FeedLimits.readLossesMax {
                returned.append(entry)
            } else {
                left(entry)
                hopeless.append(entry.read)
            }
        }
        underWay.removeAll()
        return hopeless
    }

    /// Takes out the reads that were asked for up to `start` and are not under way: their answers the caller owes.
    package mutating func expire(askedUpTo start: Duration) -> [StreamRead] {
        var expired: [Entry] = []
        func isToStay(_ entry: Entry) -> Bool {
            if entry.since > start { return true }
            expired.append(entry)
            return false
        }
        returned = returned.filter(isToStay)
        let waiting = expired.count
        for kind in Kind.allCases {
            var turns = withTurns(of: kind) { exchange(&$0, with: Fifo()) }
            turns.sweep { user in
                guard let place = lines.index(forKey: user) else { return false }
                lines.values[place][kind].sweep(keeping: isToStay)
                return !lines.values[place][kind].isEmpty
            }
            withTurns(of: kind) { $0 = turns }
        }
        waitingCount -= expired.count - waiting
        for entry in expired { left(entry) }
        return expired.map(\.read)
    }

    // MARK: Turns

    private mutating func enqueue(_ entry: Entry) {
        let user = entry.user
        let isNew = lines[user]?[entry.kind].isEmpty != false
        lines[user, default: Line()][entry.kind].append(entry)
        if isNew { withTurns(of: entry.kind) { $0.append(user) } }
        waitingCount += 1
    }

    private mutating func dequeue() -> Entry? {
        let confirmationIsDue = pageTurns.isEmpty || pagesSince >= Self.pagesInARow
        let kind = confirmationIsDue && !confirmationTurns.isEmpty ? Kind.confirmation : .page
        guard let user = withTurns(of: kind, { $0.popFirst() }), let entry = lines[user]?[kind].popFirst() else {
            return nil
        }
        if lines[user]?[kind].isEmpty == false { withTurns(of: kind) { $0.append(user) } }
        pagesSince = kind == .page && !confirmationTurns.isEmpty ? pagesSince + 1 : 0
        waitingCount -= 1
        return entry
    }

    /// A user is among them exactly while a read of that kind waits in its line.
    private mutating func withTurns<Result>(of kind: Kind, _ body: (inout Fifo<User>) -> Result) -> Result {
        switch kind {
        case .page: body(&pageTurns)
        case .confirmation: body(&confirmationTurns)
        }
    }

    /// The read is no longer in the queue.
    private mutating func left(_ entry: Entry) {
        guard let place = lines.index(forKey: entry.user) else { return }
        lines.values[place].count -= 1
        if lines.values[place].count == 0 { lines.remove(at: place) }
    }

    private mutating func take(_ turn: Turn) -> Entry? {
        guard let place = underWay.firstIndex(where: { $0.number == turn.number }) else { return nil }
        return underWay.remove(at: place).entry
    }
}
