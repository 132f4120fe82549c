import Bytes
import Channels
import Clock
import Reactor

/// When which session's identity is to be looked at, the earliest first. A look that is given up stays
/// until it comes or `sweep`; `count` and `abandoned` say when that is worth it.
struct IdentityQueue {
    /// One look. Good only while the connection of that name says that it is the one it expects.
    struct Look: HeapEntry {
        let time: Instant
        let session: SessionID

        func precedes(_ other: Look) -> Bool { time < other.time }
    }

    private var heap = Heap<Look>()
    /// Looks given up that still stand here.
    private var abandoned = 0

    /// Looks given up before it is worth sweeping.
    private static let abandonedMin = 64

    /// Never above twice the looks expected and `abandonedMin`, as long as `sweep` follows `abandon`.
    var count: Int { heap.count }
    /// The time of the next look.
    var earliest: Instant? { heap.first?.time }

    mutating func insert(_ look: Look) {
        heap.insert(look)
    }

    /// Takes out the earliest look, where its time has come.
    mutating func popDue(_ now: Instant) -> Look? {
        guard let first = heap.first, first.time <= now else { return nil }
        return heap.popFirst()
    }

    /// A look is expected no more: another takes its place, or the connection has gone.
    mutating func abandon() {
        abandoned += 1
    }

    /// A look taken out was one given up.
    mutating func forget() {
        abandoned -= 1
    }

    /// Takes out those given up, where they are many.
    mutating func sweep(isExpected: (Look) -> Bool) {
        guard abandoned > Self.abandonedMin, abandoned > heap.count / 2 else { return }
        abandoned = 0
        heap.removeAll { !isExpected($0) }
    }
}
