import Clock
import HubEngine
import Reactor
import TestSupport
import Testing

@testable import Gateway

@Suite struct IdentityQueueTests {
    @Test(arguments: 0..<20 as Range<UInt64>)
    func agreesWithASortedList(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = IdentityQueue()
        /// Each session's expected results, as connections remember them.
        var expected: [UInt32: UInt64] = [:]
        for _ in 0..<5_000 {
            let slot = UInt32.random(in: 0..<40, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1, 2:
                let time = UInt64.random(in: 0..<1_000, using: &random)
                if let known = expected[slot] {
                    guard time < known else { continue }
                    queue.abandon()
                }
                expected[slot] = time
                queue.insert(look(slot, time))
            case 3:
                guard expected.removeValue(forKey: slot) != nil else { continue }
                queue.abandon()
            default:
                let now = UInt64.random(in: 0..<500, using: &random)
                guard let look = queue.popDue(Instant(nanoseconds: now)) else {
                    #expect((expected.values.min() ?? .max) > now, "seed \(seed)")
                    continue
                }
                #expect(look.time.nanoseconds <= now)
                if expected[look.session.slot] == look.time.nanoseconds {
                    #expect(expected.values.min() == look.time.nanoseconds, "seed \(seed)")
                    expected[look.session.slot] = nil
                } else {
                    queue.forget()
                }
            }
            queue.sweep { expected[$0.session.slot] == $0.time.nanoseconds }
            #expect(queue.count <= 2 * expected.count + 130, "seed \(seed)")
        }
    }

    private func look(_ slot: UInt32, _ time: UInt64) -> IdentityQueue.Look {
        IdentityQueue.Look(
            time: Instant(nanoseconds: time), session: SessionID(slot: slot, generation: 1))
    }
}
