import Sync

/// Who waits for pages of one stream's log. One read is under way at a time, and all who wait at its place share it:
/// a crowd that comes back at once costs one read.
struct StreamReaders {
    struct Reader {
        let session: SessionID
        let serial: UInt32
        /// Below `LoopSet.loopsMax`.
        let loop: UInt8
        let form: StreamForm
        /// What it was handed last.
        let after: Int64
        /// Whether it awaits the decision on its `sync:resume`, or just its next page.
        let isResume: Bool
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

    /// Forgets the readers of a loop that has nobody left under this form of the name.
    mutating func removeAll(form: StreamForm, loop: Int) {
        waiting.removeAll { $0.form == form && Int($0.loop) == loop }
    }

    /// The place to read next; nil where one is being read, or nobody waits.
    mutating func nextRead() -> Int64? {
        guard reading == nil, let next = waiting.first else { return nil }
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
