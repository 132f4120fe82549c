import Bytes
import Sync

/// The most recent events of one stream: a device that was away for a moment gets them without a read of the log.
///
/// Invariant: contiguous, and its last event is the one that the stream's shard handed on last. A stream without events has
/// none, as most have not.
final class ReplayWindow {
    /// One event. Its offset follows from its index.
    struct Entry {
        let name: String
        let data: SharedBytes

        /// Bytes of the event, including what keeping it costs.
        var cost: Int { data.count + name.utf8.count + 160 }
        /// Bytes that count for a page.
        var size: Int { data.count + name.utf8.count }
    }

    private let epoch: Epoch
    /// A ring: `count` entries from `head` on, the others nil. Its length is zero or a power of two.
    private var ring: ContiguousArray<Entry?> = []
    private var head = 0
    private(set) var count = 0
    /// The offset of the first event, or of the next one where there is none.
    private(set) var first: Int64
    private(set) var byteCount = 0

    /// - Parameter first: the offset of the event that is appended next.
    init(in epoch: Epoch, from first: Int64) { (self.epoch, self.first) = (epoch, first) }

    /// The position behind the last event.
    var end: StreamPosition { StreamPosition(in: epoch, offset: first &+ Int64(count) &- 1) }

    /// Whether the event after `offset` is in the window; the caller knows that it exists.
    func reaches(_ offset: Int64) -> Bool { first <= offset &+ 1 }

    func append(_ event: StreamEvent) {
        if count == ring.count { grow() }
        let entry = Entry(name: event.name, data: event.data)
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

    /// Events after `offset`, within the limits of a page, at least one. Requires `reaches(offset)`.
    func page(after offset: Int64, _ limits: StreamLimits) -> ContiguousArray<Entry> {
        var page: ContiguousArray<Entry> = []
        var bytes = 0
        var index = Int(max(0, offset &+ 1 &- first))
        while page.count < limits.pageEvents, index < count, let entry = ring[(head &+ index) & (ring.count &- 1)],
            page.isEmpty || bytes + entry.size <= limits.pageBytes
        {
            page.append(entry)
            bytes += entry.size
            index += 1
        }
        return page
    }

    private func grow() {
        var larger = ContiguousArray<Entry?>(repeating: nil, count: max(4, ring.count * 2))
        for index in 0..<count { larger[index] = exchange(&ring[(head &+ index) & (ring.count &- 1)], with: nil) }
        ring = larger
        head = 0
    }
}
