import Clock
import Reactor

/// How often each address may connect: so many at once, and then so many each second.
///
/// A table of fixed size in which addresses share places. Each has two, by a hash that nobody outside knows, and is held up
/// only where both are used up: so however many addresses there are, memory does not grow, and whoever is not of a flood
/// shares both places with one hardly ever (a count-min sketch).
struct AddressRates: Sendable {
    /// Between two connections, in nanoseconds; zero: no bound.
    private let interval: UInt64
    /// What may be ahead of its time.
    private let window: UInt64
    /// When all that was taken at a place will have been made up for, in two rows.
    private var madeUp: [UInt64] = []

    /// Places in each row.
    static let placesInRow = 8_192

    init(perSecond: Int, burst: Int) {
        interval = perSecond > 0 ? max(1, 1_000_000_000 / UInt64(perSecond)) : 0
        window = interval * UInt64(max(1, burst))
        if interval > 0 { madeUp = Array(repeating: 0, count: 2 * Self.placesInRow) }
    }

    /// Takes one, unless there is none left.
    mutating func take(_ address: PeerAddress, at now: Instant) -> Bool {
        guard interval > 0 else { return true }
        let hash = UInt(bitPattern: address.hashValue)
        let first = Int(hash % UInt(Self.placesInRow))
        let second = Self.placesInRow + Int(hash / UInt(Self.placesInRow) % UInt(Self.placesInRow))
        let time = now.nanoseconds
        let next = max(min(madeUp[first], madeUp[second]), time) + interval
        guard next <= time + window else { return false }
        madeUp[first] = max(madeUp[first], next)
        madeUp[second] = max(madeUp[second], next)
        return true
    }
}
