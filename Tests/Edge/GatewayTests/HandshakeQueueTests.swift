import Clock
import HubEngine
import Reactor
import TestSupport
import Testing

@testable import Gateway

@Suite struct HandshakeQueueTests {
    private let now = Instant.read()
    private let one = PeerAddress.unix

    private func id(_ number: Int) -> SessionID { SessionID(slot: UInt32(number), generation: 1) }

    /// A queue of two, where all wait for the only slot.
    private func queue(_ waitingMax: Int = 2) -> HandshakeQueue {
        var queue = HandshakeQueue(underWayMax: 1, waitingMax: waitingMax)
        #expect(queue.arrived(id(0), of: one, at: now) == .begin)
        for number in 1...waitingMax { #expect(queue.arrived(id(number), of: one, at: now) == .wait) }
        #expect(queue.arrived(id(waitingMax + 1), of: one, at: now) == .shed)
        return queue
    }

    @Test func aHandshakeThatEndsFreesItsSlot() {
        var queue = queue()
        var waiting: Set = [id(1), id(2)]
        queue.leaves { waiting.contains($0) }
        waiting.remove(id(1))
        #expect(queue.waitingCount == 1)
        waiting.insert(id(4))
        #expect(queue.arrived(id(4), of: one, at: now) == .wait)
        #expect(queue.arrived(id(5), of: one, at: now) == .shed)
        queue.ended()
        queue.tick()
        #expect(queue.popReady { waiting.contains($0) } == id(2))
        #expect(queue.waitingCount == 1)
        #expect(queue.popReady { waiting.contains($0) } == id(4))
        #expect(queue.waitingCount == 0)
        #expect(queue.popReady { waiting.contains($0) } == nil)
    }

    @Test func aLineOfTheGoneHoldsNobodyUp() {
        var queue = queue()
        var waiting: Set = [id(1), id(2)]
        for number in 1...2 {
            queue.leaves { waiting.contains($0) }
            waiting.remove(id(number))
        }
        #expect(!queue.isHeldUp && queue.waitingCount == 0)
        queue.ended()
        queue.tick()
        #expect(queue.popReady { waiting.contains($0) } == nil)
        #expect(queue.arrived(id(7), of: one, at: now) == .begin)
    }

    /// However many come and go while no slot becomes free, the order stays, and stale entries are bounded.
    @Test func theyMayComeAndGoForEver() {
        let stay = 3_000
        var queue = queue(stay + 1)
        var waiting = Set((1...stay + 1).map(id))
        for number in stay + 1..<20_000 {
            queue.leaves { waiting.contains($0) }
            waiting.remove(id(number))
            #expect(queue.arrived(id(number + 1), of: one, at: now) == .wait)
            waiting.insert(id(number + 1))
            #expect(queue.waitingCount == stay + 1)
        }
        #expect(queue.waiting.count <= 4 * (stay + 1) + 1_024)
        var order: [SessionID] = []
        queue.ended()
        while order.count < stay + 1 {
            queue.tick()
            while let next = queue.popReady({ waiting.contains($0) }) { order.append(next) }
        }
        #expect(order == (1...stay).map(id) + [id(20_000)])
        #expect(queue.waitingCount == 0)
    }

    // MARK: Addresses

    /// An office of a thousand comes back; a phone that comes then has the second turn.
    @Test func addressesTakeTurns() throws {
        var queue = HandshakeQueue(underWayMax: 1, waitingMax: 2_000)
        let office = try #require(PeerAddress("192.0.2.1"))
        let phone = try #require(PeerAddress("198.51.100.7"))
        for number in 0...1_000 { _ = queue.arrived(id(number), of: office, at: now) }
        #expect(queue.arrived(id(2_000), of: phone, at: now) == .wait)
        var order: [SessionID] = []
        for _ in 0..<4 {
            queue.ended()
            queue.tick()
            let next = queue.popReady { _ in true }
            guard let next else { break }
            queue.begin(next, at: now)
            order.append(next)
        }
        #expect(order == [id(1), id(2_000), id(2), id(3)])
    }

    /// Against a model: each address has a line, and the lines take turns.
    @Test(arguments: 0..<30 as Range<UInt64>) func turnsAreThoseOfTheModel(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let addresses = try (1...4).map { try #require(PeerAddress("192.0.2.\($0)")) }
        var queue = HandshakeQueue(underWayMax: 3, waitingMax: 40)
        var lines: [(address: PeerAddress, ids: [SessionID])] = []
        var waiting: Set<SessionID> = []
        var (underWay, begun, number) = (0, 0, 0)
        for _ in 0..<3_000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                number += 1
                let address = try #require(addresses.randomElement(using: &random))
                let turn = queue.arrived(id(number), of: address, at: now)
                if waiting.isEmpty, underWay < 3, begun < HandshakeQueue.beginsPerTickMax {
                    #expect(turn == .begin, "seed \(seed)")
                    (underWay, begun) = (underWay + 1, begun + 1)
                } else if waiting.count == 40 {
                    #expect(turn == .shed, "seed \(seed)")
                } else {
                    #expect(turn == .wait, "seed \(seed)")
                    waiting.insert(id(number))
                    if let line = lines.firstIndex(where: { $0.address == address }) {
                        lines[line].ids.append(id(number))
                    } else {
                        lines.append((address, [id(number)]))
                    }
                }
            case 5:
                guard let gone = waiting.sorted(by: { $0.slot < $1.slot }).randomElement(using: &random) else {
                    continue
                }
                queue.leaves { waiting.contains($0) }
                waiting.remove(gone)
            case 6..<8:
                guard underWay > 0 else { continue }
                queue.ended()
                underWay -= 1
            default:
                queue.tick()
                begun = 0
                while let next = queue.popReady({ waiting.contains($0) }) {
                    // The model passes over those that have left, as if each were served.
                    var expected: SessionID?
                    while expected == nil {
                        try #require(!lines.isEmpty, "seed \(seed)")
                        var line = lines.removeFirst()
                        let first = line.ids.removeFirst()
                        if !line.ids.isEmpty { lines.append(line) }
                        if waiting.contains(first) { expected = first }
                    }
                    #expect(next == expected, "seed \(seed)")
                    waiting.remove(next)
                    queue.begin(next, at: now)
                    (underWay, begun) = (underWay + 1, begun + 1)
                }
                // With slots left, those that have left are forgotten.
                if underWay < 3, begun < HandshakeQueue.beginsPerTickMax {
                    #expect(waiting.isEmpty, "seed \(seed)")
                    lines = []
                }
            }
            #expect(queue.waitingCount == waiting.count, "seed \(seed)")
        }
    }
}
