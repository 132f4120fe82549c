import Bytes
import Clock

/// Channels that have told something and do not tell it again for a time, always the same one: in the order of its end.
///
/// A silence is known by its number; one that its channel no longer names stands for nothing.
struct Silences {
    struct Silence {
        let key: ChannelKey
        let number: UInt64
        let due: Instant
    }

    /// In nanoseconds.
    private let time: UInt64
    private var entries = Fifo<Silence>()
    /// Those that stand for something.
    private(set) var count = 0

    init(of time: Duration) {
        self.time = time.wholeNanoseconds
    }

    /// When the first ends; nil where there is none.
    var nextDue: Instant? { entries.first?.due }

    /// Whether the entries that stand for nothing should be swept.
    var needsSweep: Bool { entries.needsSweep(live: count) }

    mutating func begin(_ key: ChannelKey, _ number: UInt64, now: Instant) {
        count += 1
        entries.append(Silence(key: key, number: number, due: now.advanced(byNanoseconds: time)))
    }

    /// Its channel names one no more.
    mutating func end() { count -= 1 }

    /// Takes out the first, which may stand for nothing.
    mutating func popFirst() -> Silence? { entries.popFirst() }

    /// The same, if it is over.
    mutating func popFirst(dueBy now: Instant) -> Silence? {
        guard let due = nextDue, due <= now else { return nil }
        return entries.popFirst()
    }

    mutating func sweep(keeping isLive: (Silence) -> Bool) { entries.sweep(keeping: isLive) }
}
