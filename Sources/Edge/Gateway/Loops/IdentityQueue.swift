import Bytes
import Clock
import HubEngine
import Reactor

/// When each session's identity must be looked at, the earliest first. An abandoned look stays until its time or until
/// `sweep`; `count` and `abandoned` say when that is worth it.
struct IdentityQueue {
    /// One look. Valid only while its connection says that it expects this one.
    struct Look: HeapEntry {
        let time: Instant
        let session: SessionID

        func precedes(_ other: Look) -> Bool { time < other.time }
    }

    private var heap = Heap<Look>()
    private var abandoned = 0

    /// Sweeping is not worth it at or below this many.
    private static let abandonedMin = 64

    /// Never above twice the looks expected plus `abandonedMin`, if `sweep` follows `abandon`.
    var count: Int { heap.count }
    var earliest: Instant? { heap.first?.time }

    mutating func insert(_ look: Look) {
        heap.insert(look)
    }

    /// Takes out the earliest look, if it is due.
    mutating func popDue(_ now: Instant) -> Look? {
        guard let first = heap.first, first.time <= now else { return nil }
        return heap.popFirst()
    }

    /// A look is no longer expected: another replaces it, or the connection is gone.
    mutating func abandon() {
        abandoned += 1
    }

    /// A look taken out was an abandoned one.
    mutating func forget() {
        abandoned -= 1
    }

    /// Removes abandoned looks, if they are many.
    mutating func sweep(isExpected: (Look) -> Bool) {
        guard abandoned > Self.abandonedMin, abandoned > heap.count / 2 else { return }
        abandoned = 0
        heap.removeAll { !isExpected($0) }
    }
}
