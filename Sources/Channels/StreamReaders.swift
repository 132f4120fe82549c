import Sync

/// Who waits for pages of one stream's log. One read is under way at a time, and all who wait at its place share it:
/// a crowd that comes back at once costs one read.
struct StreamReaders {
    enum Purpose {
        /// Just its next page.
        case page
        /// The decision on its `sync:resume`.
        case resume
        /// Likewise, from an offset that the home had not reached: whether the log has.
        case confirmation
        /// The log has, and so will the home.
        case arrival
    }

    struct Reader {
        let session: SessionID
        let serial: UInt32
        /// Below `LoopSet.loopsMax`.
        let loop: UInt8
        let form: StreamForm
        /// What it was handed last.
        let after: Int64
        var purpose: Purpose
    }

    private(set) var waiting: ContiguousArray<Reader> = []
    /// The place that is being read.
    private(set) var reading: Int64?

    var isEmpty: Bool { waiting.isEmpty && reading == nil }

    /// Adds one, instead of what the same subscription waited for before. False where that would be one too many.
    mutating func append(_ reader: Reader, most: Int) -> Bool {
        waiting.removeAll {
            $0.session == reader.session && $0.loop == reader.loop && $0.form == reader.form
        }
        guard waiting.count < most else { return false }
        waiting.append(reader)
        return true
    }

    /// Forgets a session that has left the channel.
    mutating func remove(_ session: SessionID, form: StreamForm, loop: Int) {
        waiting.removeAll { $0.session == session && $0.form == form && Int($0.loop) == loop }
    }

    /// Takes out those who wait until the stream gets to `offset`.
    mutating func arrived(at offset: Int64) -> ContiguousArray<Reader> {
        func isThere(_ reader: Reader) -> Bool { reader.purpose == .arrival && reader.after <= offset }
        let arrived = waiting.filter(isThere)
        if !arrived.isEmpty { waiting.removeAll(where: isThere) }
        return ContiguousArray(arrived)
    }

    /// Lets a reader wait for its stream's arrival, behind the others.
    mutating func awaitArrival(_ reader: Reader) {
        var reader = reader
        reader.purpose = .arrival
        waiting.append(reader)
    }

    var awaitsArrival: Bool { waiting.contains { $0.purpose == .arrival } }

    /// Forgets the readers of a loop that has nobody left under this form of the name.
    mutating func removeAll(form: StreamForm, loop: Int) {
        waiting.removeAll { $0.form == form && Int($0.loop) == loop }
    }

    /// The place to read next; nil where one is being read, or nobody waits.
    mutating func nextRead() -> Int64? {
        guard reading == nil, let next = waiting.first(where: { $0.purpose != .arrival }) else { return nil }
        reading = next.after
        return next.after
    }

    /// The read is answered: takes out those whom `isMeant` says.
    mutating func answered(where isMeant: (Reader) -> Bool) -> ContiguousArray<Reader> {
        reading = nil
        let meant = waiting.filter(isMeant)
        if !meant.isEmpty { waiting.removeAll(where: isMeant) }
        return ContiguousArray(meant)
    }
}
