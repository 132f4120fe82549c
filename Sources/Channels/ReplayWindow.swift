import Bytes
import Sync

/// The most recent events of one stream: what a device that was away for a moment gets without a look into the log.
///
/// Invariant: contiguous, and its last event is the one that the stream's home handed on last.
struct ReplayWindow {
    /// One event; its offset follows from its place.
    struct Entry {
        let name: String
        let data: SharedBytes

        /// Bytes that the event takes: its own, and what keeping it costs.
        var cost: Int { data.count + name.utf8.count + 160 }
        /// Bytes that count for a page.
        var size: Int { data.count + name.utf8.count }
    }

    /// A ring: `count` entries from `head` on; the others are nil. Its length is zero or a power of two.
    private var ring: ContiguousArray<Entry?> = []
    private var head = 0
    private(set) var count = 0
    /// The offset of the first event, where there is one.
    private(set) var first: Int64 = 0
    /// The cost of all.
    private(set) var byteCount = 0

    /// Whether the event behind `offset` is here; the caller knows that there is one.
    func reaches(_ offset: Int64) -> Bool { count > 0 && first <= offset &+ 1 }

    /// The event behind all others.
    mutating func append(_ event: StreamEvent) {
        if count == ring.count { grow() }
        if count == 0 { first = event.offset }
        let entry = Entry(name: event.name, data: event.data)
        ring[(head &+ count) & (ring.count &- 1)] = entry
        count &+= 1
        byteCount &+= entry.cost
    }

    /// Forgets the oldest event.
    mutating func removeFirst() {
        guard count > 0, let entry = ring[head] else { return }
        ring[head] = nil
        head = (head &+ 1) & (ring.count &- 1)
        count &-= 1
        first &+= 1
        byteCount &-= entry.cost
        if count == 0 { removeAll() }
    }

    mutating func removeAll() { self = ReplayWindow() }

    /// Events behind `offset`, within the limits of a page, at least one; `reaches(offset)` holds.
    func page(after offset: Int64, _ limits: StreamLimits) -> ContiguousArray<Entry> {
        var page: ContiguousArray<Entry> = []
        var bytes = 0
        var index = Int(max(0, offset &+ 1 &- first))
        while index < count, page.count < limits.pageEvents,
            let entry = ring[(head &+ index) & (ring.count &- 1)],
            page.isEmpty || bytes + entry.size <= limits.pageBytes
        {
            page.append(entry)
            bytes += entry.size
            index += 1
        }
        return page
    }

    private mutating func grow() {
        var larger = ContiguousArray<Entry?>(repeating: nil, count: max(4, ring.count * 2))
        for index in 0..<count { larger[index] = ring[(head &+ index) & (ring.count &- 1)] }
        ring = larger
        head = 0
    }
}
