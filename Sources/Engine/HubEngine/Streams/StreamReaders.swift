import Bytes
import Clock
import Sync

/// The readers that wait for pages of one stream's log. One read is in flight at a time, shared by all who wait at its
/// offset: a crowd that comes back at once costs one read.
struct StreamReaders {
    enum Purpose {
        /// A next page that no client asked for. It is read sooner or later, and never given up because it takes long.
        case page
        /// The decision on a `sync:resume`.
        case resume
        /// Whether the log has reached the offset that a `sync:resume` names. The shard had not.
        case confirmation
        /// The log has reached it, and the shard will.
        case arrival
    }

    struct Reader: TableEntry {
        /// A session's subscription to the stream under one of its names. It waits for one thing at a time.
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
        /// The last offset that it was handed.
        let after: Int64
        var purpose: Purpose
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
    /// The offset after which the log is being read.
    private(set) var reading: Int64?
    /// The end of the backoff in which pages that no client asked for are not read; nil without one.
    private(set) var pausedUntil: Instant?
    private var failures: UInt8 = 0

    var count: Int { waiting.count }
    var isEmpty: Bool { waiting.isEmpty && reading == nil }

    /// Adds a reader, in place of what the same subscription waited for. False where clients' own requests reach the bound:
    /// they are told so, and ask again. A page that no client asked for is never refused; a subscription waits for one.
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

    mutating func remove(_ session: SessionID, form: StreamForm, loop: Int) {
        waiting.remove(Reader.Key(session: session, loop: UInt8(truncatingIfNeeded: loop), form: form))
    }

    /// Takes out the readers that wait until the stream reaches `offset`.
    mutating func arrived(at offset: Int64) -> [Reader] {
        take { $0.purpose == .arrival && $0.after <= offset }
    }

    /// Makes a reader wait until the stream arrives, after the others.
    mutating func awaitArrival(_ reader: Reader) {
        var reader = reader
        reader.purpose = .arrival
        waiting.remove(reader.key)
        insert(reader)
    }

    var awaitsArrival: Bool { waiting.entries.contains { $0.purpose == .arrival } }

    /// Removes the readers of a loop that has no subscriber left under this form of the name.
    mutating func removeAll(form: StreamForm, loop: Int) {
        _ = take { $0.key.form == form && Int($0.key.loop) == loop }
    }

    /// The offset to read after next: that of the first reader. Nil during a read, or where nobody waits for one.
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

    /// The read is answered: takes out the readers that `isMeant` selects.
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

    /// Backoffs end at multiples of this, in nanoseconds, so that many end together and the loop looks once.
    private static let pauseStep: UInt64 = 50_000_000

    /// The log was out of reach: backs off, twice as long each time up to a bound. Returns the end.
    ///
    /// - Parameter salt: different for each stream, so that streams that failed together do not come back together.
    mutating func pause(at now: Instant, salt: UInt64, _ limits: StreamLimits) -> Instant {
        let longest = limits.readPauseMax.wholeNanoseconds
        let pause = min(limits.readPause.wholeNanoseconds << UInt64(min(failures, 10)), longest)
        if failures < .max { failures += 1 }
        // Jitter: between half and one and a half times the backoff.
        let end = now.nanoseconds &+ pause / 2 &+ KeyedHash.mix(salt, now.nanoseconds) % (pause + 1)
        // On whole steps: at the end of each backoff all readers are looked at.
        let until = Instant(nanoseconds: (end / Self.pauseStep &+ 1) &* Self.pauseStep)
        pausedUntil = until
        return until
    }

    mutating func endPause() {
        pausedUntil = nil
    }

    /// The log was read: the next backoff is the shortest again.
    mutating func recovered() {
        pausedUntil = nil
        failures = 0
    }
}
