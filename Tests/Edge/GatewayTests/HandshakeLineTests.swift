import Channels
import Clock
import Reactor
import Testing

@testable import Gateway

@Suite struct HandshakeLineTests {
    private let now = Instant.read()

    private func id(_ number: Int) -> SessionID { SessionID(slot: UInt32(number), generation: 1) }

    /// A line of two, and everybody waits for the one place.
    private func line(_ waitingMax: Int = 2) -> HandshakeLine {
        var line = HandshakeLine(underWayMax: 1, waitingMax: waitingMax)
        #expect(line.arrived(id(0), at: now) == .begin)
        for number in 1...waitingMax { #expect(line.arrived(id(number), at: now) == .wait) }
        #expect(line.arrived(id(waitingMax + 1), at: now) == .shed)
        return line
    }

    @Test func whoGoesTakesUpNoPlace() {
        var line = line()
        var waiting: Set = [id(1), id(2)]
        line.leaves { waiting.contains($0) }
        waiting.remove(id(1))
        #expect(line.waitingCount == 1)
        waiting.insert(id(4))
        #expect(line.arrived(id(4), at: now) == .wait)
        #expect(line.arrived(id(5), at: now) == .shed)
        line.ended()
        line.tick()
        #expect(line.popReady { waiting.contains($0) } == id(2))
        #expect(line.waitingCount == 1)
        #expect(line.popReady { waiting.contains($0) } == id(4))
        #expect(line.waitingCount == 0)
        #expect(line.popReady { waiting.contains($0) } == nil)
    }

    @Test func aLineOfTheGoneHoldsNobodyUp() {
        var line = line()
        var waiting: Set = [id(1), id(2)]
        for number in 1...2 {
            line.leaves { waiting.contains($0) }
            waiting.remove(id(number))
        }
        #expect(!line.isHeldUp && line.waitingCount == 0)
        line.ended()
        line.tick()
        #expect(line.popReady { waiting.contains($0) } == nil)
        #expect(line.arrived(id(7), at: now) == .begin)
    }

    /// However many come and go while nobody's turn comes, their order is kept, and what is left behind of them is bounded.
    @Test func theyMayComeAndGoForEver() {
        let stay = 3_000
        var line = line(stay + 1)
        var waiting = Set((1...stay + 1).map(id))
        for number in stay + 1..<20_000 {
            line.leaves { waiting.contains($0) }
            waiting.remove(id(number))
            #expect(line.arrived(id(number + 1), at: now) == .wait)
            waiting.insert(id(number + 1))
            #expect(line.waitingCount == stay + 1)
        }
        #expect(line.waiting.count <= 4 * (stay + 1) + 1_024)
        var order: [SessionID] = []
        line.ended()
        while order.count < stay + 1 {
            line.tick()
            while let next = line.popReady({ waiting.contains($0) }) { order.append(next) }
        }
        #expect(order == (1...stay).map(id) + [id(20_000)])
        #expect(line.waitingCount == 0)
    }
}
