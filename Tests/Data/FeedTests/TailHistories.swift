import Bytes
import Feed
import Sync
import TestSupport
import Testing

/// Random histories of writers, connections and watchers. In each, every watched stream gets exactly the log from its
/// acknowledged position: in order, nothing twice, nothing missing.
///
/// The driver plays the database and computes a query's answer at any time between sending and answering. It can also play
/// mutants with typical mistakes of such a tail; those must be found. To replay a history, also set
/// SWIFT_DETERMINISTIC_HASHING: after a reconnect, positions are requested in the order of a dictionary.
@Suite(.timeLimit(.minutes(15))) struct TailHistories {
    @Test func everyWatcherGetsTheLog() {
        var random = SeededRandom()
        var bulks = 0
        for _ in 0..<400 {
            let seed = random.next()
            let history = History(seed: seed, mutant: nil, polls: true)
            #expect(history.violations == [], "CARILLON_SEED=\(random.seed), history \(seed)")
            bulks += history.bulks
        }
        #expect(bulks > 400)
    }

    /// Every notification is delivered and there is no poll: nothing may wait for the next commit.
    @Test func noWakeUpIsLost() {
        var random = SeededRandom()
        for _ in 0..<400 {
            let seed = random.next()
            let history = History(seed: seed, mutant: nil, polls: false)
            #expect(history.violations == [], "CARILLON_SEED=\(random.seed), history \(seed)")
        }
    }

    /// After expired events and restores: a reset, and contiguous events from there.
    @Test func whatCannotBeHadIsReset() {
        var random = SeededRandom()
        var resets = 0
        for _ in 0..<400 {
            let seed = random.next()
            let history = History(seed: seed, mutant: nil, polls: true, losesHistory: true)
            #expect(history.violations == [], "CARILLON_SEED=\(random.seed), history \(seed)")
            resets += history.resets
        }
        #expect(resets > 0)
    }

    /// The tail never gets some rows: the position check finds each, and the log has it.
    @Test func rowsThatAreDroppedAreHealedAndCounted() {
        var random = SeededRandom()
        var gaps = 0
        for _ in 0..<400 {
            let seed = random.next()
            let history = History(seed: seed, mutant: nil, polls: true, dropsRows: true)
            #expect(history.violations == [], "CARILLON_SEED=\(random.seed), history \(seed)")
            gaps += history.gaps
        }
        #expect(gaps > 0)
    }

    @Test func withoutTheCheckTheyWouldBeMissed() {
        let missed = (0..<400 as Range<UInt64>).contains { seed in
            !History(seed: seed, mutant: nil, polls: true, dropsRows: true, checks: false).violations.isEmpty
        }
        #expect(missed)
    }

    @Test(arguments: History.Mutant.allCases)
    func aWrongTailIsFound(_ mutant: History.Mutant) {
        let found = (0..<400 as Range<UInt64>).contains { seed in
            // Without the check, which would repair the mutant's mistakes.
            !History(seed: seed, mutant: mutant, polls: !mutant.isAboutWaking, checks: false).violations.isEmpty
        }
        #expect(found)
    }
}

/// One history, played by its initializer.
struct History {
    /// The driver's mistake.
    enum Mutant: CaseIterable {
        /// `previous` is read after the positions instead of before them.
        case previousAfterPositions
        /// `xid > cursor`: skips writers that began earlier and commit later.
        case forgetsRunningWriters
        /// Behind a bulk, `previous` is the cursor's snapshot, not the bulk's `upTo`.
        case cursorsSnapshot
        /// A bulk whose connection is lost counts as ended.
        case endsLostBulks
        /// A notification during a read of the tail counts as answered by it.
        case dropsWakeWhileReading
        /// LISTEN takes effect after the first read, and nothing reads again.
        case listensAfterCatchUp

        var isAboutWaking: Bool { self == .dropsWakeWhileReading || self == .listensAfterCatchUp }
    }

    private enum Answer {
        case positions([StreamPosition])
        case replay(ModelPage)
        case tail(ModelPage, ModelDatabase.Snapshot, epoch: String)
        case overflow(ModelDatabase.Snapshot, epoch: String)
    }

    /// A cursor, its remaining rows, and whether one of its pages lacks rows.
    private struct Cursor {
        let number: UInt64
        var rows: [ModelDatabase.Entry]
    }

    private struct Seen {
        let serial: UInt32
        /// The stream's top at the time of the watch: its user may know of that.
        let committed: Int64
        var position: StreamPosition?
    }

    private(set) var violations: [String] = []
    private(set) var resets = 0
    var gaps: Int { tail.gapCount }

    private let mutant: Mutant?
    private let polls: Bool
    private let losesHistory: Bool
    private let dropsRows: Bool
    private let checks: Bool
    private var random: SeededRandom
    private var database = ModelDatabase()
    private var tail = Tail(pageRows: 3)
    private let streams = ["a", "b", "c", "d"].map { StreamID(user: $0, topic: "t") }
    private var watched: [StreamID: Seen] = [:]
    private var serial: UInt32 = 0
    private var underWay: Tail.Query?
    private var answer: Answer?
    private var hello: (snapshot: ModelDatabase.Snapshot, epoch: String)?
    private var isConnected = false
    private var isListening = false
    private var notifications = 0
    private var pastFirstTail = false
    private var later: [String: String] = [:]
    private var bulk: Bulk?
    private var cursor: Cursor?
    private(set) var bulks = 0
    private var outputs: [FeedOutput] = []

    /// - Parameters:
    ///   - dropsRows: the tail's answers lack some rows.
    ///   - checks: whether positions are checked.
    init(
        seed: UInt64, mutant: Mutant?, polls: Bool, losesHistory: Bool = false, dropsRows: Bool = false,
        checks: Bool = true
    ) {
        self.mutant = mutant
        self.polls = polls
        self.losesHistory = losesHistory
        self.dropsRows = dropsRows
        self.checks = checks
        random = SeededRandom(seed: seed)
        for _ in 0..<400 { step() }
        settle()
    }

    // MARK: Steps

    private mutating func step() {
        switch Int.random(in: 0..<118, using: &random) {
        case 0..<10: _ = database.writers.count < 4 ? database.begin() : 0
        case 10..<30: writer().map { _ = database.append($0, stream()) }
        case 30..<42: writer().map { finish($0, commit: Int.random(in: 0..<4, using: &random) > 0) }
        case 42..<46: watch(stream())
        case 46..<48: unwatch(stream())
        case 48..<66: send()
        case 66..<76: execute()
        case 76..<90: deliver()
        case 90..<94: notify()
        case 94 where polls: tail.wake()
        case 95: isListening ? stopListening() : listen()
        case 96: disconnect()
        case 97..<99: connect()
        case 99 where losesHistory: loseHistory()
        case 100..<103 where checks: tail.checkDue()
        case 103 where losesHistory: newEpoch()
        case 104..<117: readBulk()
        case 117: loseBulk()
        default: break
        }
    }

    private mutating func writer() -> UInt64? { database.writers.randomElement(using: &random) }
    private mutating func stream() -> StreamID { streams.randomElement(using: &random) ?? streams[0] }

    private mutating func newEpoch() {
        database.newEpoch()
        if isListening { notifications += 1 }
    }

    private mutating func finish(_ xid: UInt64, commit: Bool) {
        if database.end(xid, commit: commit), isListening { notifications += 1 }
    }

    private mutating func watch(_ stream: StreamID) {
        serial += 1
        watched[stream] = Seen(serial: serial, committed: database.position(stream).offset)
        tail.watch(stream, serial: serial, &outputs)
        check()
    }

    private mutating func unwatch(_ stream: StreamID) {
        watched[stream] = nil
        tail.unwatch(stream)
    }

    private mutating func loseHistory() {
        // Retention outlasts every read by days: only a tail that was away loses events.
        disconnect()
        if Bool.random(using: &random) {
            database.retain(Int.random(in: 1...6, using: &random))
        } else {
            stopListening()
            database.restore(droppingLast: Int.random(in: 0...3, using: &random))
            for (stream, seen) in watched where seen.position == nil {
                watched[stream] = Seen(serial: seen.serial, committed: 0)
            }
        }
    }

    // MARK: Connections

    private mutating func stopListening() {
        isListening = false
        notifications = 0
    }

    private mutating func listen() {
        isListening = true
        if mutant != .listensAfterCatchUp { tail.wake() }
    }

    private mutating func notify() {
        guard notifications > 0 else { return }
        notifications = 0
        if mutant == .dropsWakeWhileReading, case .tail? = underWay { return }
        tail.wake()
    }

    private mutating func disconnect() {
        tail.disconnected()
        (isConnected, underWay, answer, hello) = (false, nil, nil, nil)
    }

    /// In two steps, with anything between: the server executes hello, then its answer arrives.
    private mutating func connect() {
        guard !isConnected else { return }
        guard let greeting = hello else {
            hello = (database.snapshot, "e\(database.epoch)")
            return
        }
        tail.connected(snapshot: greeting.snapshot.text, epoch: greeting.epoch)
        (isConnected, hello, pastFirstTail) = (true, nil, false)
        later = [:]
    }

    private mutating func send() {
        guard isConnected, underWay == nil else { return }
        let permits: [Tail.Permit] = [[.tail, .replay], [.tail, .replay], [.tail], [.replay], []]
        underWay = tail.nextQuery(permits.randomElement(using: &random) ?? [])
    }

    private mutating func execute() {
        guard let query = underWay, answer == nil else { return }
        switch query {
        case .positions(let tickets), .check(let tickets):
            answer = .positions(tickets.map { database.position($0.stream) })
        case .replay(let ticket, let after):
            answer = .replay(database.replay(ticket.stream, after: after, page: 3))
        case .tail(let previous):
            answer = executeTail(previous)
        }
    }

    private mutating func executeTail(_ previous: String) -> Answer {
        let now = database.snapshot
        var previous = ModelDatabase.Snapshot(text: later[previous] ?? previous)
        if mutant == .previousAfterPositions, !pastFirstTail { previous = now }
        let forgets = mutant == .forgetsRunningWriters
        var page = database.tail { forgets ? $0 >= previous.xmax : !previous.sees($0) }
        guard page.count <= 3 else { return .overflow(now, epoch: "e\(database.epoch)") }
        if dropsRows, !page.rows.isEmpty, Int.random(in: 0..<4, using: &random) == 0 {
            page = ModelPage(rows: page.rows.dropLast())
        }
        return .tail(page, now, epoch: "e\(database.epoch)")
    }

    // MARK: The bulk connection

    /// One step, whatever the other connection does: the cursor opens, or returns a page.
    private mutating func readBulk() {
        if let cursor { return readPage(cursor) }
        guard let bulk = bulk ?? tail.nextBulk() else { return }
        self.bulk = bulk
        // Begun now, and opened in another step.
        guard Bool.random(using: &random) else { return }
        self.bulk = nil
        bulks += 1
        guard "e\(database.epoch)" == tail.epoch else { return failed(bulk.number) }
        let previous = ModelDatabase.Snapshot(text: bulk.previous)
        let upTo = ModelDatabase.Snapshot(text: bulk.upTo)
        if mutant == .cursorsSnapshot { later[bulk.upTo] = database.snapshot.text }
        cursor = Cursor(number: bulk.number, rows: database.tail { upTo.sees($0) && !previous.sees($0) }.rows)
    }

    private mutating func readPage(_ cursor: Cursor) {
        var rows = Array(cursor.rows.prefix(3))
        let isLast = rows.count < 3
        self.cursor = isLast ? nil : Cursor(number: cursor.number, rows: Array(cursor.rows.dropFirst(3)))
        if dropsRows, !rows.isEmpty, Int.random(in: 0..<4, using: &random) == 0 { rows.removeLast() }
        do throws(MalformedAnswer) {
            try tail.bulkReceived(ModelPage(rows: rows), of: cursor.number, &outputs)
        } catch {
            violations.append("a sound bulk was called malformed")
        }
        check()
        if isLast { tail.bulkEnded(cursor.number) }
    }

    private mutating func loseBulk() {
        guard let number = cursor?.number ?? bulk?.number else { return }
        (cursor, bulk) = (nil, nil)
        if mutant == .endsLostBulks { tail.bulkEnded(number) } else { failed(number) }
    }

    private mutating func failed(_ number: UInt64) {
        tail.bulkFailed(number)
    }

    private mutating func deliver() {
        guard let answer else { return }
        self.answer = nil
        underWay = nil
        do throws(MalformedAnswer) {
            switch answer {
            case .positions(let positions):
                try tail.positionsReceived(positions, &outputs)
            case .replay(let page):
                try tail.replayReceived(page, &outputs)
            case .overflow(let snapshot, let epoch):
                pastFirstTail = true
                try tail.tailOverflowed(snapshot: snapshot.text, epoch: epoch)
            case .tail(let page, let snapshot, let epoch):
                pastFirstTail = true
                try tail.tailReceived(page, snapshot: snapshot.text, epoch: epoch, &outputs)
            }
        } catch {
            violations.append("a sound answer was called malformed")
        }
        check()
    }

    // MARK: Checks

    private mutating func check() {
        for output in outputs {
            switch output {
            case .positioned(let stream, let serial, let position): positioned(stream, serial, position)
            case .event(let event): received(event)
            case .reset(let stream, let position): reset(stream, position)
            case .refused, .page, .unreadable, .revoked, .revocationsCurrent, .topics, .degraded, .status:
                violations.append("unexpected output")
            }
        }
        outputs.removeAll()
    }

    private mutating func positioned(_ stream: StreamID, _ serial: UInt32, _ position: StreamPosition) {
        guard let seen = watched[stream], seen.serial == serial, seen.position == nil else {
            return violations.append("\(stream.user): an answer to no watch")
        }
        if position.offset < seen.committed { violations.append("\(stream.user): a position before the watch") }
        watched[stream]?.position = position
    }

    private mutating func received(_ event: StreamEvent) {
        let user = event.stream.user
        guard let position = watched[event.stream]?.position else {
            return violations.append("\(user): an event before the position")
        }
        if event.offset != position.offset + 1 {
            violations.append("\(user): \(event.offset) after \(position.offset)")
        }
        let isCommitted =
            losesHistory
            || database.log.contains {
                $0.stream == event.stream && $0.offset == event.offset && $0.data == event.data.string
            }
        if !isCommitted { violations.append("\(user): \(event.offset) is not in the log") }
        watched[event.stream]?.position = StreamPosition(epoch: position.epochText, offset: event.offset)
    }

    private mutating func reset(_ stream: StreamID, _ position: StreamPosition) {
        resets += 1
        if !losesHistory { violations.append("\(stream.user): a reset for nothing") }
        if watched[stream]?.position == nil { violations.append("\(stream.user): a reset before the position") }
        watched[stream]?.position = position
    }

    /// All writers end, all connections are up, all notifications arrive: then every watcher must be at its stream's top.
    private mutating func settle() {
        if !isListening { listen() }
        for _ in 0..<2 where !isConnected { connect() }
        for xid in database.writers {
            for stream in streams { _ = database.append(xid, stream) }
            finish(xid, commit: true)
            for _ in 0..<6 {
                switch Int.random(in: 0..<5, using: &random) {
                case 0: notify()
                case 1: send()
                case 2: execute()
                case 3: readBulk()
                default: deliver()
                }
            }
        }
        if polls { tail.wake() }
        // One check may begin while a lot is being read, and another while its streams are.
        for _ in 0..<3 {
            if checks { tail.checkDue() }
            for _ in 0..<170 {
                notify()
                if underWay == nil { underWay = tail.nextQuery([.tail, .replay]) }
                if answer == nil { execute() }
                deliver()
                readBulk()
            }
        }
        if tail.bulk != nil { violations.append("a bulk is left") }
        if !dropsRows, mutant == nil, tail.gapCount > 0 { violations.append("a gap where none was") }
        for (stream, seen) in watched {
            let top = database.position(stream)
            if seen.position != top {
                violations.append("\(stream.user): ends at \(seen.position, default: "none"), not \(top)")
            }
        }
        if !tail.isCaughtUp { violations.append("never caught up") }
    }
}
