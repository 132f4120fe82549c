import Bytes
import Clock

/// Channels in a quiet period of fixed length: each has told something and does not tell it again until the period ends. In
/// the order in which they end. A period is known by its number, and stale when its channel no longer names it.
struct CountThrottle {
    struct Silence {
        let key: ChannelKey
        let number: UInt64
        let due: Instant
    }

    /// In nanoseconds.
    private let time: UInt64
    private var entries = Fifo<Silence>()
    /// Periods that are not stale.
    private(set) var count = 0

    init(of time: Duration) {
        self.time = time.wholeNanoseconds
    }

    var nextDue: Instant? { entries.first?.due }

    var needsSweep: Bool { entries.needsSweep(live: count) }

    mutating func begin(_ key: ChannelKey, _ number: UInt64, now: Instant) {
        count += 1
        entries.append(Silence(key: key, number: number, due: now.advanced(byNanoseconds: time)))
    }

    /// A channel no longer names its period.
    mutating func end() { count -= 1 }

    /// Takes out the first, which may be stale.
    mutating func popFirst() -> Silence? { entries.popFirst() }

    /// Takes out the first if it is over. It may be stale.
    mutating func popFirst(dueBy now: Instant) -> Silence? {
        guard let due = nextDue, due <= now else { return nil }
        return entries.popFirst()
    }

    mutating func sweep(keeping isLive: (Silence) -> Bool) { entries.sweep(keeping: isLive) }
}
