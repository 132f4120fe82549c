import Bytes
import Channels
import Clock
import Reactor

/// The TLS handshakes of one loop. A whole one costs as much as some hundred deliveries, so that only a few begin in one
/// tick, and whoever has a connection already is served between them; the others wait in line, in order.
///
/// Nothing is kept for a connection whose client has said nothing: it stands in no line. One that goes while it stands there
/// takes up no place; its number is left behind, until its turn comes or half of the line is such numbers.
struct HandshakeLine {
    /// What becomes of a connection whose client begins.
    enum Turn {
        case begin, wait
        /// The line is as long as it may be.
        case shed
    }

    private let underWayMax: Int
    private let waitingMax: Int
    private(set) var waiting = Fifo<SessionID>()
    /// Of those in `waiting`, the ones who have gone.
    private var goneCount = 0
    private var begun = 0
    /// Begun and not complete.
    private(set) var underWay = 0
    /// When whose began, in order; some are at their end meanwhile.
    private var places = Fifo<(id: SessionID, since: Instant)>()

    /// Handshakes begun in one tick: about a millisecond and a half of whole ones.
    static let beginsPerTickMax = 4

    init(underWayMax: Int, waitingMax: Int) {
        self.underWayMax = underWayMax
        self.waitingMax = waitingMax
    }

    /// Connections in line.
    var waitingCount: Int { waiting.count - goneCount }

    private var hasPlace: Bool { underWay < underWayMax && begun < Self.beginsPerTickMax }

    /// Whether the next tick changes anything.
    var awaitsTick: Bool { begun > 0 || (waitingCount > 0 && underWay < underWayMax) }

    /// Whether somebody waits for the end of another's handshake, and not just for the next tick.
    var isHeldUp: Bool { waitingCount > 0 && underWay >= underWayMax }

    /// The first bytes of a connection's client are there.
    mutating func arrived(_ id: SessionID, at now: Instant) -> Turn {
        if waitingCount == 0, hasPlace {
            begin(id, at: now)
            return .begin
        }
        guard waitingCount < waitingMax else { return .shed }
        waiting.append(id)
        return .wait
    }

    /// A new tick: others may begin.
    mutating func tick() {
        begun = 0
    }

    /// One who stands in line goes; `waits` tells who does stand there, this one still among them.
    mutating func leaves(_ waits: (SessionID) -> Bool) {
        if goneCount >= 1024, goneCount * 2 >= waiting.count {
            waiting.sweep(keeping: waits)
            goneCount = 0
        }
        goneCount += 1
    }

    /// The connection whose turn it is, if there is a place; `begin` follows. `waits` as for `leaves`.
    mutating func popReady(_ waits: (SessionID) -> Bool) -> SessionID? {
        guard hasPlace else { return nil }
        while let id = waiting.popFirst() {
            if waits(id) { return id }
            goneCount -= 1
        }
        return nil
    }

    /// A handshake begins.
    mutating func begin(_ id: SessionID, at now: Instant) {
        begun += 1
        underWay += 1
        places.append((id, now))
    }

    /// The handshake that has been under way for the longest time, and since when; `isUnderWay` tells those that are still.
    mutating func longest(_ isUnderWay: (SessionID) -> Bool) -> (id: SessionID, since: Instant)? {
        while let first = places.first, !isUnderWay(first.id) { places.popFirst() }
        return places.first
    }

    /// A handshake that had begun is complete, or has come to nothing.
    mutating func ended() {
        underWay -= 1
    }
}
