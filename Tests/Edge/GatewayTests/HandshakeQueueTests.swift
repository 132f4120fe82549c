import Channels
import Clock
import Reactor
import Testing

@testable import Gateway

@Suite struct HandshakeQueueTests {
    private let now = Instant.read()

    private func id(_ number: Int) -> SessionID { SessionID(slot: UInt32(number), generation: 1) }

    /// A queue of two, where all wait for the only slot.
    private func queue(_ waitingMax: Int = 2) -> HandshakeQueue {
        var queue = HandshakeQueue(underWayMax: 1, waitingMax: waitingMax)
        #expect(queue.arrived(id(0), at: now) == .begin)
        for number in 1...waitingMax { #expect(queue.arrived(id(number), at: now) == .wait) }
        #expect(queue.arrived(id(waitingMax + 1), at: now) == .shed)
        return queue
    }

    @Test func aHandshakeThatEndsFreesItsSlot() {
        var queue = queue()
        var waiting: Set = [id(1), id(2)]
        queue.leaves { waiting.contains($0) }
        waiting.remove(id(1))
        #expect(queue.waitingCount == 1)
        waiting.insert(id(4))
        #expect(queue.arrived(id(4), at: now) == .wait)
        #expect(queue.arrived(id(5), at: now) == .shed)
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
        #expect(queue.arrived(id(7), at: now) == .begin)
    }

    /// However many come and go while no slot becomes free, the order stays, and stale entries are bounded.
    @Test func theyMayComeAndGoForEver() {
        let stay = 3_000
        var queue = queue(stay + 1)
        var waiting = Set((1...stay + 1).map(id))
        for number in stay + 1..<20_000 {
            queue.leaves { waiting.contains($0) }
            waiting.remove(id(number))
            #expect(queue.arrived(id(number + 1), at: now) == .wait)
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
}
