import Bytes
import Clock
import Sync

/// Who waits for pages of one stream's log. One read is under way at a time, and all who wait at its place share it:
/// a crowd that comes back at once costs one read.
struct StreamReaders {
    enum Purpose {
        /// Just its next page. No client asked for it: it is read sooner or later, and never given up for want of time.
        case page
        /// The decision on its `sync:resume`.
        case resume
        /// Whether the log has reached the offset that a `sync:resume` names, which the home had not.
        case confirmation
        /// The log has, and so will the home.
        case arrival
    }

    struct Reader: TableEntry {
        /// A session's subscription to the stream under one of its names: it waits for one thing at a time.
        struct Key: TableKey {
            let session: SessionID
            let loop: UInt8
            let form: StreamForm

            var code: UInt32 {
                let id = UInt64(session.slot) << 32 | UInt64(session.generation)
                return UInt32(
                    truncatingIfNeeded: KeyedHash.mix(id, UInt64(loop) << 1 | (form == .privateUser ? 1 : 0)))
            }
        }

        let key: Key
        let serial: UInt32
        /// What it was handed last.
        let after: Int64
        var purpose: Purpose
        /// Who came before whom.
        fileprivate(set) var turn: UInt64 = 0

        /// - Parameter loop: below `LoopSet.loopsMax`.
        init(_ session: SessionID, serial: UInt32, loop: Int, form: StreamForm, after: Int64, purpose: Purpose) {
            key = Key(session: session, loop: UInt8(truncatingIfNeeded: loop), form: form)
            self.serial = serial
            self.after = after
            self.purpose = purpose
        }
    }

    private var waiting = KeyedTable<Reader>()
    private var lastTurn: UInt64 = 0
    /// The place that is being read.
    private(set) var reading: Int64?
    /// Until when pages that no client asked for are not read, for the log was out of reach; nil where they are.
    private(set) var pausedUntil: Instant?
    /// Such answers in a row.
    private var failures: UInt8 = 0

    var count: Int { waiting.count }
    var isEmpty: Bool { waiting.isEmpty && reading == nil }

    /// Adds one, instead of what the same subscription waited for before. False where that would be one too many of those
    /// that clients asked for: they are told so, and ask again. A page that none asked for is never refused: each
    /// subscription waits for one at most.
    mutating func append(_ reader: Reader, most: Int) -> Bool {
        waiting.remove(reader.key)
        guard reader.purpose == .page || waiting.count < most else { return false }
        insert(reader)
        return true
    }

    private mutating func insert(_ reader: Reader) {
        lastTurn += 1
        var reader = reader
        reader.turn = lastTurn
        _ = waiting.insert(reader)
    }

    /// Forgets a session that has left the channel.
    mutating func remove(_ session: SessionID, form: StreamForm, loop: Int) {
        waiting.remove(Reader.Key(session: session, loop: UInt8(truncatingIfNeeded: loop), form: form))
    }

    /// Takes out those who wait until the stream gets to `offset`.
    mutating func arrived(at offset: Int64) -> [Reader] {
        take { $0.purpose == .arrival && $0.after <= offset }
    }

    /// Lets a reader wait for its stream's arrival, behind the others.
    mutating func awaitArrival(_ reader: Reader) {
        var reader = reader
        reader.purpose = .arrival
        waiting.remove(reader.key)
        insert(reader)
    }

    var awaitsArrival: Bool { waiting.entries.contains { $0.purpose == .arrival } }

    /// Forgets the readers of a loop that has nobody left under this form of the name.
    mutating func removeAll(form: StreamForm, loop: Int) {
        _ = take { $0.key.form == form && Int($0.key.loop) == loop }
    }

    /// The place to read next, that of who came first; nil where one is being read, or nobody waits for a read.
    mutating func nextRead() -> Int64? {
        guard reading == nil else { return nil }
        var next: Reader?
        for reader in waiting.entries where reader.turn < next?.turn ?? .max {
            switch reader.purpose {
            case .arrival: break
            case .page where pausedUntil != nil: break
            case .page, .resume, .confirmation: next = reader
            }
        }
        reading = next?.after
        return reading
    }

    /// The read is answered: takes out those whom `isMeant` says.
    mutating func answered(where isMeant: (Reader) -> Bool) -> [Reader] {
        reading = nil
        return take(where: isMeant)
    }

    private mutating func take(where isMeant: (Reader) -> Bool) -> [Reader] {
        let meant = waiting.entries.filter(isMeant)
        for reader in meant { waiting.remove(reader.key) }
        return meant.sorted { $0.turn < $1.turn }
    }

    // MARK: Pauses

    /// Whether somebody waits for a page that no client asked for.
    func awaitsPage(where isMeant: (Reader) -> Bool) -> Bool {
        waiting.entries.contains { $0.purpose == .page && isMeant($0) }
    }

    /// Pauses end at multiples of this, in nanoseconds: many end together, and the loop looks at them once.
    private static let pauseStep: UInt64 = 50_000_000

    /// The log was out of reach: it is left alone for a while, each time twice as long up to a bound. Returns until when.
    ///
    /// - Parameter salt: another for each stream: those that failed together do not come back together.
    mutating func pause(at now: Instant, salt: UInt64, _ limits: StreamLimits) -> Instant {
        let longest = limits.readPauseMax.wholeNanoseconds
        let pause = min(limits.readPause.wholeNanoseconds << UInt64(min(failures, 10)), longest)
        if failures < .max { failures += 1 }
        // From half of it to half as much again.
        let end = now.nanoseconds &+ pause / 2 &+ KeyedHash.mix(salt, now.nanoseconds) % (pause + 1)
        // At whole steps, for at the end of each pause all readers are looked at.
        let until = Instant(nanoseconds: (end / Self.pauseStep &+ 1) &* Self.pauseStep)
        pausedUntil = until
        return until
    }

    /// The pause is over.
    mutating func endPause() {
        pausedUntil = nil
    }

    /// The log was read: the next pause is the shortest again.
    mutating func recovered() {
        pausedUntil = nil
        failures = 0
    }
}
