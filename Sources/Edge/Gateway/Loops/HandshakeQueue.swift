import Bytes
import Clock
import HubEngine
import Reactor

/// The queue of one loop's TLS handshakes. A full one costs as much as some hundred deliveries, so only a few begin in one
/// tick, and existing connections are served in between. The others wait: addresses take turns, and the connections of one
/// address keep their order. So an office that comes back with a thousand devices delays nobody else by more than one
/// handshake for each address.
///
/// A connection whose client has sent nothing is not in the queue. One that leaves frees its slot; its id stays until its
/// turn, or until half of the queue is such ids.
///
/// Worst interleavings, each with its test in `HandshakeQueueTests`:
/// - One address fills the queue, and another's connection comes (`addressesTakeTurns`).
/// - Connections come and leave for ever, and no slot becomes free (`theyMayComeAndGoForEver`).
/// - All of an address's connections have left when its turn comes (`aLineOfTheGoneHoldsNobodyUp`).
struct HandshakeQueue {
    /// What happens to a connection whose client begins.
    enum Turn {
        case begin, wait
        case shed
    }

    private let underWayMax: Int
    private let waitingMax: Int
    private(set) var waiting = FairQueue<PeerAddress, SessionID>(.init(count: .max, countOfKey: .max), isSerial: false)
    /// Entries of `waiting` that have left.
    private var goneCount = 0
    private var begun = 0
    private(set) var underWay = 0
    /// When each handshake began, in order. Some have ended since.
    private var beginnings = Fifo<(id: SessionID, since: Instant)>()

    /// Handshakes begun in one tick: about 1.5 milliseconds of full ones.
    static let beginsPerTickMax = 4

    init(underWayMax: Int, waitingMax: Int) {
        self.underWayMax = underWayMax
        self.waitingMax = waitingMax
    }

    var waitingCount: Int { waiting.count - goneCount }

    private var hasSlot: Bool { underWay < underWayMax && begun < Self.beginsPerTickMax }

    var awaitsTick: Bool { begun > 0 || (waitingCount > 0 && underWay < underWayMax) }

    /// Whether a connection waits for another's handshake to end, not just for the next tick.
    var isHeldUp: Bool { waitingCount > 0 && underWay >= underWayMax }

    mutating func arrived(_ id: SessionID, of address: PeerAddress, at now: Instant) -> Turn {
        if waitingCount == 0, hasSlot {
            begin(id, at: now)
            return .begin
        }
        guard waitingCount < waitingMax, waiting.append(id, of: address) != nil else { return .shed }
        return .wait
    }

    /// A new tick: more handshakes may begin.
    mutating func tick() {
        begun = 0
    }

    /// A waiting connection leaves. `waits` tells which connections wait, this one still included.
    mutating func leaves(_ waits: (SessionID) -> Bool) {
        if goneCount >= 1024, goneCount * 2 >= waiting.count {
            _ = waiting.remove { !waits($0) }
            goneCount = 0
        }
        goneCount += 1
    }

    /// The connection whose turn it is, if there is a slot; call `begin` next. `waits` as in `leaves`.
    mutating func popReady(_ waits: (SessionID) -> Bool) -> SessionID? {
        guard hasSlot else { return nil }
        while let id = waiting.pop() {
            if waits(id) { return id }
            goneCount -= 1
        }
        return nil
    }

    mutating func begin(_ id: SessionID, at now: Instant) {
        begun += 1
        underWay += 1
        beginnings.append((id, now))
    }

    /// The oldest handshake in progress, and its start; `isUnderWay` tells which are still in progress.
    mutating func longest(_ isUnderWay: (SessionID) -> Bool) -> (id: SessionID, since: Instant)? {
        while let first = beginnings.first, !isUnderWay(first.id) { beginnings.popFirst() }
        return beginnings.first
    }

    /// A handshake in progress is complete, or has failed.
    mutating func ended() {
        underWay -= 1
    }
}
