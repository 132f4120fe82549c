import Bytes
import HubEngine
import Reactor

/// Requests of this loop that name nobody who sends them: no token, no signature. They are cheap each, and cost as much as
/// anything else together. So those of one address share one turn: one of them is handled, then whatever else is ready by
/// then, then the next.
///
/// There is no more than one for each connection: it reads nothing while one waits.
///
/// Worst interleaving: a thousand connections of one address ask at once, and then one of another: that one waits for one of
/// the thousand (`StrangerTurnsTests.oneOfEachAddressHasItsTurn`).
struct StrangerTurns {
    private var queue = FairQueue<PeerAddress, SessionID>(.init(count: .max, countOfKey: .max), isSerial: false)

    /// Addresses that have their turn in one tick. The rest waits for the next.
    static let addressesPerTickMax = 16

    var isEmpty: Bool { queue.count == 0 }

    mutating func append(_ id: SessionID, of address: PeerAddress) {
        _ = queue.append(id, of: address.network)
    }

    /// Those whose turn it is: one of each address.
    mutating func take() -> [SessionID] {
        var ids: [SessionID] = []
        for _ in 0..<min(queue.turnCount, Self.addressesPerTickMax) {
            if let id = queue.pop() { ids.append(id) }
        }
        return ids
    }
}
