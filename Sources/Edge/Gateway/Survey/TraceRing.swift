/// The last entries of a kind. When it is full, a new entry takes the place of the oldest.
struct TraceRing<Entry> {
    let capacity: Int
    private var entries: ContiguousArray<Entry> = []
    private var end = 0

    /// - Parameter capacity: at least 1.
    init(_ capacity: Int) {
        self.capacity = capacity
        entries.reserveCapacity(capacity)
    }

    var count: Int { entries.count }

    /// The place of the next entry.
    var nextIndex: Int { end }

    @inline(__always)
    mutating func append(_ entry: Entry) {
        if entries.count < capacity { entries.append(entry) } else { entries[end] = entry }
        end = end + 1 == capacity ? 0 : end + 1
    }

    /// The place of the entry that came so many before the newest one.
    func index(newest back: Int) -> Int { end > back ? end - 1 - back : end - 1 - back + capacity }

    /// The entry that came so many before the newest one; nil where there is none, or no more.
    subscript(newest back: Int) -> Entry? { back < entries.count ? entries[index(newest: back)] : nil }
}
