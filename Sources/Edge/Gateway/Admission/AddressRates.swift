import Clock
import Reactor

/// How often each address may connect: so many at once, and then so many each second.
///
/// A table of fixed size in which addresses share places. Each has two, by a hash that nobody outside knows, and is held up
/// only where both are used up: so however many addresses there are, memory does not grow, and whoever is not of a flood
/// shares both places with one hardly ever (a count-min sketch).
struct AddressRates: Sendable {
    private let rate: Rate
    /// In two rows.
    private var places: [Allowance] = []

    /// Places in each row.
    static let placesInRow = 8_192

    init(perSecond: Int, burst: Int) {
        rate = Rate(perSecond: perSecond, burst: burst)
        if rate.isBounded { places = Array(repeating: Allowance(), count: 2 * Self.placesInRow) }
    }

    /// Takes one, unless there is none left.
    mutating func take(_ address: PeerAddress, at now: Instant) -> Bool {
        guard rate.isBounded else { return true }
        let hash = UInt(bitPattern: address.hashValue)
        let first = Int(hash % UInt(Self.placesInRow))
        let second = Self.placesInRow + Int(hash / UInt(Self.placesInRow) % UInt(Self.placesInRow))
        var own = min(places[first], places[second])
        guard own.take(rate, at: now) else { return false }
        places[first] = max(places[first], own)
        places[second] = max(places[second], own)
        return true
    }
}
