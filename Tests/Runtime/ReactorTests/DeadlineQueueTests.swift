import Clock
import TestSupport
import Testing

@testable import Reactor

@Suite struct DeadlineQueueTests {
    @Test(arguments: 0..<20 as Range<UInt64>)
    func agreesWithASortedList(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = DeadlineQueue()
        let sources = (0..<40).map { _ in EventSource() }
        var model: [Int: UInt64] = [:]
        for _ in 0..<2_000 {
            let index = Int.random(in: sources.indices, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0, 1:
                let deadline = UInt64.random(in: 0..<500, using: &random)
                queue.set(sources[index], at: Instant(nanoseconds: deadline))
                model[index] = deadline
            case 2:
                queue.unset(sources[index])
                model[index] = nil
            default:
                let now = UInt64.random(in: 0..<500, using: &random)
                let due = queue.popDue(Instant(nanoseconds: now))
                let least = model.values.min()
                if let least, least <= now {
                    let popped = sources.firstIndex { $0 === due?.takeUnretainedValue() }
                    #expect(popped.flatMap { model[$0] } == least, "seed \(seed)")
                    if let popped { model[popped] = nil }
                } else {
                    #expect(due == nil, "seed \(seed)")
                }
            }
            #expect(queue.count == model.count)
            #expect(queue.earliest?.nanoseconds == model.values.min(), "seed \(seed)")
        }
    }
}
