import TestSupport
import Testing

@testable import Bytes

@Suite struct FifoTests {
    /// Random histories compared with an array, for queues from a few elements to thousands, which give room back.
    @Test(arguments: [1, 40, 3_000]) func asAnArrayWouldHaveIt(_ scale: Int) {
        var random = SeededRandom()
        let seed = random.seed
        var fifo = Fifo<Int>()
        var model: [Int] = []
        for step in 0..<200 {
            let many = Int.random(in: 0...scale, using: &random)
            switch Int.random(in: 0..<12, using: &random) {
            case 0...3:
                for number in 0..<many {
                    fifo.append(step * scale + number)
                    model.append(step * scale + number)
                }
            case 4...7:
                for _ in 0..<many {
                    #expect(fifo.popFirst() == model.first, "seed \(seed)")
                    if !model.isEmpty { model.removeFirst() }
                }
            case 8:
                for number in 0..<min(many, 5) {
                    fifo.prepend(-number)
                    model.insert(-number, at: 0)
                }
            case 9, 10:
                for number in 0..<min(many, 5) {
                    let index = Int.random(in: 0...model.count, using: &random)
                    if index < model.count, Bool.random(using: &random) {
                        #expect(fifo.remove(at: index) == model.remove(at: index), "seed \(seed)")
                    } else {
                        fifo.insert(-number, at: index)
                        model.insert(-number, at: index)
                    }
                }
            default:
                let kept = Int.random(in: 1...4, using: &random)
                fifo.sweep { $0 % kept == 0 }
                model.removeAll { $0 % kept != 0 }
            }
            #expect(fifo.count == model.count && fifo.isEmpty == model.isEmpty, "seed \(seed)")
            #expect(fifo.first == model.first && fifo.last == model.last, "seed \(seed)")
            #expect(model.indices.allSatisfy { fifo[$0] == model[$0] }, "seed \(seed)")
        }
        for element in model { #expect(fifo.popFirst() == element, "seed \(seed)") }
        #expect(fifo.popFirst() == nil && fifo.first == nil)
    }

    /// Also when elements keep coming and the queue is never empty.
    @Test func whatWasTakenOutTakesNoRoom() {
        var fifo = Fifo<Int>()
        for number in 0..<100_000 { fifo.append(number) }
        for number in 0..<99_000 { #expect(fifo.popFirst() == number) }
        for number in 0..<50_000 {
            fifo.append(100_000 + number)
            #expect(fifo.popFirst() == 99_000 + number)
        }
        #expect(fifo.count == 1_000)
        #expect(fifo.elements.capacity <= 8 * 1_000 + 64)
        fifo.sweep { $0 == 149_999 }
        #expect(fifo.count == 1 && fifo.elements.capacity <= 8 + 64)
        #expect(fifo.popFirst() == 149_999 && fifo.elements.capacity <= 64)
    }

    /// Actions hold their payloads: each is released when it is removed, not later.
    @Test func whatWasTakenOutIsLetGo() {
        final class Held {}
        var fifo = Fifo<Held>()
        weak var first: Held?
        do {
            let held = Held()
            first = held
            fifo.append(held)
        }
        fifo.append(Held())
        #expect(first != nil)
        fifo.popFirst()
        #expect(first == nil && fifo.count == 1)
    }
}
