import Clock
import Reactor

/// How often each address may connect: a token bucket with a burst and a rate per second. A connection beyond it waits for
/// a token of its own. So an address's connections have their turns in the order in which they came, and no address waits
/// for another.
///
/// A table of fixed size whose slots addresses share (a count-min sketch). Each address has two, by a secret hash, and is
/// held up only where both are used up. So memory does not grow, and others hardly ever lose both slots to a flood.
///
/// Worst interleavings, each with its test in `AddressRatesTests`:
/// - A connection that waits leaves: its token is lost, and those behind it come no earlier and no later.
/// - The flood of one address is there when another's connection comes: that one begins at once.
struct AddressRates: Sendable {
    private let rate: Rate
    private let waitingMax: Int
    /// In two rows.
    private var slots: [Allowance] = []

    static let slotsInRow = 8_192

    /// - Parameter waitingMax: connections of an address that may wait for their tokens.
    init(perSecond: Int, burst: Int, waitingMax: Int) {
        rate = Rate(perSecond: perSecond, burst: burst)
        self.waitingMax = waitingMax
        if rate.isBounded { slots = Array(repeating: Allowance(), count: 2 * Self.slotsInRow) }
    }

    /// Takes one token. Returns how long it is until that one is there; nil where too many wait.
    ///
    /// - Parameter address: or something else that has a rate, such as a user.
    mutating func take(_ address: some Hashable, at now: Instant) -> Duration? {
        guard rate.isBounded else { return .zero }
        let hash = UInt(bitPattern: address.hashValue)
        let first = Int(hash % UInt(Self.slotsInRow))
        let second = Self.slotsInRow + Int(hash / UInt(Self.slotsInRow) % UInt(Self.slotsInRow))
        var own = min(slots[first], slots[second])
        guard let wait = own.reserve(rate, at: now, ahead: waitingMax) else { return nil }
        slots[first] = max(slots[first], own)
        slots[second] = max(slots[second], own)
        return wait
    }
}
