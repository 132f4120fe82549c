import Clock
import Reactor

/// How often each address may connect: a token bucket with a burst and a rate per second.
///
/// A table of fixed size whose slots addresses share (a count-min sketch). Each address has two, by a secret hash, and is
/// held up only where both are used up. So memory does not grow, and others hardly ever lose both slots to a flood.
struct AddressRates: Sendable {
    private let rate: Rate
    /// In two rows.
    private var slots: [Allowance] = []

    static let slotsInRow = 8_192

    init(perSecond: Int, burst: Int) {
        rate = Rate(perSecond: perSecond, burst: burst)
        if rate.isBounded { slots = Array(repeating: Allowance(), count: 2 * Self.slotsInRow) }
    }

    /// Takes one token; false where none is left.
    mutating func take(_ address: PeerAddress, at now: Instant) -> Bool {
        guard rate.isBounded else { return true }
        let hash = UInt(bitPattern: address.hashValue)
        let first = Int(hash % UInt(Self.slotsInRow))
        let second = Self.slotsInRow + Int(hash / UInt(Self.slotsInRow) % UInt(Self.slotsInRow))
        var own = min(slots[first], slots[second])
        guard own.take(rate, at: now) else { return false }
        slots[first] = max(slots[first], own)
        slots[second] = max(slots[second], own)
        return true
    }
}
