import Bytes
import Sync

/// The most recent events of one stream: a device that was away for a moment gets them without a read of the log.
///
/// Invariant: contiguous, and its last event is the one that the stream's shard handed on last. One word while empty, as
/// most are. Never copied in order to change the copy: copies share one window.
struct ReplayWindow {
    /// One event. Its offset follows from its index.
    struct Entry {
        let name: String
        let data: SharedBytes

        /// Bytes of the event, including what keeping it costs.
        var cost: Int { data.count + name.utf8.count + 160 }
        /// Bytes that count for a page.
        var size: Int { data.count + name.utf8.count }
    }

    private var events: Events?

    var count: Int { events?.count ?? 0 }
    /// The offset of the first event, where there is one.
    var first: Int64 { events?.first ?? 0 }
    var byteCount: Int { events?.byteCount ?? 0 }

    /// Whether the event after `offset` is in the window; the caller knows that it exists.
    func reaches(_ offset: Int64) -> Bool { count > 0 && first <= offset &+ 1 }

    mutating func append(_ event: StreamEvent) {
        let events = events ?? Events(first: event.offset)
        self.events = events
        events.append(Entry(name: event.name, data: event.data))
    }

    mutating func removeFirst() {
        guard let events else { return }
        events.removeFirst()
        if events.count == 0 { removeAll() }
    }

    mutating func removeAll() { events = nil }

    /// Events after `offset`, within the limits of a page, at least one. Requires `reaches(offset)`.
    func page(after offset: Int64, _ limits: StreamLimits) -> ContiguousArray<Entry> {
        var page: ContiguousArray<Entry> = []
        var bytes = 0
        var index = Int(max(0, offset &+ 1 &- first))
        while page.count < limits.pageEvents, let entry = events?[index],
            page.isEmpty || bytes + entry.size <= limits.pageBytes
        {
            page.append(entry)
            bytes += entry.size
            index += 1
        }
        return page
    }

    private final class Events {
        /// A ring: `count` entries from `head` on, the others nil. Its length is zero or a power of two.
        private var ring: ContiguousArray<Entry?> = []
        private var head = 0
        private(set) var count = 0
        private(set) var first: Int64
        private(set) var byteCount = 0

        init(first: Int64) {
            self.first = first
        }

        subscript(index: Int) -> Entry? {
            index < count ? ring[(head &+ index) & (ring.count &- 1)] : nil
        }

        func append(_ entry: Entry) {
            if count == ring.count { grow() }
            ring[(head &+ count) & (ring.count &- 1)] = entry
            count &+= 1
            byteCount &+= entry.cost
        }

        func removeFirst() {
            guard count > 0, let entry = ring[head] else { return }
            ring[head] = nil
            head = (head &+ 1) & (ring.count &- 1)
            count &-= 1
            first &+= 1
            byteCount &-= entry.cost
        }

        private func grow() {
            var larger = ContiguousArray<Entry?>(repeating: nil, count: max(4, ring.count * 2))
            for index in 0..<count { larger[index] = exchange(&ring[(head &+ index) & (ring.count &- 1)], with: nil) }
            ring = larger
            head = 0
        }
    }
}
